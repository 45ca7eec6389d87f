"""Answers to what the app asks of the engine process: looks into a run (attention, cache, guesses), terms of a model.

Knows the questions and who can answer them; does not know the connection. Looks wait for the worker's next free moment;
terms may need the network and get a thread of their own.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from engine import codec
from engine.errors import EngineError, EngineUnavailable, ErrorInfo
from engine.serve.protocol import AcceptTerms, Answered, AskTerms, Look, Message, Question
from engine.serve.scheduler import Scheduler

log = logging.getLogger(__name__)

PATIENCE_S = 15.0  # nobody waits longer for an answer


class Notary(Protocol):
    """Shows and records terms; raises EngineError."""

    def terms(self, model: str) -> str: ...
    def accept(self, model: str) -> None: ...


class Answers:
    """`send` takes an Answered and, where it announces one, the array that follows it; when it fails, nothing has been sent."""

    def __init__(self, scheduler: Scheduler, send: Callable[[Message, Any], None], notary: Notary) -> None:
        self._scheduler, self._send, self._notary = scheduler, send, notary

    def take(self, question: Question) -> None:
        """Every question is answered, if only with an error."""
        if isinstance(question, Look):
            expires_at = time.perf_counter() + PATIENCE_S
            taken = self._scheduler.ask(question.run_id, lambda: self._answer(question, lambda: self._look_up(question, expires_at)))
            if not taken:
                self._send(Answered(question.request_id, EngineUnavailable(detail="too many questions").info), None)
        else:
            task = threading.Thread(target=self._answer, args=(question, lambda: self._read(question)), name="terms", daemon=True)
            task.start()

    def _look_up(self, question: Look, expires_at: float) -> Any:
        if time.perf_counter() > expires_at:
            raise EngineUnavailable(detail="timeout")
        return self._scheduler.find(question.run_id).work.look(question)

    def _read(self, question: AskTerms | AcceptTerms) -> str:
        if isinstance(question, AskTerms):
            return self._notary.terms(question.model)
        self._notary.accept(question.model)
        return ""

    def _answer(self, question: Question, find: Callable[[], Any]) -> None:
        try:
            answer = find()
            if isinstance(answer, np.ndarray):
                self._send(Answered(question.request_id, dtype=str(answer.dtype), dims=answer.shape), answer)
            else:
                text = answer if isinstance(answer, str) else codec.dump(answer).decode()
                self._send(Answered(question.request_id, text=text), None)
        except EngineError as failure:
            self._send(Answered(question.request_id, failure.info), None)
        except Exception as failure:
            log.exception("a question failed")
            self._send(Answered(question.request_id, ErrorInfo("internal", {"detail": f"{type(failure).__name__}: {failure}"})), None)
