"""What a run is asked to do. Knows ranges and nothing else; does not know what becomes of a run (engine.trace)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from engine.errors import InvalidSetting

RECORDING_LIMIT_BYTES = 192 * 1024**2  # SmolLM2: the queries of 5,800 tokens


@dataclass(frozen=True, slots=True)
class RunSettings:
    """What a run is asked to do. Raises InvalidSetting, naming the field, on a value outside its range.

    recording_limit_bytes: most memory that the recorded queries of this run may take; beyond it none are kept, and an attention
    map costs a second reading up to its layer. temperature 0 is greedy. top_k 0 and top_p 1 switch the filter off; filters apply in
    the order temperature, top-k, top-p (as in transformers). system_prompt None means the chat template's own default, "" means none.
    Limits that make an exam end early, each None for none: time_limit_s of the run's own work, kv_limit_bytes of its cache, context_limit
    in tokens (a shorter one than the model's), power_cut_at: in the middle of writing this generated token (1: the first one after
    prefill's) the device refuses memory.
    """

    max_new_tokens: int = 128
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0
    use_chat_template: bool = True
    system_prompt: str | None = None
    ignore_eos: bool = False
    capture_attention: bool = True
    time_limit_s: float | None = None
    kv_limit_bytes: int | None = None
    recording_limit_bytes: int = RECORDING_LIMIT_BYTES
    context_limit: int | None = None
    power_cut_at: int | None = None

    def __post_init__(self) -> None:
        _check_whole("max_new_tokens", self.max_new_tokens, 1, 1_048_576)
        _check("temperature", self.temperature, 0.0, 1_000.0)
        _check_whole("top_k", self.top_k, 0, 10_000_000)
        _check("top_p", self.top_p, 0.0, 1.0)
        _check_whole("seed", self.seed, 0, 2**63 - 1)
        if self.time_limit_s is not None:
            _check("time_limit_s", self.time_limit_s, 0.0, 86_400.0)
        if self.kv_limit_bytes is not None:
            _check_whole("kv_limit_bytes", self.kv_limit_bytes, 0, 2**63 - 1)
        if self.context_limit is not None:
            _check_whole("context_limit", self.context_limit, 1, 2**31 - 1)
        if self.power_cut_at is not None:
            _check_whole("power_cut_at", self.power_cut_at, 1, 1_048_576)
        _check_whole("recording_limit_bytes", self.recording_limit_bytes, 0, 2**63 - 1)


def _check_whole(name: str, value: int, low: int, high: int) -> None:
    if not isinstance(value, int):
        raise InvalidSetting(field=name, value=str(value), allowed=f"{low} … {high}")
    _check(name, value, low, high)


def _check(name: str, value: float, low: float, high: float) -> None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or not low <= value <= high:
        raise InvalidSetting(field=name, value=str(value), allowed=f"{low} … {high}")
