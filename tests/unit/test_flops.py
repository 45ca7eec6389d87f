"""Counted arithmetic against sums written out position by position, and against torch's own count of a real pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from engine import LoadedModel
from engine.errors import InvalidSetting, UnsupportedConfig
from engine.measure.flops import attention_flops, decode_flops, prefill_flops
from engine.model.shape import ModelShape

Tiny = Callable[..., LoadedModel]
SHAPE = ModelShape("llama", 3, 32, 4, 2, 8, 100, 1024, (None, 5, None))


def written_out(shape: ModelShape, tokens: int) -> int:
    """One multiply-add after the other: for each layer, position, token read, head and dimension, q·k and the weighting of v."""
    total = 0
    for window in shape.layer_windows:
        for position in range(tokens):
            for key in range(position + 1):
                if window is None or position - key < window:
                    total += 2 * 2 * shape.num_attention_heads * shape.head_dim
    return total


@pytest.mark.parametrize("windows", [(None, None, None), (5, 5, 5), (None, 5, 1), (40, 12, None)])
@pytest.mark.parametrize("tokens", [1, 2, 4, 5, 6, 40, 41])
def test_attention_written_out(windows: tuple[int | None, ...], tokens: int) -> None:
    shape = replace(SHAPE, layer_windows=windows)
    assert attention_flops(shape, tokens) == written_out(shape, tokens)


def test_attention_grows_with_the_square_without_windows_and_with_the_line_behind_them() -> None:
    full, sliding = replace(SHAPE, layer_windows=(None,) * 3), replace(SHAPE, layer_windows=(5,) * 3)
    assert attention_flops(full, 2000) / attention_flops(full, 1000) == pytest.approx(4, rel=1e-3)
    assert attention_flops(sliding, 2000) / attention_flops(sliding, 1000) == pytest.approx(2, rel=1e-2)


def test_attention_does_not_know_groups() -> None:
    assert attention_flops(replace(SHAPE, num_key_value_heads=1), 9) == attention_flops(replace(SHAPE, num_key_value_heads=4), 9)


@pytest.mark.parametrize("kind", ["llama", "qwen3", "gemma3", "gpt2"])
def test_a_prompt_is_its_tokens_one_by_one_but_for_the_head(tiny: Tiny, kind: str) -> None:
    """Reading n tokens at once or one after the other is the same work; only the head is asked once instead of n times."""
    info = tiny(kind).info
    one_by_one = sum(decode_flops(info, context) for context in range(1, 101))
    assert prefill_flops(info, 100) == one_by_one - 99 * 2 * info.head_parameters


def test_smollm2_by_hand(tiny: Tiny) -> None:
    """30 layers, 9 heads of 64; 106,203,456 in the body, 28,311,552 in the tied head (facts: 134,515,008 in all)."""
    shape = ModelShape("llama", 30, 576, 9, 3, 64, 49152, 8192, (None,) * 30)
    info = replace(tiny().info, shape=shape, body_parameters=106_203_456, head_parameters=28_311_552)
    assert prefill_flops(info, 1) == 2 * 134_515_008 + 4 * 30 * 9 * 64
    assert prefill_flops(info, 1024) == 2 * 106_203_456 * 1024 + 2 * 28_311_552 + 4 * 30 * 9 * 64 * (1024 * 1025 // 2)


@pytest.mark.parametrize("tokens", [7, 64])
def test_torch_counts_the_same_products(tiny: Tiny, tokens: int) -> None:
    """Eager attention: torch's counter sees every product, with the whole square instead of the causal half, and no norm weights."""
    model = tiny("llama")
    network, shape, info = model.model, model.shape, model.info
    counter = FlopCounterMode(display=False)
    network.set_attn_implementation("eager")
    try:
        with counter, torch.inference_mode():
            network(torch.arange(tokens)[None], use_cache=False, logits_to_keep=torch.tensor([-1]))
    finally:
        network.set_attn_implementation("openbook")
    counted = {str(name): flops for name, flops in counter.get_flop_counts()["Global"].items()}
    norms = sum(one.numel() for one in network.parameters() if one.ndim == 1)
    linear = prefill_flops(info, tokens) - attention_flops(shape, tokens)
    assert counted.pop("aten.mm") == linear - 2 * norms * tokens
    square = 4 * 3 * shape.num_attention_heads * shape.head_dim * tokens**2
    assert counted == {"aten.bmm": square}
    assert attention_flops(shape, tokens) == pytest.approx(square * (tokens + 1) / (2 * tokens))


def test_what_the_numbers_do_not_tell_is_refused(tiny: Tiny) -> None:
    info = tiny().info
    with pytest.raises(InvalidSetting):
        prefill_flops(info, 0)
    with pytest.raises(InvalidSetting):
        decode_flops(info, 0)
    with pytest.raises(UnsupportedConfig):
        prefill_flops(replace(info, body_parameters=0), 5)
    with pytest.raises(UnsupportedConfig):
        attention_flops(replace(SHAPE, kv_lora_rank=16), 5)
    with pytest.raises(UnsupportedConfig):
        attention_flops(replace(SHAPE, layer_windows=(None, None)), 5)
