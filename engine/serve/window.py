"""A window on the engine process: looks into the live memory of a run, answered between two turns, and cuts by a model's tokenizer.

Knows the questions and what their answers look like; does not know how they travel. `timeout_s` goes with a question: when it is over,
nobody waits any more, and what has not been begun is not computed.
"""

from __future__ import annotations

import secrets

import numpy as np

from engine import codec
from engine.findings import LensRow, Stages, TextCut
from engine.serve.asks import PATIENCE_S, AskAttention, AskCell, AskCut, AskDecoded, AskLens, AskLinks, AskStages, Look, Question


class RunWindow:
    """The questions of a client, which brings `_look` (at a run that it knows) and `_ask` (anything)."""

    def _look(self, question: Look, timeout_s: float) -> np.ndarray | str:
        raise NotImplementedError

    def _ask(self, question: Question, timeout_s: float) -> np.ndarray | str:
        raise NotImplementedError

    def attention(
        self,
        run_id: str,
        layer: int | None,
        head: int | None = None,
        timeout_s: float = PATIENCE_S,
        *,
        rows: int | None = None,
        until: int | None = None,
    ) -> np.ndarray:
        """float32 [queries, keys], read-only: as Run.attention. Raises EngineError."""
        return self._array(AskAttention(secrets.token_hex(8), run_id, layer, head, rows, until, timeout_s), timeout_s)

    def cell(self, run_id: str, layer: int, position: int, timeout_s: float = PATIENCE_S) -> np.ndarray:
        """Key and value of one token in one layer, float32 [2, kv_heads, head_dim], read-only. Raises EngineError."""
        return self._array(AskCell(secrets.token_hex(8), run_id, layer, position, timeout_s), timeout_s)

    def links(self, run_id: str, query: int, key: int, timeout_s: float = PATIENCE_S) -> np.ndarray:
        """float32 [layers, heads], read-only: as Run.links. Raises EngineError."""
        return self._array(AskLinks(secrets.token_hex(8), run_id, query, key, timeout_s), timeout_s)

    def lens(self, run_id: str, count: int = 5, timeout_s: float = PATIENCE_S) -> tuple[LensRow, ...]:
        """One row per layer: as Run.lens. Raises EngineError."""
        answer = self._look(AskLens(secrets.token_hex(8), run_id, count, timeout_s), timeout_s)
        return codec.load(str(answer), tuple[LensRow, ...])

    def stages(
        self,
        run_id: str,
        index: int,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        timeout_s: float = PATIENCE_S,
    ) -> Stages:
        """How generated token `index` would be chosen with these settings (None: the run's own): as Run.stages. Raises EngineError."""
        asked = AskStages(secrets.token_hex(8), run_id, index, temperature, top_k, top_p, patience_s=timeout_s)
        return codec.load(str(self._look(asked, timeout_s)), Stages)

    def decoded(self, model: str, device: str, ids: tuple[int, ...], skip_special: bool, timeout_s: float = PATIENCE_S) -> str:
        """What the tokenizer of a model that is in memory makes of `ids`. It waits for no run.

        Raises OutOfRange, ModelNotLoaded, EngineUnavailable.
        """
        return str(self._ask(AskDecoded(secrets.token_hex(8), model, device, ids, skip_special, timeout_s), timeout_s))

    def cut(self, model: str, device: str, text: str, timeout_s: float = PATIENCE_S) -> TextCut:
        """`text` cut by the tokenizer of a model that is in memory: as engine.generate.merges.cut. It waits for no run.

        Raises LoneSurrogate, ModelNotLoaded, EngineUnavailable.
        """
        for words in (model, device, text):
            codec.check_text(words)
        answer = self._ask(AskCut(secrets.token_hex(8), model, device, text, timeout_s), timeout_s)
        return codec.load(str(answer), TextCut)

    def _array(self, question: Look, timeout_s: float) -> np.ndarray:
        answer = self._look(question, timeout_s)
        assert isinstance(answer, np.ndarray)
        return answer
