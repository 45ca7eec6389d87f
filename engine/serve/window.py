"""A window on the live memory of a run: questions that the engine process answers between two turns.

Knows the questions and what their answers look like; does not know how they travel.
"""

from __future__ import annotations

import secrets

import numpy as np

from engine import codec
from engine.errors import LoneSurrogate
from engine.findings import LensRow, TextCut
from engine.serve.protocol import AskAttention, AskCell, AskCut, AskLens, AskLinks, Look

LOOK_TIMEOUT_S = 15.0


class RunWindow:
    """The looks of a client, which brings `_look`."""

    def _look(self, question: Look, timeout_s: float) -> np.ndarray | str:
        raise NotImplementedError

    def attention(
        self,
        run_id: str,
        layer: int | None,
        head: int | None = None,
        timeout_s: float = LOOK_TIMEOUT_S,
        *,
        rows: int | None = None,
        until: int | None = None,
    ) -> np.ndarray:
        """float32 [queries, keys], read-only: as Run.attention. Raises EngineError."""
        return self._array(AskAttention(secrets.token_hex(8), run_id, layer, head, rows, until), timeout_s)

    def cell(self, run_id: str, layer: int, position: int, timeout_s: float = LOOK_TIMEOUT_S) -> np.ndarray:
        """Key and value of one token in one layer, float32 [2, kv_heads, head_dim], read-only. Raises EngineError."""
        return self._array(AskCell(secrets.token_hex(8), run_id, layer, position), timeout_s)

    def links(self, run_id: str, query: int, key: int, timeout_s: float = LOOK_TIMEOUT_S) -> np.ndarray:
        """float32 [layers, heads], read-only: as Run.links. Raises EngineError."""
        return self._array(AskLinks(secrets.token_hex(8), run_id, query, key), timeout_s)

    def lens(self, run_id: str, count: int = 5, timeout_s: float = LOOK_TIMEOUT_S) -> tuple[LensRow, ...]:
        """One row per layer: as Run.lens. Raises EngineError."""
        return codec.load(str(self._look(AskLens(secrets.token_hex(8), run_id, count), timeout_s)), tuple[LensRow, ...])

    def cut(self, run_id: str, text: str, timeout_s: float = LOOK_TIMEOUT_S) -> TextCut:
        """`text` cut by the run's tokenizer: as Run.cut. Raises EngineError."""
        check_text(text)
        return codec.load(str(self._look(AskCut(secrets.token_hex(8), run_id, text), timeout_s)), TextCut)

    def _array(self, question: Look, timeout_s: float) -> np.ndarray:
        answer = self._look(question, timeout_s)
        assert isinstance(answer, np.ndarray)
        return answer


def check_text(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise LoneSurrogate(position=error.start) from error
