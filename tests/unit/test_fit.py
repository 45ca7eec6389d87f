"""A curve through measured times, by theory: exact where they lie on one, never worse than any other without negative parts."""

from __future__ import annotations

import numpy as np
import pytest

from engine.measure.fit import fit
from engine.sweep import SweepPoint, SweepSample, grown, lengths_until

EIGHT = lengths_until(4096)


@pytest.mark.parametrize("parts", [(0.05, 1.2e-3, 3e-7), (0.0, 2e-3, 0.0), (0.4, 0.0, 1e-7), (0.0, 0.0, 5e-8), (0.02, 0.0, 0.0)])
def test_a_curve_that_is_there_is_found(parts: tuple[float, float, float]) -> None:
    a, b, c = parts
    found = fit(EIGHT, [a + b * n + c * n**2 for n in EIGHT])
    assert found is not None
    assert (found.constant_s, found.linear_s, found.quadratic_s) == pytest.approx(parts, rel=1e-6, abs=1e-12)
    assert found.worst < 1e-6
    assert found.r2 == pytest.approx(1.0)
    assert found.seconds(100) == pytest.approx(a + b * 100 + c * 100**2)
    assert found.straight_s(100) == pytest.approx(a + b * 100)


@pytest.mark.parametrize("seed", range(20))
def test_no_other_curve_without_negative_parts_is_nearer(seed: int) -> None:
    """Karush, Kuhn and Tucker: the gradient is zero for parts above zero, and may only point below zero for the others."""
    random = np.random.default_rng(seed)
    n = np.array(EIGHT, dtype=float)
    t = (random.uniform(0, 0.5) + random.uniform(0, 2e-3) * n) * random.uniform(0.6, 1.5, len(n))  # so noisy that parts would be negative
    found = fit(n, t)
    assert found is not None
    parts = np.array([found.constant_s, found.linear_s * n.max(), found.quadratic_s * n.max() ** 2])
    rows = np.stack([np.ones_like(n), n / n.max(), (n / n.max()) ** 2], axis=1) / t[:, None]
    gradient = rows.T @ (rows @ parts - 1)
    assert (parts >= 0).all()
    assert np.abs(gradient[parts > 0]).max() < 1e-8
    assert (gradient > -1e-8).all()
    assert found.worst == pytest.approx(np.abs(rows @ parts - 1).max())


def test_too_few_lengths_or_no_time_give_no_curve() -> None:
    assert fit((), ()) is None
    assert fit((1, 2), (1.0, 2.0)) is None
    assert fit((1, 2), (1.0, 2.0), degree=1) is not None
    assert fit((1, 2, 3), (1.0, 0.0, 2.0)) is None
    flat = fit((1, 2, 3), (1.0, 1.0, 1.0))
    assert flat is not None
    assert flat.r2 == 1.0


def test_eight_lengths_each_half_of_one_above() -> None:
    assert EIGHT == (32, 64, 128, 256, 512, 1024, 2048, 4096)
    for longest in (512, 1000, 2048, 8192, 131_072):
        lengths = lengths_until(longest)
        assert len(lengths) == 8
        assert lengths[-1] == longest
        assert longest // 2 in lengths
        assert list(lengths) == sorted(set(lengths))
    assert lengths_until(40) == (40,)


def test_points_grow_by_single_measurements() -> None:
    points: tuple[SweepPoint, ...] = ()
    for length, seconds in ((64, 0.3), (32, 0.2), (64, 0.1), (64, 0.2)):
        points = grown(points, SweepSample(length, seconds, seconds / 2))
    assert [point.length for point in points] == [32, 64]
    assert points[1].seconds == (0.3, 0.1, 0.2)
    assert points[1].forward_s == (0.15, 0.05, 0.1)
    assert points[1].median_s == 0.2
