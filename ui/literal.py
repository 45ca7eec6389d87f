"""A token's own text as a reader can see it: white space and invisible characters as marks, broken characters as bytes.

The same marks as in assets/components/live/words.js. Pure: knows characters; does not know where the text is shown, so it escapes nothing.
"""

from __future__ import annotations

import unicodedata
from itertools import groupby

MARKS = {" ": "·", "\n": "↵", "\r": "␍", "\t": "⇥", "\u00a0": "⍽", "\u200d": "ZWJ"}
HIDDEN = frozenset({"Cc", "Cf", "Zl", "Zp", "Zs"})  # categories of Unicode whose characters leave no ink, or move that of others
MOST_REPEATED = 4  # marks in a row; more are counted


def visible(text: str, raw: bytes = b"") -> str:
    """`text` with what cannot be seen made visible; bytes in hex where they are no whole characters."""
    if not text:
        return raw.hex(" ").upper()
    return "".join(_run(char, len(list(run))) for char, run in groupby(_grounded(text)))


def short(text: str, raw: bytes, most: int) -> str:
    """As `visible`, cut to `most` characters."""
    seen = visible(text, raw)
    return seen if len(seen) <= most else seen[: most - 1] + "…"


def beginning(text: str, most: int) -> str:
    """The first words of a text on one line, at most so many characters; "…" where there is more."""
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1] + "…"


def _grounded(text: str) -> str:
    """A text that begins with a combining mark gets a circle to stand on: it must not change what comes before it."""
    return f"◌{text}" if unicodedata.category(text[0]).startswith("M") else text


def _run(char: str, count: int) -> str:
    if unicodedata.category(char) not in HIDDEN:
        return char * count
    mark = MARKS.get(char, f"U+{ord(char):04X}")
    return mark * count if count <= MOST_REPEATED else f"{mark}×{count}"
