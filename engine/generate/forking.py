"""How a run leaves another one: its live memory up to the fork, and the fork's own token, rewritten.

The memory is taken over from the other run, or, where that does not hold what is needed, read once more. Knows steppers and
traces; does not know runs, their clocks or their ends.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from engine.errors import StagesUnavailable
from engine.generate.sampling import as_scores, candidates_of, distribution
from engine.generate.stepper import Stepper
from engine.kv.cache import LiveCache
from engine.measure.clock import Clock
from engine.model.device import threads
from engine.stem import Stem
from engine.trace import Candidate, DecodeStep, PrefillTrace, RunSettings

if TYPE_CHECKING:
    from engine.model.loader import LoadedModel


def fork(model: LoadedModel, settings: RunSettings, clock: Clock, stem: Stem, source: Stepper | None) -> tuple[Stepper, float | None]:
    """The live things of a run that has written what `stem` tells, and the seconds that reading it once more took.

    None: nothing was read, all is taken over from `source`, which stays as it is.
    """
    stepper = Stepper(model, settings, clock)
    if source is not None and _take_over(stepper, source, stem):
        return stepper, None
    started = clock.now()
    _read_again(stepper, stem, model.info.prefill_threads)
    return stepper, clock.now() - started


def _take_over(stepper: Stepper, source: Stepper, stem: Stem) -> bool:
    """False, and nothing is changed: `source` has read something else, or does not hold all that is needed."""
    ids = stem.read_ids
    if source.ids[: len(ids)] != ids or (stepper.recorder is not None and source.recorder is None):
        return False
    with torch.inference_mode():
        cache = source.cache.fork(len(ids))
        if cache is None:
            return False
        stepper.cache = cache
        if stepper.recorder is not None and source.recorder is not None:
            stepper.recorder = source.recorder.fork(len(ids))
    stepper.ids = ids
    stepper.last_hidden = source.last_hidden
    stepper.take_heads(source, stem.index + 1)
    return True


def _read_again(stepper: Stepper, stem: Stem, thread_count: int) -> None:
    """The prompt as a prefill reads it, for what that keeps of its last position; then all of the answer in one more pass."""
    ids, prompt = stem.read_ids, len(stem.tokens)
    stepper.read(ids[:prompt], thread_count)
    if stem.index:
        stepper.reread(ids[prompt:], stem.index, thread_count)


def rewritten(stem: Stem, stepper: Stepper, model: LoadedModel, settings: RunSettings) -> tuple[PrefillTrace, tuple[DecodeStep, ...]]:
    """The traces of `stem` with its token in the last one: the same times, the bytes that `stepper` holds now, the same candidates
    and the token, if it was none of them; chosen by the reader.
    """
    token = model.vocabulary.token(stem.token_id, "generated", len(stem.tokens) + stem.index)
    candidates = stem.newest.candidates
    if all(one.id != token.id for one in candidates):
        added = _candidate(_scores(stem, stepper, model), token.id, model, settings)
        candidates = tuple(sorted((*candidates, added), key=lambda one: -one.probability))
    told: dict[str, Any] = {
        "candidates": candidates,
        "chosen_by": "reader",
        "kv_bytes": stepper.cache.bytes(),
        "kv_tokens": stepper.cache.tokens(),
        "recorded_bytes": stepper.recorded_bytes(),
    }
    if not stem.steps:
        return replace(stem.prefill, first=token, **told), ()
    return stem.prefill, (*stem.steps[:-1], replace(stem.steps[-1], token=token, **told))


def _scores(stem: Stem, stepper: Stepper, model: LoadedModel) -> np.ndarray:
    """float32 [vocabulary]: those from which token `index` was chosen; by one more pass where the model does not give them otherwise."""
    try:
        return as_scores(stepper.logits(stem.index))
    except StagesUnavailable:
        with torch.inference_mode(), threads(model.info.prefill_threads):
            return as_scores(LiveCache(model.model).forward(torch.tensor([stem.read_ids], device=model.device)))


def _candidate(scores: np.ndarray, id: int, model: LoadedModel, settings: RunSettings) -> Candidate:
    """The token `id` as a candidate of a step with these `scores` [vocabulary]."""
    every = candidates_of(scores, int(scores.argmax()), distribution(scores, settings), id, model.vocabulary)
    return next(one for one in every if one.id == id)
