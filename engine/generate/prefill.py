"""Reading the prompt: one pass over all its tokens, which fills the cache and gives the first answer token.

Knows when a prompt cannot be read; does not know clocks of the whole run or how answers go on.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.errors import OutOfMemory
from engine.generate.stepper import Advance, Stepper
from engine.kv.sizes import kv_bytes
from engine.model.shape import ModelShape
from engine.trace import Token


def check_limit(shape: ModelShape, tokens: int, dtype_bytes: int, limit_bytes: int | None) -> None:
    """Raises OutOfMemory if the cache of `tokens` tokens would exceed its cap."""
    needed = kv_bytes(shape, tokens=tokens, dtype_bytes=dtype_bytes, between_steps=True)
    if limit_bytes is not None and needed > limit_bytes:
        raise OutOfMemory(cause="cap", detail=f"KV cache: {needed} B needed, {limit_bytes} B allowed")


def read_prompt(stepper: Stepper, tokens: Sequence[Token], thread_count: int, forced: int | None = None) -> Advance:
    """One forward pass over the whole prompt, and the first id: `forced`, or the sampler's choice."""
    return stepper.read([token.id for token in tokens], thread_count, forced)
