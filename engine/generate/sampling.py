"""From one row of logits to one token: greedy, or drawn with a seed.

Knows random numbers and candidates; does not know the model, the run or the cache, nor the arithmetic of shares
(engine.generate.stages). The draw is by inverse CDF in float64 on the CPU, so that one seed gives one answer on every device.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from engine.errors import NotFinite, OutOfRange
from engine.generate.stages import Scores, Shares, chances, fallen_on
from engine.generate.tokens import Vocabulary, whole_text
from engine.trace import Candidate, ChosenBy, RunSettings

CANDIDATES = 10


@dataclass(frozen=True, slots=True)
class Picked:
    """The chosen id, and the ten most likely by the model's own probability (an eleventh if the chosen one is not among them).

    `drawn`: the random number in [0, 1) that decided, or, where `chosen_by` is not the sampler, would have decided.
    """

    id: int
    candidates: tuple[Candidate, ...]
    drawn: float
    chosen_by: ChosenBy


class Sampler:
    """Picks one token per call. Deterministic: the n-th pick depends on the settings, the seed and the logits alone.

    Every pick draws one number, whether it is needed or not: the n-th number belongs to the n-th token, however the others came about.
    """

    def __init__(self, settings: RunSettings) -> None:
        self._settings = settings
        self._generator = torch.Generator("cpu").manual_seed(settings.seed)

    def pick(self, logits: torch.Tensor, vocabulary: Vocabulary, forced: int | None = None) -> Picked:
        """`logits`: [vocabulary], any float dtype and device. `forced`: the id to take, whatever the number says.

        Raises NotFinite if the logits are not numbers, OutOfRange for a forced id that they do not have.
        """
        scores = as_scores(logits)
        best = int(scores.argmax())  # as torch.argmax: the first of equal values; a NaN counts as the largest
        if not np.isfinite(scores[best]):
            raise NotFinite()
        if forced is not None and not 0 <= forced < scores.size:
            raise OutOfRange(field="token_id", value=forced, count=scores.size)
        drawn = self._number()
        shares = None if self._settings.temperature == 0 else distribution(scores, self._settings)
        chosen = forced if forced is not None else best if shares is None else fallen_on(shares, drawn)
        candidates = candidates_of(scores, best, shares, chosen, vocabulary)
        return Picked(chosen, candidates, drawn, "sampler" if forced is None else "forced")

    def skip(self, count: int) -> None:
        """Go on as after `count` picks."""
        for _ in range(count):
            self._number()

    def _number(self) -> float:
        """The next number in [0, 1)."""
        return torch.rand(1, generator=self._generator, dtype=torch.float64).item()


def as_scores(logits: torch.Tensor) -> Scores:
    """The logits as numpy's float32, exactly. numpy has no bfloat16: that is the upper half of a float32."""
    own = logits.detach().to("cpu")
    if own.dtype == torch.bfloat16:
        return (own.view(torch.int16).numpy().view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    return own.numpy().astype(np.float32, copy=False)


def distribution(scores: Scores, settings: RunSettings) -> Shares:
    """What a token is drawn from: float64 [vocabulary], sums to 1, 0 where a filter took the token out. `scores` as in `chances`."""
    return chances(scores, settings).shares


def candidates_of(
    scores: Scores, best: int, shares: Shares | None, chosen: int, vocabulary: Vocabulary, count: int = CANDIDATES
) -> tuple[Candidate, ...]:
    """The `count` likeliest, and the chosen one if it is not among them. `best`: where the scores are largest; `shares` None: greedy.

    Equal probabilities are ordered by id; among equals of the last place the chosen one comes in first.
    """
    top = float(scores[best])
    total = float(np.exp(scores - scores[best]).sum(dtype=np.float64))
    count = min(count, scores.size)
    found = {int(id): float(scores[id]) for id in np.argpartition(scores, -count)[-count:]}
    if chosen not in found and float(scores[chosen]) == min(found.values()):
        found.pop(min(found, key=lambda id: (found[id], -id)))
    found[chosen] = float(scores[chosen])
    order = sorted(found, key=lambda id: (-found[id], id != chosen, id))
    likely = np.exp(np.array([found[id] for id in order]) - top) / total
    drawn = [float(id == best) for id in order] if shares is None else shares[order].tolist()
    return tuple(
        Candidate(id, raw := vocabulary.raw(id), whole_text(raw), probability, drawn_from)
        for id, probability, drawn_from in zip(order, likely.tolist(), drawn, strict=True)
    )
