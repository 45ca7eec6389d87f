"""Reading the prompt: one pass over all its tokens, which fills the cache and gives the first answer token.

Knows when a prompt cannot be read; does not know clocks of the whole run or how answers go on.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.errors import OutOfMemory, PromptTooLong
from engine.generate.stepper import Advance, Stepper
from engine.kv.sizes import kv_bytes
from engine.model.shape import ModelShape
from engine.trace import ModelInfo, Token, room_left


def check_fits(tokens: int, info: ModelInfo) -> None:
    """Raises PromptTooLong if `tokens` do not fit into the model's context."""
    if room_left(info, tokens) == 0:
        raise PromptTooLong(tokens=tokens, context=info.context_length)


def check_limit(shape: ModelShape, tokens: int, dtype_bytes: int, limit_bytes: int | None) -> None:
    """Raises OutOfMemory if the cache of `tokens` tokens would exceed its cap."""
    needed = kv_bytes(shape, tokens=tokens, dtype_bytes=dtype_bytes, between_steps=True)
    if limit_bytes is not None and needed > limit_bytes:
        raise OutOfMemory(detail=f"KV cache: {needed} B needed, {limit_bytes} B allowed")


def read_prompt(stepper: Stepper, tokens: Sequence[Token], thread_count: int) -> Advance:
    """One forward pass over the whole prompt, and the first id."""
    return stepper.advance([token.id for token in tokens], thread_count)
