"""Arithmetic on rows of an attention map, on rows whose shares are known."""

from __future__ import annotations

import numpy as np
import pytest

from ui import weights


def causal(count: int) -> np.ndarray:
    """Rows that sum to 1 over the keys up to the diagonal, float32 [count, count]."""
    rows = np.tril(np.random.default_rng(0).random((count, count), dtype=np.float32))
    return rows / rows.sum(1, keepdims=True)


def sinking(count: int, share: float) -> np.ndarray:
    """Every row but the first gives `share` to the first token and the rest to itself."""
    rows = np.eye(count, dtype=np.float32) * (1 - share)
    rows[:, 0] = share
    rows[0] = np.eye(count)[0]
    return rows


@pytest.mark.parametrize("rows", [1, 5, 12])
def test_the_sink_is_told_without_the_first_tokens_own_row(rows: int) -> None:
    assert weights.sink_share(sinking(12, 0.62)[-rows:]) == pytest.approx(0.62)
    assert weights.sink_share(sinking(1, 0.62)) == 0.0, "the only token looks at nothing else"


def test_without_the_sink_each_row_sums_to_one_again() -> None:
    rows = causal(30)
    taken = weights.without_sink(rows)
    np.testing.assert_allclose(taken[1:, 1:].sum(1), 1, atol=1e-5)
    assert not taken[0, 1:].any(), "the first token has nothing else to look at"
    np.testing.assert_array_equal(taken[:, 0], rows[:, 0])
    np.testing.assert_allclose(taken[7, 3] / taken[7, 5], rows[7, 3] / rows[7, 5], rtol=1e-5)
    np.testing.assert_array_equal(np.triu(taken, 1), 0)


def test_a_row_that_sees_only_the_sink_stays_empty() -> None:
    assert not weights.without_sink(sinking(4, 1.0))[:, 1:].any()


def test_hidden_share_is_what_the_drawn_columns_lack() -> None:
    rows = causal(600)[-256:]
    assert weights.hidden_share(rows, 344) == pytest.approx(1 - rows[:, 344:].sum(1).mean(), abs=1e-5)
    taken = weights.without_sink(rows)
    assert weights.hidden_share(taken, 344, "renormalise") == pytest.approx(1 - taken[:, 344:].sum(1).mean(), abs=1e-5)
    assert weights.hidden_share(rows, 0) == 0


@pytest.mark.parametrize(
    ("count", "end", "query", "drawn"),
    [
        (100, None, None, (0, 100)),
        (100, 40, 3, (0, 100)),  # an end from a longer run
        (1000, None, None, (744, 1000)),
        (1000, None, 800, (744, 1000)),
        (1000, None, 300, (109, 365)),  # the row that was picked is drawn
        (1000, None, 10, (0, 256)),
        (1000, 500, 10, (244, 500)),
        (1000, 9000, None, (744, 1000)),
        (1000, 1, None, (0, 256)),
    ],
)
def test_what_is_drawn_of_a_long_text(count: int, end: int | None, query: int | None, drawn: tuple[int, int]) -> None:
    span = weights.span_drawn(count, end, query)
    assert (span.start, span.stop) == drawn
    assert end is not None or query is None or query in span


@pytest.mark.parametrize(
    ("count", "end", "query", "key", "shown"),
    [
        (100, None, 90, 3, None),  # all of it is drawn
        (1000, None, 900, None, None),  # the newest rows are
        (1000, 400, 350, 300, 400),  # the window the reader has set shows both: it stays
        (1000, 256, 342, None, None),  # the row lies outside it
        (1000, 256, 342, 300, None),
        (1000, 600, 500, 320, None),  # the row stands in it, the column does not, but both do around the row
        (1000, 600, 500, 300, 556),  # the column comes first
        (1000, None, 990, 740, 996),  # side by side only at the edge
        (1000, None, 500, 250, 506),
        (1000, 600, 500, 0, 600),  # too far apart: the row is enough
        (1000, 256, 500, 0, None),
    ],
)
def test_the_window_goes_where_the_picked_link_is(count: int, end: int | None, query: int, key: int | None, shown: int | None) -> None:
    found = weights.end_showing(count, end, query, key)
    assert found == shown
    span = weights.span_drawn(count, found, query)
    assert query in span
    assert key is None or key in span or query - key >= weights.MOST_DRAWN


def test_the_strongest_link_is_none_to_oneself_or_the_first() -> None:
    rows = sinking(8, 0.4)
    assert weights.strongest(rows) is None
    rows[6, 2], rows[5, 4] = 0.1, 0.2
    assert weights.strongest(rows) == (5, 4, pytest.approx(0.2))
    assert weights.strongest(rows[-2:]) == (6, 2, pytest.approx(0.1)), "positions, whatever rows there are"
    wanted = np.ones(8, bool)
    wanted[4] = False
    assert weights.strongest(rows, wanted) == (6, 2, pytest.approx(0.1))
    wanted[6] = False
    assert weights.strongest(rows, wanted) is None


def test_the_strongest_link_between_some_tokens_alone() -> None:
    rows, own = np.zeros((5, 5), np.float32), np.array([False, False, True, True, True])
    rows[:, 0], rows[4, 4], rows[4, 1], rows[4, 2], rows[3, 2] = 0.9, 0.8, 0.7, 0.1, 0.2
    assert weights.strongest(rows, own) == (3, 2, pytest.approx(0.2))
    assert weights.strongest(rows[3:], own) == (3, 2, pytest.approx(0.2)), "the newest rows alone"
    assert weights.strongest(rows[4:], own) == (4, 2, pytest.approx(0.1))
    assert weights.strongest(np.eye(5, dtype=np.float32), own) is None


@pytest.mark.parametrize("rows", [1, 4, 9])
def test_packed_rows_are_the_triangle_number_by_number(rows: int) -> None:
    whole = causal(9)
    numbers = iter(np.frombuffer(weights.packed(whole[-rows:]), "<f4"))
    first = 9 - rows
    for row in range(rows):
        for column in range(row + 1):
            assert next(numbers) == whole[first + row, first + column]
    assert next(numbers, None) is None


def test_the_largest_map_weighs_little() -> None:
    assert len(weights.packed(causal(4096)[-weights.MOST_DRAWN :])) * 4 / 3 < 2 * 1024**2 / 8
