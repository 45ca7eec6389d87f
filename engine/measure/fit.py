"""A curve through measured times: constant, linear and quadratic part. Pure arithmetic without torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np


@dataclass(frozen=True, slots=True)
class Fit:
    """t(n) = constant_s + linear_s·n + quadratic_s·n², n in tokens, t in seconds; no part is negative.

    r2: share of the variance of t that the curve explains, 1 at best. worst: the largest |t(n) − t| / t over the points.
    """

    constant_s: float
    linear_s: float
    quadratic_s: float
    r2: float
    worst: float

    def seconds(self, tokens: float) -> float:
        return self.constant_s + self.linear_s * tokens + self.quadratic_s * tokens**2

    def straight_s(self, tokens: float) -> float:
        """The same without its quadratic part."""
        return self.constant_s + self.linear_s * tokens


def fit(tokens: Sequence[float], seconds: Sequence[float], degree: int = 2) -> Fit | None:
    """The least squares of the relative residuals, Σ((t(n) − t) / t)², with all parts ≥ 0; None for fewer points than parts.

    Relative, because a clock's noise grows with what it measures: otherwise the longest length alone would decide, and the constant
    part be lost in its noise. The parts are few, so every set of them that may be zero is tried: the best of the least squares without
    a negative part is the answer (Lawson and Hanson, Solving Least Squares Problems, 1974, chapter 23). `degree` 1: without n².
    """
    n, t = np.asarray(tokens, dtype=np.float64), np.asarray(seconds, dtype=np.float64)
    if len(n) < degree + 1 or not (t > 0).all():
        return None
    scale = n.max()  # powers of n/scale have like sizes
    powers = np.stack([(n / scale) ** power for power in range(degree + 1)], axis=1)  # [points, parts]
    parts = _nonnegative(powers / t[:, None])
    curve = powers @ parts
    spread = float(((t - t.mean()) ** 2).sum())
    r2 = 1.0 - float(((t - curve) ** 2).sum()) / spread if spread > 0 else 1.0
    constant, linear, *rest = (float(part / scale**power) for power, part in enumerate(parts))
    return Fit(constant, linear, rest[0] if rest else 0.0, r2, float(np.abs(curve / t - 1).max()))


def _nonnegative(rows: np.ndarray) -> np.ndarray:
    """[parts] ≥ 0 with the least |rows @ parts − 1|²; `rows` [points, parts]."""
    best, least = np.zeros(rows.shape[1]), np.inf
    for size in range(1, rows.shape[1] + 1):
        for chosen in combinations(range(rows.shape[1]), size):
            found = np.linalg.lstsq(rows[:, chosen], np.ones(len(rows)), rcond=None)[0]
            error = float(((rows[:, chosen] @ found - 1) ** 2).sum())
            if (found >= 0).all() and error < least:
                best, least = np.zeros(rows.shape[1]), error
                best[list(chosen)] = found
    return best
