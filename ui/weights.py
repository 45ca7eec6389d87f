"""Arithmetic on rows of an attention map: what of it is drawn, what is left out, where it is strongest.

Knows numbers alone: `weights` are always float32 [rows, keys], the newest rows of so many keys, so that the last row is the last key's.
Does not know runs, tokens or pictures.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

MOST_DRAWN = 256  # rows and columns: beyond it a cell is smaller than a reader can point at
LEAD = 64  # tokens drawn after the one that is looked for, where there are more than can be drawn
Sink = Literal["show", "hide", "renormalise"]
_NOTHING_LEFT = 1e-6  # of a row whose whole attention rests on the first token


class StrongLink(NamedTuple):
    """The token at position `query` reads the one at `key` with `weight`."""

    query: int
    key: int
    weight: float


def first_row(weights: np.ndarray) -> int:
    """Position of the token whose row comes first."""
    return int(weights.shape[1] - weights.shape[0])


def span_drawn(count: int, end: int | None, query: int | None, most: int = MOST_DRAWN) -> range:
    """Which of `count` positions are drawn, as rows and as columns: all, or `most` of them up to `end`; without an `end` the newest ones,
    or those around `query`."""
    if end is None:
        end = count if query is None or query >= count - most else query + 1 + LEAD
    end = min(max(end, most), count)
    return range(max(end - most, 0), end)


def end_showing(count: int, end: int | None, query: int, key: int | None, most: int = MOST_DRAWN) -> int | None:
    """The `end` for span_drawn with which the row `query` is drawn, and the column `key` too where both have room: the one there is, if
    it shows them."""
    tries = (end, None) if key is None else (end, None, key + most)
    for tried in tries:
        span = span_drawn(count, tried, query, most)
        if query in span and (key is None or key in span):
            return tried
    return end if query in span_drawn(count, end, query, most) else None


def sink_share(weights: np.ndarray) -> float:
    """Mean share of the rows that rests on the very first token; the first token's own row can look at nothing else and is left out."""
    rows = weights[1:] if first_row(weights) == 0 else weights
    return float(rows[:, 0].mean()) if len(rows) else 0.0


def without_sink(weights: np.ndarray) -> np.ndarray:
    """The rows with their first column taken out and the others divided by what is left: each sums to 1 again.

    The first column keeps its true numbers. A row that looks at nothing but the first token is 0 elsewhere.
    """
    left = 1 - weights[:, :1]
    shares = np.divide(weights, left, out=np.zeros_like(weights), where=left > _NOTHING_LEFT)
    shares[:, 0] = weights[:, 0]
    return shares


def hidden_share(weights: np.ndarray, start: int, sink: Sink = "show") -> float:
    """Mean share of the rows' attention on keys before `start`, 0 … 1. `sink` "renormalise": the first column counts as taken out."""
    columns = weights[:, 1:start] if sink == "renormalise" else weights[:, :start]
    return float(columns.sum(axis=1).mean()) if start and len(weights) else 0.0


def strongest(weights: np.ndarray, wanted: np.ndarray | None = None) -> StrongLink | None:
    """The strongest link apart from a token's look at itself and at the first token; None where there is no other.

    `wanted`: bool [keys], which positions may be at either end of it.
    """
    first = first_row(weights)
    links = np.tril(weights, first - 1)
    links[:, 0] = 0
    if wanted is not None:
        links *= wanted[first:, None] & wanted[None]
    if not links.any():
        return None
    row, key = np.unravel_index(int(links.argmax()), links.shape)
    return StrongLink(first + int(row), int(key), float(links[row, key]))


def packed(weights: np.ndarray) -> bytes:
    """The square of the rows and their own columns, on and below the diagonal, row by row: n · (n + 1) / 2 little-endian float32."""
    square = weights[:, first_row(weights) :]
    return square[np.tril_indices(len(square))].astype("<f4").tobytes()
