"""Writing the answer: one token in, one token out, until a border is reached.

Knows when an answer must end; does not know how a token is shown or what it costs.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.generate.stepper import Advance, Stepper
from engine.kv.sizes import kv_bytes
from engine.trace import ModelInfo, RunSettings, StopReason, room_left


@dataclass(frozen=True, slots=True)
class Standing:
    """Where an answer stands before the next step.

    `prompt_tokens`: template included. `own_s`: seconds this run has worked, without pauses and without other runs' turns.
    """

    last_id: int
    generated: int
    prompt_tokens: int
    own_s: float

    @property
    def next_kv_tokens(self) -> int:
        """Tokens in the cache after one more step: all but the one that this step writes."""
        return self.prompt_tokens + self.generated


def reason_to_stop(standing: Standing, settings: RunSettings, info: ModelInfo) -> StopReason | None:
    """Why no further token may be written; None: go on. An answer that is complete ends as such, whatever limit it meets too."""
    if standing.last_id in info.eos_ids and not settings.ignore_eos:
        return StopReason.EOS
    if standing.generated >= settings.max_new_tokens:
        return StopReason.LENGTH
    if standing.generated >= room_left(info, standing.prompt_tokens, settings.context_limit):
        return StopReason.CONTEXT_FULL
    if settings.time_limit_s is not None and standing.own_s >= settings.time_limit_s:
        return StopReason.TIMEOUT
    if settings.kv_limit_bytes is not None and settings.kv_limit_bytes < kv_bytes(
        info.shape, tokens=standing.next_kv_tokens, dtype_bytes=info.dtype_bytes, between_steps=True
    ):
        return StopReason.OUT_OF_MEMORY
    return None


def write_next(stepper: Stepper, last_id: int, thread_count: int, forced: int | None = None) -> Advance:
    """One forward pass over the last token, which has not been read yet, and the id that follows: `forced`, or the sampler's choice."""
    return stepper.advance([last_id], thread_count, forced)
