"""Families whose attention cannot be rebuilt get a reason and still run; fields that a family does not read change nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, DeepseekV3Config, FalconConfig, GPTNeoXConfig, PreTrainedConfig

from engine import Run, RunSettings, load_model
from engine.errors import AttentionUnavailable
from engine.kv.sizes import kv_bytes
from engine.settings import Settings
from tests.fakes import make_tokenizer

RAW = RunSettings(max_new_tokens=4, use_chat_template=False, ignore_eos=True)
SIZES = {"vocab_size": 400, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4}
LATENT = {"q_lora_rank": 8, "kv_lora_rank": 8, "qk_rope_head_dim": 4, "qk_nope_head_dim": 8, "v_head_dim": 8}
EXPERTS = {
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "n_group": 1,
    "topk_group": 1,
    "moe_intermediate_size": 16,
    "first_k_dense_replace": 1,
}


def checkpoint(config: PreTrainedConfig, folder: Path) -> str:
    tokenizer = make_tokenizer()
    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(config, dtype=torch.float32).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (DeepseekV3Config(**SIZES, **LATENT, **EXPERTS, num_key_value_heads=4, intermediate_size=64), "latent"),
        (FalconConfig(**SIZES), "unrecorded"),
        (FalconConfig(**SIZES, alibi=True), "position"),
    ],
    ids=["deepseek_v3", "falcon", "falcon with alibi"],
)
def test_a_family_without_maps_says_why_and_runs(config: PreTrainedConfig, reason: str, tmp_path: Path) -> None:
    model = load_model(
        checkpoint(config, tmp_path / "model"), device="cpu", dtype="float32", settings=Settings(home=tmp_path, offline=True)
    )
    assert model.info.attention_reason == reason
    run = Run(model, "the cat sat on the mat", RAW)
    assert len([run.prefill(), *run.decode()]) == 4
    for look in (lambda: run.attention(0, 0), lambda: run.links(3, 1)):
        with pytest.raises(AttentionUnavailable) as caught:
            look()
        assert caught.value.info.params == {"reason": reason}
    tokens = len(run.tokens) + 3
    assert run.kv_bytes() == kv_bytes(model.shape, tokens=tokens, dtype_bytes=4)


def test_a_field_that_a_family_does_not_read_changes_nothing(tmp_path: Path) -> None:
    config = GPTNeoXConfig(**SIZES, intermediate_size=64, num_key_value_heads=2)
    model = load_model(
        checkpoint(config, tmp_path / "model"), device="cpu", dtype="float32", settings=Settings(home=tmp_path, offline=True)
    )
    assert model.shape.num_key_value_heads == 4
    run = Run(model, "the cat", RAW)
    run.prefill()
    assert run.kv_bytes() == kv_bytes(model.shape, tokens=len(run.tokens), dtype_bytes=4)
