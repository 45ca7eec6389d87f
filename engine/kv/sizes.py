"""How many bytes a KV cache takes, by arithmetic alone.

Knows a model's shape; does not know any live cache (engine.kv.cache measures that) nor the allocator's own overhead.

    bytes = batch · dtype_bytes · Σ over layers that own a cache  min(tokens, window) · width
    width = 2 · num_key_value_heads · head_dim          keys and values
          = kv_lora_rank + qk_rope_head_dim             MLA (DeepSeek-V2, arXiv:2405.04434): one latent, no factor 2
"""

from __future__ import annotations

from engine.errors import InvalidSetting
from engine.model.shape import ModelShape


def layer_token_width(shape: ModelShape) -> int:
    """Numbers that one layer stores for one token."""
    if shape.kv_lora_rank is not None and shape.qk_rope_head_dim is not None:
        return shape.kv_lora_rank + shape.qk_rope_head_dim
    return 2 * shape.num_key_value_heads * shape.head_dim


def kv_bytes_per_token(shape: ModelShape, dtype_bytes: int = 2) -> int:
    """Bytes of one token in every layer that owns a cache, while it is inside every window."""
    _at_least("dtype_bytes", dtype_bytes, 1)
    return len(shape.layer_windows) * layer_token_width(shape) * dtype_bytes


def layer_tokens(shape: ModelShape, tokens: int, *, between_steps: bool = False) -> int:
    """Σ over layers of the tokens each one keeps: all of them, or at most its window.

    `between_steps`: what a transformers DynamicCache holds at rest: window − 1 in a sliding layer, since the next token fills the window.
    """
    _at_least("tokens", tokens, 0)
    held = 1 if between_steps else 0
    return sum(tokens if window is None else min(tokens, window - held) for window in shape.layer_windows)


def kv_bytes(shape: ModelShape, *, tokens: int, batch: int = 1, dtype_bytes: int = 2, between_steps: bool = False) -> int:
    """Bytes of the cache for `batch` sequences of `tokens` tokens; window-aware. Raises InvalidSetting on a negative number.

    `between_steps` as in layer_tokens: set it to compare with tensors measured between two steps.
    """
    _at_least("batch", batch, 0)
    _at_least("dtype_bytes", dtype_bytes, 1)
    return batch * dtype_bytes * layer_token_width(shape) * layer_tokens(shape, tokens, between_steps=between_steps)


def _at_least(name: str, value: int, least: int) -> None:
    if value < least:
        raise InvalidSetting(field=name, value=str(value), allowed=f">= {least}")
