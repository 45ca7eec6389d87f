"""Which heads link two tokens most, and where a word stands among tokens. Pure: arrays and tokens in, positions and numbers out.

Knows no run, no session and no words of its own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engine.trace import Token

TEN = 10


@dataclass(frozen=True, slots=True)
class HeadLink:
    """One head and the weight (0 … 1) with which one token reads another there."""

    layer: int
    head: int
    weight: float


def strongest(weights: np.ndarray, count: int = TEN) -> tuple[HeadLink, ...]:
    """The `count` heads of [layers, heads] with the greatest weights, greatest first; equals in the order of layer, then head.

    Heads of weight 0 (the token lies outside their window) link nothing and are left out. Raises ValueError unless there are two axes.
    """
    if weights.ndim != 2:
        raise ValueError(f"weights of layers × heads are needed, not {weights.ndim} axes")
    flat = weights.ravel()
    order = np.argsort(-flat, kind="stable")[:count]
    places = [(divmod(int(at), weights.shape[1]), float(flat[at])) for at in order if flat[at] > 0]
    return tuple(HeadLink(layer, head, weight) for (layer, head), weight in places)


def place_of(tokens: Sequence[Token], word: str) -> int | None:
    """Position of the token in which `word` ends, where it first stands in the reader's own text; None: it does not.

    Found by bytes, so that spaces before the word and words of several tokens do no harm; never inside a longer word of Latin letters.
    """
    own = [token for token in tokens if token.kind == "prompt"]
    text = b"".join(token.raw for token in own)
    found = re.search(rb"(?<![A-Za-z])" + re.escape(word.encode()) + rb"(?![A-Za-z])", text) if word else None
    if found is None:
        return None
    read = 0
    for token in own:
        read += len(token.raw)
        if read >= found.end():
            return token.position
    return None


def strongest_pair(weights: np.ndarray, tokens: Sequence[Token]) -> tuple[int, int]:
    """(query, key) of the strongest link in a map [newest queries, keys] between two of the reader's own tokens.

    A token's look at itself and at the first token (which soaks up weight everywhere) do not count. Without any such link the
    last token reads itself.
    """
    first = weights.shape[1] - len(weights)  # position of the first row
    own = np.array([token.kind == "prompt" for token in tokens])
    links = np.tril(weights, first - 1) * np.outer(own[first:], own)
    links[:, 0] = 0
    if not links.any():
        return len(tokens) - 1, len(tokens) - 1
    row, key = np.unravel_index(int(links.argmax()), links.shape)
    return first + int(row), int(key)


def strongest_key(row: np.ndarray) -> int:
    """The key that the last token of a row [keys] reads most, apart from itself and the first token; itself, where there is no other."""
    inner = row[1:-1]
    return 1 + int(inner.argmax()) if inner.any() else len(row) - 1
