"""Short measurements at load: which dtype this CPU multiplies fastest, how many threads each phase wants.

Knows matrix products, stamps and thread counts; does not know runs. Results are this machine's, of this moment, and are shown as such.
"""

from __future__ import annotations

import json
import logging
import platform
import time
from collections.abc import Callable
from pathlib import Path

import torch
from transformers import PreTrainedModel

from engine.model.attend import recording
from engine.model.capture import Recorder
from engine.model.device import available_threads, threads
from engine.model.forward import Forward, empty_cache

log = logging.getLogger(__name__)

PREFILL_ROWS = 64
TRIAL_BYTES = 48 * 1024**2  # of float32 weights: more than a core's own cache, as in a real step
WARM_UP_TOKENS = 32
TRIAL_STEPS = 4
NEARLY = 1.10  # what needs less (threads, memory) wins if it takes no more than this times the fastest


def dtype_trials(hidden: int, intermediate: int) -> dict[str, float]:
    """Seconds of one layer-sized product (hidden × intermediate) in float32 and bfloat16.

    Each is what one answer token and one prompt token cost together: the product with a single row, as in decode, plus a
    `PREFILL_ROWS`th of the product with that many rows, as in prefill.
    """
    return {str(dtype).removeprefix("torch."): _product_s(hidden, intermediate, dtype) for dtype in (torch.float32, torch.bfloat16)}


def remembered_trials(home: Path, hidden: int, intermediate: int) -> dict[str, float]:
    """`dtype_trials`, measured once per machine, torch and size, and kept in `home`.

    Where two dtypes are nearly as fast, a trial at every load would now choose one and now the other, and with it another answer.
    """
    place = home / "trials.json"
    key = f"{hidden}x{intermediate} {platform.machine()} {platform.processor()} {available_threads()} torch {torch.__version__}"
    known = _read_trials(place)
    if key not in known:
        known[key] = dtype_trials(hidden, intermediate)
        _write_trials(place, known)
    return known[key]


def _read_trials(place: Path) -> dict[str, dict[str, float]]:
    """What is kept; {} where nothing is, or nothing that can be read: then it is measured again."""
    try:
        found = json.loads(place.read_text(encoding="utf-8"))
        return {key: {name: float(found[key][name]) for name in ("float32", "bfloat16")} for key in found}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, KeyError) as error:
        log.warning("%s cannot be read and is measured anew: %s", place, error)
        return {}


def _write_trials(place: Path, known: dict[str, dict[str, float]]) -> None:
    """A cache that cannot be written costs a measurement at the next load, and no more."""
    draft = place.with_name(f"{place.name}.{time.perf_counter_ns()}")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text(json.dumps(known, indent=1), encoding="utf-8")
        draft.replace(place)
    except OSError as error:
        log.warning("%s cannot be written: %s", place, error)


def _product_s(hidden: int, intermediate: int, dtype: torch.dtype) -> float:
    count = min(max(1, TRIAL_BYTES // (hidden * intermediate * 4)), 64)
    with torch.inference_mode():
        # not zeros: untouched zeros all lie in one page of memory, and reading them would cost nothing
        weights = [torch.full((intermediate, hidden), 0.5, dtype=dtype) for _ in range(count)]
        row, rows = torch.ones(1, hidden, dtype=dtype), torch.ones(PREFILL_ROWS, hidden, dtype=dtype)
        decode_s = _best_s(lambda: [torch.nn.functional.linear(row, weight) for weight in weights])
        prefill_s = _best_s(lambda: [torch.nn.functional.linear(rows, weight) for weight in weights])
    return (decode_s + prefill_s / PREFILL_ROWS) / count


def _best_s(work: Callable[[], object], tries: int = 5) -> float:
    """The shortest of `tries` after one that does not count: what the machine can do when nothing disturbs it."""
    work()
    return min(_elapsed_s(work) for _ in range(tries))


def _elapsed_s(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


class WarmUp:
    """A short prompt and a few steps, so that the first run is not cold; on the CPU also the trial of thread counts."""

    def __init__(self, model: PreTrainedModel, vocab_size: int, recorder: Recorder | None) -> None:
        self._forward = Forward(model)
        self._cache = empty_cache(model)
        self._prompt = torch.arange(WARM_UP_TOKENS, device=model.device)[None] % vocab_size
        self._recorder = recorder

    def prefill(self) -> torch.Tensor:
        """Logits [vocab_size] of the prompt's last token."""
        with torch.inference_mode(), recording(self._recorder):
            return self._forward(self._prompt, self._cache)

    def step(self) -> float:
        """Seconds of one decode step."""
        with torch.inference_mode(), recording(self._recorder):
            return _elapsed_s(lambda: self._forward(self._prompt[:, :1], self._cache).argmax().item())

    def decode_threads(self, most: int) -> int:
        """The fewest threads, up to `most`, whose step takes at most `NEARLY` times the fastest."""
        counts = sorted({count for count in (1, 2, 4, 8, 16, 32, 64) if count < most} | {most})
        taken = {count: self._steps_s(count) for count in counts}
        return next(count for count in counts if taken[count] <= NEARLY * min(taken.values()))

    def _steps_s(self, count: int) -> float:
        with threads(count):
            return min(self.step() for _ in range(TRIAL_STEPS))
