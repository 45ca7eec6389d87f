"""Questions to the engine process that wait for their answers.

Knows who waits; does not know what was asked nor how it travels. Thread-safe.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager

import numpy as np

from engine.errors import EngineError, EngineUnavailable, ErrorInfo, RemoteError
from engine.serve.protocol import Answered

Answer = np.ndarray | str


class Questions:
    """Every waiter hears something: the answer, the error, or that it takes too long."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[str, Future[Answer]] = {}

    @contextmanager
    def expecting(self, request_id: str) -> Iterator[Callable[[float], Answer]]:
        """Gives a call that waits so many seconds for the answer; it raises EngineError."""
        future: Future[Answer] = Future()
        with self._lock:
            self._waiting[request_id] = future

        def answer(timeout_s: float) -> Answer:
            try:
                return future.result(timeout_s)
            except TimeoutError as late:
                raise EngineUnavailable(detail="timeout") from late

        try:
            yield answer
        finally:
            with self._lock:
                self._waiting.pop(request_id, None)

    def answer(self, answered: Answered, data: bytes) -> None:
        """`data`: the array's bytes, where one was announced. Nobody waiting: too late, dropped."""
        with self._lock:
            future = self._waiting.pop(answered.request_id, None)
        if future is None:
            return
        if answered.error is not None:
            future.set_exception(error_of(answered.error))
        elif answered.dtype is not None:
            self._give_array(future, answered, data)
        else:
            future.set_result(answered.text or "")

    def _give_array(self, future: Future[Answer], answered: Answered, data: bytes) -> None:
        try:
            future.set_result(np.frombuffer(data, answered.dtype).reshape(answered.dims))
        except (ValueError, TypeError) as failure:  # not the array that was announced: the waiter hears it, and so does the log
            future.set_exception(error_of(ErrorInfo("internal", {"detail": f"{type(failure).__name__}: {failure}"})))
            raise

    def fail(self, error: ErrorInfo) -> None:
        """No answer will come to anybody."""
        with self._lock:
            futures, self._waiting = list(self._waiting.values()), {}
        for future in futures:
            future.set_exception(error_of(error))


def error_of(info: ErrorInfo) -> EngineError:
    """The exception of the kind that `info` names; RemoteError for a code that has no kind here."""
    kinds = {kind.code: kind for kind in EngineError.__subclasses__() if kind is not RemoteError}
    kind = kinds.get(info.code)
    return RemoteError(info) if kind is None else kind(**info.params)
