"""A window on the engine process: looks into the live memory of a run, answered between two turns, and cuts by a model's tokenizer.

Knows the questions and what their answers look like; does not know how they travel. `timeout_s` goes with a question: when it is over,
nobody waits any more, and what has not been begun is not computed.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable
from typing import TypeVar

import numpy as np

from engine import codec
from engine.errors import EngineError, InvalidSetting, RecordInvalid
from engine.findings import LensRow, Stages, TextCut
from engine.serve.asks import PATIENCE_S, AskAttention, AskCell, AskCut, AskDecoded, AskLens, AskLinks, AskStages, Look, Question
from engine.serve.questions import Answer

T = TypeVar("T")


class RunWindow:
    """The questions of a client, which brings `_look` (at a run that it knows; `read` makes something of the answer, or refuses it) and
    `_ask` (anything)."""

    def _look(self, question: Look, timeout_s: float, read: Callable[[Answer], T]) -> T:
        raise NotImplementedError

    def _ask(self, question: Question, timeout_s: float) -> Answer:
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
        return self._look(AskAttention(secrets.token_hex(8), run_id, layer, head, rows, until, timeout_s), timeout_s, _array)

    def cell(self, run_id: str, layer: int, position: int, timeout_s: float = PATIENCE_S) -> np.ndarray:
        """Key and value of one token in one layer, float32 [2, kv_heads, head_dim], read-only. Raises EngineError."""
        return self._look(AskCell(secrets.token_hex(8), run_id, layer, position, timeout_s), timeout_s, _array)

    def links(self, run_id: str, query: int, key: int, timeout_s: float = PATIENCE_S) -> np.ndarray:
        """float32 [layers, heads], read-only: as Run.links. Raises EngineError."""
        return self._look(AskLinks(secrets.token_hex(8), run_id, query, key, timeout_s), timeout_s, _array)

    def lens(self, run_id: str, count: int = 5, timeout_s: float = PATIENCE_S) -> tuple[LensRow, ...]:
        """One row per layer: as Run.lens. Raises EngineError."""
        asked = AskLens(secrets.token_hex(8), run_id, count, timeout_s)
        return self._look(asked, timeout_s, lambda answer: _load(answer, tuple[LensRow, ...]))

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
        for name, value in (("temperature", temperature), ("top_p", top_p)):
            if value is not None and not math.isfinite(value):  # JSON has no such number: it would travel as "the run's own"
                raise InvalidSetting(field=name, value=str(value), allowed="0 …")
        asked = AskStages(secrets.token_hex(8), run_id, index, temperature, top_k, top_p, patience_s=timeout_s)
        return self._look(asked, timeout_s, lambda answer: _load(answer, Stages))

    def decoded(self, model: str, device: str, ids: tuple[int, ...], skip_special: bool, timeout_s: float = PATIENCE_S) -> str:
        """What the tokenizer of a model that is in memory makes of `ids`. It waits for no run.

        Raises OutOfRange, ModelNotLoaded, EngineUnavailable.
        """
        return _text(self._ask(AskDecoded(secrets.token_hex(8), model, device, ids, skip_special, timeout_s), timeout_s))

    def cut(self, model: str, device: str, text: str, timeout_s: float = PATIENCE_S) -> TextCut:
        """`text` cut by the tokenizer of a model that is in memory: as engine.generate.merges.cut. It waits for no run.

        Raises LoneSurrogate, ModelNotLoaded, EngineUnavailable.
        """
        for words in (model, device, text):
            codec.check_text(words)
        return _load(self._ask(AskCut(secrets.token_hex(8), model, device, text, timeout_s), timeout_s), TextCut)


def _array(answer: Answer) -> np.ndarray:
    if not isinstance(answer, np.ndarray):
        raise EngineError(detail="an array was asked for, and text came")
    return answer


def _text(answer: Answer) -> str:
    if not isinstance(answer, str):
        raise EngineError(detail="text was asked for, and an array came")
    return answer


def _load(answer: Answer, kind: type[T]) -> T:
    """What the engine process found. An answer that cannot be read is a fault of ours, and no record that a reader chose."""
    try:
        return codec.load(_text(answer), kind)
    except RecordInvalid as failure:
        raise EngineError(**failure.params) from failure
