"""Which heads link two tokens most, and where a word stands among tokens. Pure: arrays and tokens in, positions and numbers out.

Knows the ready sentences, which are what the model reads, in every language; knows no run and no session.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from engine.trace import Token
from ui import i18n

HEADS_LISTED = 10


@dataclass(frozen=True, slots=True)
class Example:
    """A ready sentence with the words that read and the words that are read, the most telling first, each as it stands in it."""

    key: str
    sentence: str
    reading: tuple[str, ...]
    read: tuple[str, ...]

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """(reading word, read word), the most telling first."""
        return tuple(product(self.reading, self.read))


def _chinese(part: str = "") -> str:
    """No Chinese stands in code; the model reads it whatever language the page speaks."""
    return i18n.text("zh", f"links.chinese{part}")


ROLLED = Example("rolled", "The cat put the orange on the table, but it rolled off", ("it", "rolled"), ("orange", "table"))
BROKE = Example("broke", "The cat put the orange on the table, but it wobbled and broke", ("it", "broke"), ("orange", "table"))
CHINESE = Example("chinese", _chinese(), tuple(_chinese("_reading").split()), tuple(_chinese("_read").split()))
EXAMPLES = (ROLLED, BROKE, CHINESE)


def example_of(prompt: str) -> Example | None:
    """The ready example with this sentence."""
    return next((example for example in EXAMPLES if example.sentence == prompt), None)


@dataclass(frozen=True, slots=True)
class HeadLink:
    """One head and the weight (0 … 1) with which one token reads another there."""

    layer: int
    head: int
    weight: float


def strongest(weights: np.ndarray, count: int = HEADS_LISTED) -> tuple[HeadLink, ...]:
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


def strongest_key(row: np.ndarray) -> int:
    """The key that the last token of a row [keys] reads most, apart from itself and the first token; itself, where there is no other."""
    inner = row[1:-1]
    return 1 + int(inner.argmax()) if inner.any() else len(row) - 1
