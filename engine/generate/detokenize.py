"""From the bytes of generated tokens to text, never showing half a character.

Knows UTF-8; does not know token ids, the tokenizer, torch (the app imports this file) or the clock: generation is timed per id,
not by when text appears.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable

from engine.trace import Token


class Detokenizer:
    """Holds back bytes until their character is whole. Bytes that can never become one turn into U+FFFD."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def push(self, raw: bytes) -> str:
        """The text that became whole with these bytes; "" while a character is unfinished."""
        return self._decoder.decode(raw)

    @property
    def pending(self) -> bytes:
        """The bytes of the unfinished character, at most three."""
        return self._decoder.getstate()[0]

    def finish(self) -> str:
        """No more bytes will come: U+FFFD if a character stayed unfinished, else "". Ready for a new text afterwards."""
        rest = self._decoder.decode(b"", final=True)
        self._decoder.reset()
        return rest


def answer_text(tokens: Iterable[Token], skip_special: bool = True) -> str:
    """The whole characters of these tokens in order. An unfinished character at the end is left out, not shown as U+FFFD."""
    detokenizer = Detokenizer()
    return "".join(detokenizer.push(token.raw) for token in tokens if not (skip_special and token.special))
