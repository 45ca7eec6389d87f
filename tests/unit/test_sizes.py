"""Cache arithmetic against published figures, and against caches that transformers filled."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import DynamicCache

from engine.errors import InvalidSetting
from engine.kv.sizes import kv_bytes, kv_bytes_per_token
from engine.model.shape import ModelShape, shape_from_config
from tests.fakes import KINDS, make_config

GIB, GB = 1024**3, 10**9


def shape_of(layers: int, heads: int, kv_heads: int, head_dim: int, windows: tuple[int | None, ...] | None = None) -> ModelShape:
    return ModelShape("test", layers, heads * head_dim, heads, kv_heads, head_dim, 1, 1, windows or (None,) * layers)


LLAMA_8B, LLAMA_70B, LLAMA_405B = shape_of(32, 32, 8, 128), shape_of(80, 64, 8, 128), shape_of(126, 128, 8, 128)
QWEN_72B, QWEN_72B_MHA = shape_of(80, 64, 8, 128), shape_of(80, 64, 64, 128)
MISTRAL = shape_of(32, 32, 8, 128, (4096,) * 32)
DEEPSEEK_V3 = ModelShape("deepseek_v3", 61, 7168, 128, 128, 128, 1, 1, (None,) * 61, 512, 64)


@pytest.mark.parametrize(
    ("shape", "tokens", "expected"),
    [
        (shape_of(40, 40, 40, 128), 1, 819_200),
        (shape_of(32, 32, 32, 128), 4096, 2_147_483_648),
        (LLAMA_8B, 1024, GIB // 8),
        (LLAMA_8B, 128_000, 15.625 * GIB),
        (LLAMA_70B, 16_000, 4.8828125 * GIB),
        (LLAMA_70B, 131_072, 42_949_672_960),
        (LLAMA_405B, 1, 516_096),
        (QWEN_72B, 131_072, 40 * GIB),
        (QWEN_72B_MHA, 131_072, 320 * GIB),
        (QWEN_72B_MHA, 32_768, 85_899_345_920),
        (MISTRAL, 32_768, GIB // 2),
        (shape_of(32, 32, 8, 128), 32_768, 4 * GIB),
        (shape_of(32, 32, 32, 128), 32_768, 17_179_869_184),
        (DEEPSEEK_V3, 1, 70_272),
        (shape_of(30, 9, 3, 64), 36, 829_440),
        (shape_of(30, 9, 9, 64), 36, 2_488_320),
        (LLAMA_8B, 0, 0),
    ],
)
def test_published_figures(shape: ModelShape, tokens: int, expected: float) -> None:
    assert kv_bytes(shape, tokens=tokens) == expected


@pytest.mark.parametrize(
    ("shape", "tokens", "wrong"),
    [
        (LLAMA_405B, 128_000, 123.05 * GIB),
        (LLAMA_70B, 131_072, 328 * GB),
        (shape_of(28, 28, 4, 128), 32_768, 40 * GB),
        (shape_of(64, 64, 8, 128), 1, 160 * 1024),
        (DEEPSEEK_V3, 1, 124_928),
        (shape_of(1, 64, 8, 128), 1, 2048),
    ],
)
def test_figures_in_circulation_that_are_wrong(shape: ModelShape, tokens: int, wrong: float) -> None:
    assert kv_bytes(shape, tokens=tokens) < 0.95 * wrong or kv_bytes(shape, tokens=tokens) > 1.5 * wrong


def test_batch_and_dtype_are_factors() -> None:
    once = kv_bytes(LLAMA_8B, tokens=10)
    assert kv_bytes(LLAMA_8B, tokens=10, batch=7, dtype_bytes=4) == 14 * once
    assert once == 10 * kv_bytes_per_token(LLAMA_8B)
    assert kv_bytes_per_token(LLAMA_8B, dtype_bytes=1) * 2 == kv_bytes_per_token(LLAMA_8B)


def test_a_window_stops_the_growth() -> None:
    shape = shape_of(3, 4, 1, 16, (8, 8, None))
    price = 2 * 16 * 2
    assert [kv_bytes(shape, tokens=n) // price for n in (7, 8, 9, 100)] == [21, 24, 25, 116]
    assert [kv_bytes(shape, tokens=n, between_steps=True) // price for n in (7, 8, 9, 100)] == [21, 22, 23, 114]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_filled_cache_has_these_bytes(kind: str, dtype: torch.dtype) -> None:
    """Transformers' own cache, fed at once and then token by token past the window (64) of the tiny Gemma 3."""
    config = make_config(kind, 400)
    shape = shape_from_config(config.to_dict())
    cache: Any = DynamicCache(config=config)
    tokens = 0
    for block in (60, *[1] * 8):
        for layer in range(shape.num_hidden_layers):
            states = torch.zeros(1, shape.num_key_value_heads, block, shape.head_dim, dtype=dtype)
            cache.update(states, states, layer)
        tokens += block
        held = sum(layer.keys.nbytes + layer.values.nbytes for layer in cache.layers)
        assert held == kv_bytes(shape, tokens=tokens, dtype_bytes=dtype.itemsize, between_steps=True)


@pytest.mark.parametrize("changes", [{"tokens": -1}, {"batch": -1}, {"dtype_bytes": 0}])
def test_negative_numbers_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidSetting, match=next(iter(changes))):
        kv_bytes(LLAMA_8B, **{"tokens": 1} | changes)
