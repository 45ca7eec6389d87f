"""Shapes from configs: against transformers' own classes, the verified table, and configs that mislead."""

from __future__ import annotations

from typing import Any

import pytest
from transformers import AutoConfig, DynamicCache
from transformers.cache_utils import DummyLayer

from engine.errors import UnsupportedConfig
from engine.kv.sizes import kv_bytes_per_token
from engine.model.shape import ModelShape, shape_from_config
from tests.fakes import KINDS, make_config

LLAMA = {
    "model_type": "llama",
    "num_hidden_layers": 4,
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 100,
    "max_position_embeddings": 256,
}
SMALL = {"num_hidden_layers": 6, "hidden_size": 64, "num_attention_heads": 8, "num_key_value_heads": 4, "max_position_embeddings": 512}


def config(model_type: str, layers: int, hidden: int, heads: int, kv_heads: int | None, **more: Any) -> dict[str, Any]:
    base = {"model_type": model_type, "num_hidden_layers": layers, "hidden_size": hidden, "num_attention_heads": heads}
    return base | ({} if kv_heads is None else {"num_key_value_heads": kv_heads}) | more


MLA = {"kv_lora_rank": 512, "qk_rope_head_dim": 64, "v_head_dim": 128}
# Bytes of one token in 16 bits, inside every window: verified against the models' own configs and filled caches.
PER_TOKEN: list[tuple[str, dict[str, Any], int]] = [
    ("GPT-2 124M", {"model_type": "gpt2", "n_layer": 12, "n_head": 12, "n_embd": 768, "n_positions": 1024}, 36_864),
    ("OPT-13B", config("opt", 40, 5120, 40, None), 819_200),
    ("Llama-2-7B", config("llama", 32, 4096, 32, 32), 524_288),
    ("Llama-3.1-8B", config("llama", 32, 4096, 32, 8), 131_072),
    ("Llama-3.1-405B", config("llama", 126, 16384, 128, 8), 516_096),
    ("Mistral-7B-v0.1", config("mistral", 32, 4096, 32, 8, sliding_window=4096), 131_072),
    ("Mixtral-8x7B", config("mixtral", 32, 4096, 32, 8, sliding_window=None), 131_072),
    ("Falcon-7B", config("falcon", 32, 4544, 71, None, num_kv_heads=71, multi_query=True, new_decoder_architecture=False), 8_192),
    ("Falcon-40B", config("falcon", 60, 8192, 128, None, num_kv_heads=8, multi_query=True, new_decoder_architecture=True), 122_880),
    ("Qwen-72B (v1)", config("qwen", 80, 8192, 64, None, kv_channels=128, seq_length=32_768), 2_621_440),
    ("Qwen1.5-72B", config("qwen2", 80, 8192, 64, 64, use_sliding_window=False), 2_621_440),
    ("Qwen2.5-72B", config("qwen2", 80, 8192, 64, 8, sliding_window=131_072, use_sliding_window=False), 327_680),
    ("Qwen2.5-0.5B", config("qwen2", 24, 896, 14, 2, sliding_window=32_768, use_sliding_window=False, max_window_layers=21), 12_288),
    ("Qwen3-0.6B", config("qwen3", 28, 1024, 16, 8, head_dim=128), 114_688),
    ("Qwen3-32B", config("qwen3", 64, 5120, 64, 8, head_dim=128), 262_144),
    ("Gemma-2-9B", config("gemma2", 42, 3584, 16, 8, head_dim=256, sliding_window=4096), 344_064),
    ("Gemma-3-270M", config("gemma3_text", 18, 640, 4, 1, head_dim=256, sliding_window=512), 18_432),
    ("Gemma-3-1B", config("gemma3_text", 26, 1152, 4, 1, head_dim=256, sliding_window=512, sliding_window_pattern=6), 26_624),
    ("Gemma-3n-E4B", config("gemma3n_text", 35, 2048, 8, 2, head_dim=256, num_kv_shared_layers=15), 40_960),
    ("Phi-3-mini-4k", config("phi3", 32, 3072, 32, 32, sliding_window=2047), 393_216),
    ("SmolLM2-135M", config("llama", 30, 576, 9, 3), 23_040),
    ("SmolLM2-1.7B", config("llama", 24, 2048, 32, 32), 196_608),
    ("DeepSeek-V2-Lite", config("deepseek_v2", 27, 2048, 16, 16, **MLA), 31_104),
    ("DeepSeek-V3", config("deepseek_v3", 61, 7168, 128, 128, **MLA), 70_272),
    ("gpt-oss-20b", config("gpt_oss", 24, 2880, 64, 8, head_dim=64, sliding_window=128), 49_152),
]


@pytest.mark.parametrize(("name", "given", "per_token"), PER_TOKEN, ids=[row[0] for row in PER_TOKEN])
def test_verified_models(name: str, given: dict[str, Any], per_token: int) -> None:
    assert kv_bytes_per_token(shape_from_config(given)) == per_token


@pytest.mark.parametrize(
    ("model_type", "layers", "full", "sliding", "window"),
    [
        ("gemma3_text", 18, 3, 15, 512),
        ("gemma3_text", 62, 10, 52, 1024),
        ("gemma3_text", 34, 5, 29, 1024),
        ("gemma2", 42, 21, 21, 4096),
        ("gpt_oss", 24, 12, 12, 128),
        ("gemma3n_text", 35, 4, 16, 512),
        ("mistral", 32, 0, 32, 4096),
    ],
)
def test_full_and_sliding_layers(model_type: str, layers: int, full: int, sliding: int, window: int) -> None:
    windows = shape_from_config(config(model_type, layers, 64, 8, 4, sliding_window=window)).layer_windows
    assert windows.count(None) == full
    assert windows.count(window) == sliding


VARIANTS: list[tuple[str, dict[str, Any]]] = [
    ("llama", SMALL),
    ("llama", SMALL | {"num_key_value_heads": None, "head_dim": 32}),
    ("mistral", SMALL),
    ("mistral", SMALL | {"sliding_window": None}),
    ("mixtral", SMALL),
    ("qwen2", SMALL | {"use_sliding_window": False, "sliding_window": 16}),
    ("qwen2", SMALL | {"use_sliding_window": True, "sliding_window": 16, "max_window_layers": 4}),
    ("qwen2_moe", SMALL),
    ("qwen3", SMALL),
    ("qwen3_moe", SMALL),
    ("gemma", SMALL),
    ("gemma2", SMALL),
    ("gemma3_text", SMALL | {"sliding_window_pattern": 3}),
    ("gemma3_text", SMALL),
    ("gemma3n_text", SMALL | {"num_hidden_layers": 12, "num_kv_shared_layers": 5}),
    ("phi", SMALL),
    ("phi3", SMALL | {"sliding_window": 2047}),
    ("starcoder2", SMALL),
    ("stablelm", SMALL),
    ("olmo2", SMALL),
    ("olmo3", SMALL),
    ("granite", SMALL),
    ("cohere2", SMALL),
    ("smollm3", SMALL),
    ("gpt_oss", SMALL),
    ("opt", {key: value for key, value in SMALL.items() if key != "num_key_value_heads"}),
    ("gpt_neox", {key: value for key, value in SMALL.items() if key != "num_key_value_heads"}),
    ("gpt2", {"n_layer": 5, "n_head": 4, "n_embd": 32, "n_positions": 128}),
    ("gptj", {"n_layer": 5, "n_head": 4, "n_embd": 32, "n_positions": 128}),
    ("gpt_bigcode", {"n_layer": 5, "n_head": 4, "n_embd": 32, "n_positions": 128}),
]


def cache_windows(given: Any) -> tuple[int | None, ...]:
    """What transformers itself would build for this config: one entry per layer that keeps something."""
    layers = DynamicCache(config=given).layers
    return tuple(getattr(layer, "sliding_window", None) for layer in layers if not isinstance(layer, DummyLayer))


@pytest.mark.parametrize(("model_type", "changes"), VARIANTS, ids=[f"{row[0]}-{index}" for index, row in enumerate(VARIANTS)])
def test_transformers_agrees(model_type: str, changes: dict[str, Any]) -> None:
    """The shape of the short dict, of transformers' full to_dict(), and transformers' own object are one and the same."""
    theirs = AutoConfig.for_model(model_type, **changes)
    full, short = shape_from_config(theirs.to_dict()), shape_from_config({"model_type": model_type} | changes)
    assert (full.layer_windows, full.num_key_value_heads, full.head_dim) == (short.layer_windows, short.num_key_value_heads, short.head_dim)
    if full.layer_windows:
        assert full.layer_windows == cache_windows(theirs)
    assert full.num_hidden_layers == theirs.num_hidden_layers
    assert full.hidden_size == theirs.hidden_size
    assert full.num_attention_heads == theirs.num_attention_heads
    assert full.vocab_size == theirs.vocab_size
    assert full.max_position_embeddings == theirs.max_position_embeddings
    assert full.head_dim == (getattr(theirs, "head_dim", None) or theirs.hidden_size // theirs.num_attention_heads)


@pytest.mark.parametrize("kind", KINDS)
def test_tiny_models(kind: str) -> None:
    theirs = make_config(kind, 400)
    shape = shape_from_config(theirs.to_dict())
    assert shape.layer_windows == cache_windows(theirs)
    assert shape.group_size == (1 if kind == "gpt2" else 2)


def test_nested_text_config() -> None:
    """Gemma 3 4B writes only what differs from the class: heads, KV heads and head_dim come from there."""
    inner = {"hidden_size": 2560, "intermediate_size": 10240, "model_type": "gemma3_text", "num_hidden_layers": 34, "sliding_window": 1024}
    shape = shape_from_config({"model_type": "gemma3", "text_config": inner, "vision_config": {"hidden_size": 1152}})
    assert shape.model_type == "gemma3_text"
    assert (shape.num_attention_heads, shape.num_key_value_heads, shape.head_dim, shape.hidden_size) == (8, 4, 256, 2560)
    assert kv_bytes_per_token(shape) == 139_264
    assert shape == shape_from_config({"model_type": "gemma3", "text_config": {k: v for k, v in inner.items() if k != "model_type"}})


def test_layer_types_win_over_the_pattern() -> None:
    kinds = ["full_attention", "sliding_attention", "full_attention", "full_attention"]
    shape = shape_from_config(config("gemma3_text", 4, 64, 4, 1, sliding_window=8, layer_types=kinds))
    assert shape.layer_windows == (None, 8, None, None)


def test_config_without_a_model_type() -> None:
    named = {key: value for key, value in LLAMA.items() if key != "model_type"}
    assert shape_from_config(named).layer_windows == (None,) * 4
    assert shape_from_config({"n_layer": 12, "n_head": 12, "n_embd": 768}).head_dim == 64


@pytest.mark.parametrize("changes", [{}, {"head_dim": None}, {"head_dim": 16}])
def test_head_dim_absent_null_or_equal(changes: dict[str, Any]) -> None:
    assert shape_from_config(LLAMA | changes).head_dim == 16


def test_head_dim_of_qwen3_is_not_a_quotient() -> None:
    """5120 / 64 = 80 is the wrong figure in circulation."""
    for changes in ({}, {"head_dim": None}, {"head_dim": 128}):
        assert shape_from_config(config("qwen3", 64, 5120, 64, 8, **changes)).head_dim == 128


BAD: list[tuple[dict[str, Any], str]] = [
    ({"model_type": "mamba"}, "model_type"),
    ({"model_type": 7}, "model_type"),
    ({"num_hidden_layers": None}, "num_hidden_layers"),
    ({"num_hidden_layers": 0}, "num_hidden_layers"),
    ({"num_hidden_layers": 10**9}, "num_hidden_layers"),
    ({"num_attention_heads": 0}, "num_attention_heads"),
    ({"num_attention_heads": -4}, "num_attention_heads"),
    ({"num_attention_heads": None}, "num_attention_heads"),
    ({"num_attention_heads": True}, "num_attention_heads"),
    ({"num_attention_heads": "4"}, "num_attention_heads"),
    ({"num_attention_heads": 4.5}, "num_attention_heads"),
    ({"num_key_value_heads": 0}, "num_key_value_heads"),
    ({"num_key_value_heads": 3}, "num_key_value_heads"),
    ({"hidden_size": None}, "hidden_size"),
    ({"hidden_size": 10**30}, "hidden_size"),
    ({"hidden_size": 66}, "head_dim"),
    ({"head_dim": 0}, "head_dim"),
    ({"head_dim": []}, "head_dim"),
    ({"layer_types": ["full_attention"] * 3}, "layer_types"),
    ({"layer_types": ["linear_attention"] * 4}, "layer_types"),
    ({"layer_types": [["full_attention"]] * 4}, "layer_types"),
    ({"layer_types": "full"}, "layer_types"),
    ({"layer_types": ["sliding_attention"] * 4}, "sliding_window"),
    ({"model_type": "gemma2", "sliding_window": None}, "sliding_window"),
    ({"model_type": "mistral", "sliding_window": 0}, "sliding_window"),
    ({"model_type": "qwen2", "use_sliding_window": "no"}, "use_sliding_window"),
    ({"model_type": "gemma3_text", "use_bidirectional_attention": True}, "use_bidirectional_attention"),
    ({"model_type": "gemma3n_text", "num_kv_shared_layers": 4}, "num_kv_shared_layers"),
    ({"model_type": "deepseek_v3"}, "v_head_dim"),
    ({"model_type": "gemma3"}, "text_config"),
    ({"text_config": "x"}, "text_config"),
    ({"model_type": None, "sliding_window": 8}, "layer_types"),
    ({"model_type": None, "attn_layer_period": 8}, "attn_layer_period"),
    ({"model_type": None, "kv_lora_rank": 8}, "kv_lora_rank"),
    ({"vocab_size": -1}, "vocab_size"),
]


@pytest.mark.parametrize(("changes", "field"), BAD, ids=[f"{row[1]}-{index}" for index, row in enumerate(BAD)])
def test_doubt_is_refused_by_name(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(UnsupportedConfig) as caught:
        shape_from_config(LLAMA | changes)
    assert caught.value.params["field"] == field


@pytest.mark.parametrize("given", [None, [], "llama", 3])
def test_what_is_no_config(given: Any) -> None:
    with pytest.raises(UnsupportedConfig, match="config"):
        shape_from_config(given)
    with pytest.raises(UnsupportedConfig):
        shape_from_config({})


def test_shape_is_complete() -> None:
    assert shape_from_config(LLAMA) == ModelShape("llama", 4, 64, 4, 2, 16, 100, 256, (None,) * 4)
