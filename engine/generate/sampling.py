"""From one row of logits to one token: greedy, temperature, top-k, top-p, seed.

Knows probabilities; does not know the model, the run or the cache. The filters and their order are transformers' own
(temperature, then top-k, then top-p); the draw is by inverse CDF in float64 on the CPU, so that one seed gives one answer
on every device. The arithmetic is numpy's: it starts no threads, where torch would wake all of them for each tiny operator
and wait for a busy machine (measured: 0.4 ms alone, 36 ms beside other processes).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from engine.errors import NotFinite
from engine.generate.tokens import Vocabulary, whole_text
from engine.trace import Candidate, RunSettings

Scores: TypeAlias = npt.NDArray[np.float32]  # [vocabulary]
Shares: TypeAlias = npt.NDArray[np.float64]  # [vocabulary], sums to 1

CANDIDATES = 10


@dataclass(frozen=True, slots=True)
class Picked:
    """The chosen id, and the ten most likely by the model's own probability (an eleventh if the chosen one is not among them)."""

    id: int
    candidates: tuple[Candidate, ...]


class Sampler:
    """Picks one token per call. Deterministic: the n-th pick depends on the settings, the seed and the logits alone."""

    def __init__(self, settings: RunSettings) -> None:
        self._settings = settings
        self._generator = torch.Generator("cpu").manual_seed(settings.seed)

    def pick(self, logits: torch.Tensor, vocabulary: Vocabulary) -> Picked:
        """`logits`: [vocabulary], any float dtype and device. Raises NotFinite if they are not numbers."""
        scores = as_scores(logits)
        best = int(scores.argmax())  # as torch.argmax: the first of equal values; a NaN counts as the largest
        if not np.isfinite(scores[best]):
            raise NotFinite()
        shares = None if self._settings.temperature == 0 else distribution(scores, self._settings)
        chosen = best if shares is None else self._draw(shares)
        return Picked(chosen, candidates_of(scores, best, shares, chosen, vocabulary))

    def _draw(self, shares: Shares) -> int:
        """Inverse CDF: the first id whose cumulative share exceeds u. An id with share 0 is never that one."""
        cumulative = shares.cumsum()
        u = torch.rand(1, generator=self._generator, dtype=torch.float64).item()
        return int(np.searchsorted(cumulative, u * cumulative[-1], side="right"))


def as_scores(logits: torch.Tensor) -> Scores:
    """The logits as numpy's float32, exactly. numpy has no bfloat16: that is the upper half of a float32."""
    own = logits.detach().to("cpu")
    if own.dtype == torch.bfloat16:
        return (own.view(torch.int16).numpy().view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    return own.numpy().astype(np.float32, copy=False)


def distribution(scores: Scores, settings: RunSettings) -> Shares:
    """What a token is drawn from: float64 [vocabulary], sums to 1, 0 where a filter took the token out.

    `scores`: logits [vocabulary] with a finite maximum. Temperature 0: all on the best.
    A token that ties with the last one in top-k stays, as in transformers.
    """
    shares: Shares = np.zeros(scores.size)
    if settings.temperature == 0:
        shares[scores.argmax()] = 1.0
        return shares
    with np.errstate(over="ignore"):
        # subtracting the maximum first keeps the smallest temperatures finite: the best one is 0 / temperature = 0
        scaled = (scores.astype(np.float64) - float(scores.max())) / settings.temperature
    np.exp(scaled, out=shares)
    if 0 < settings.top_k < scores.size:
        shares[scaled < np.partition(scaled, -settings.top_k)[-settings.top_k]] = 0.0
    shares /= shares.sum()
    return _nucleus(shares, settings.top_p) if settings.top_p < 1 else shares


def _nucleus(shares: Shares, top_p: float) -> Shares:
    """Top-p (Holtzman et al. 2020, arXiv:1904.09751): the fewest tokens whose shares reach top_p, at least one."""
    ranked = np.sort(shares)[::-1]
    before = ranked.cumsum() - ranked  # what the tokens ahead of each one already reach
    count = max(int(np.count_nonzero(before < top_p)), 1)
    last = ranked[count - 1]
    keep = shares > last
    keep[np.flatnonzero(shares == last)[: count - np.count_nonzero(keep)]] = True  # of equals at the edge the lower ids
    kept: Shares = np.where(keep, shares, 0.0)
    return kept / kept.sum()


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
    drawn = [float(id == chosen) for id in order] if shares is None else shares[order].tolist()
    return tuple(
        Candidate(id, raw := vocabulary.raw(id), whole_text(raw), probability, drawn_from)
        for id, probability, drawn_from in zip(order, likely.tolist(), drawn, strict=True)
    )
