"""How scores become shares: temperature, top-k, top-p, and the draw. The sampler chooses by these very functions; a reader is shown them.

Knows probabilities; does not know the model, the run or where a random number comes from (engine.generate.sampling). The filters and
their order are transformers' own (temperature, then top-k, then top-p). The arithmetic is numpy's: it starts no threads, where torch
would wake all of them for each tiny operator and wait for a busy machine (measured: 0.4 ms alone, 36 ms beside other processes).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from engine.findings import StageRow, Stages
from engine.trace import RunSettings

Scores: TypeAlias = npt.NDArray[np.float32]  # [vocabulary]
Shares: TypeAlias = npt.NDArray[np.float64]  # [vocabulary], sums to 1
Spell: TypeAlias = Callable[[int], tuple[bytes, str]]  # an id → its bytes, and its characters where these are whole


@dataclass(frozen=True, slots=True, eq=False)
class Chances:
    """One choice, stage by stage: float64 [vocabulary] each. Stages that change nothing are one and the same array.

    `weights`: e^((score − best score) / temperature), not yet divided by their sum. `after_top_k` and `shares` (after top-p; what is
    drawn from) sum to 1 and are 0 where a filter took the token out. `kept_*`: tokens that each filter left.
    """

    weights: Shares
    after_top_k: Shares
    shares: Shares
    kept_top_k: int
    kept_top_p: int

    def tempered(self) -> Shares:
        """Softmax at the temperature: sums to 1."""
        return self.weights if self.weights is self.after_top_k else self.weights / self.weights.sum()


def chances(scores: Scores, settings: RunSettings) -> Chances:
    """`scores`: logits [vocabulary] with a finite maximum. Temperature 0: all on the best, the filters have nothing left to do.

    A token that ties with the last one in top-k stays, as in transformers.
    """
    if settings.temperature == 0:
        best: Shares = np.zeros(scores.size)
        best[scores.argmax()] = 1.0
        return Chances(best, best, best, 1, 1)
    # subtracting the maximum first keeps the smallest temperatures finite: the best one is 0 / temperature = 0
    scaled: Shares = np.subtract(scores, scores.max(), dtype=np.float64)
    with np.errstate(over="ignore"):
        scaled /= settings.temperature
    weights: Shares = np.exp(scaled)
    if 0 < settings.top_k < scores.size:
        cut = scaled < np.partition(scaled, -settings.top_k)[-settings.top_k]
        after_top_k, kept = weights.copy(), scores.size - int(np.count_nonzero(cut))
        after_top_k[cut] = 0.0
    else:
        after_top_k, kept = weights, scores.size
    after_top_k /= after_top_k.sum()
    if settings.top_p == 1:
        return Chances(weights, after_top_k, after_top_k, kept, kept)
    return Chances(weights, after_top_k, *_nucleus(after_top_k, settings.top_p, kept))


def _nucleus(shares: Shares, top_p: float, kept: int) -> tuple[Shares, int, int]:
    """Top-p (Holtzman et al. 2020, arXiv:1904.09751): the fewest tokens whose shares reach top_p, at least one.

    Gives the shares of these, `kept` as it came, and their number.
    """
    ranked = np.sort(shares[shares > 0])[::-1]
    before = ranked.cumsum() - ranked  # what the tokens ahead of each one already reach
    count = max(int(np.count_nonzero(before < top_p)), 1)
    last = ranked[count - 1]
    keep = shares > last
    keep[np.flatnonzero(shares == last)[: count - np.count_nonzero(keep)]] = True  # of equals at the edge the lower ids
    nucleus: Shares = np.where(keep, shares, 0.0)
    return nucleus / nucleus.sum(), kept, count


def fallen_on(shares: Shares, drawn: float) -> int:
    """Inverse CDF: the first id whose cumulative share exceeds `drawn` in [0, 1). An id with share 0 is never that one."""
    ruler = shares.cumsum()
    return int(np.searchsorted(ruler, drawn * ruler[-1], side="right"))


def stages_of(scores: Scores, settings: RunSettings, *, index: int, drawn: float, written_id: int, count: int, spell: Spell) -> Stages:
    """What `settings` make of the `scores` of generated token `index`; the `count` likeliest tokens, the written one and the one that
    these settings write with the number `drawn` have rows. Of equally likely ones lower ids come first.
    """
    made = chances(scores, settings)
    likely: Shares = np.exp(np.subtract(scores, scores.max(), dtype=np.float64))
    likely /= likely.sum()
    would_write_id = fallen_on(made.shares, drawn)
    ids = _likeliest(scores, count, written_id, would_write_id)
    stages = (likely, made.tempered(), made.after_top_k, made.shares)
    ruler = made.shares.cumsum()
    begins = np.where(ids > 0, ruler[ids - 1], 0.0) / ruler[-1]
    columns = (scores[ids], *(stage[ids] for stage in stages), begins)
    rows = zip(ids.tolist(), *(column.tolist() for column in columns), strict=True)
    rest_likely, rest_tempered, rest_after_top_k, rest_share = (_rest(stage, ids) for stage in stages)
    return Stages(
        index=index,
        temperature=settings.temperature,
        top_k=settings.top_k,
        top_p=settings.top_p,
        rows=tuple(StageRow(id, *spell(id), logit if logit > -math.inf else None, *others) for id, logit, *others in rows),
        vocabulary=scores.size,
        kept_top_k=made.kept_top_k,
        kept_top_p=made.kept_top_p,
        rest_likely=rest_likely,
        rest_tempered=rest_tempered,
        rest_after_top_k=rest_after_top_k,
        rest_share=rest_share,
        drawn=drawn,
        written_id=written_id,
        would_write_id=would_write_id,
    )


def _likeliest(scores: Scores, count: int, *others: int) -> npt.NDArray[np.intp]:
    """Ids of the `count` highest scores and of `others`, in the order of their scores; of equals the lower ids first."""
    count = min(count, scores.size)
    edge = np.partition(scores, -count)[-count]
    above, level = np.flatnonzero(scores > edge), np.flatnonzero(scores == edge)
    ids = np.unique(np.concatenate((above, level[: count - above.size], others))).astype(np.intp)
    return ids[np.lexsort((ids, -scores[ids]))]


def _rest(stage: Shares, ids: npt.NDArray[np.intp]) -> float:
    """The sum over all tokens but `ids`: added up, not taken from 1, so that it is never below 0."""
    others = stage.copy()
    others[ids] = 0.0
    return float(others.sum())
