"""Answers that the engine has given to looks, kept for everybody who asks the same; and who asks it at the same time.

Knows which answers stay true, how many bytes they are and who waits for one; does not know sessions, the engine process or the book.
At every pause all that follow a run ask the one worker the same: it is asked once. What an answer is true of, its run as it has gone
on, is part of the question here: a run only grows, so what was true of its first tokens stays true.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

import msgspec

from engine import codec
from engine.errors import EngineUnavailable
from engine.serve.asks import AskAttention, AskCell, Look
from engine.serve.questions import Answer

KEPT_BYTES = 32 * 1024**2
_OVERHEAD_BYTES = 512  # of an answer, apart from its numbers or its text
_WORTH_ASKING_S = 1.0  # whoever has less time left than this does not ask once more what somebody else waited for in vain


@dataclass(frozen=True, slots=True)
class Asked:
    """A question without who asks it. `link`: number of the engine process; `read`: tokens its run is known to have read, for questions
    whose answer depends on it, else None; `words`: the question's JSON without its own name and patience."""

    run_id: str
    link: int | None
    read: int | None
    words: bytes

    @classmethod
    def of(cls, question: Look, link: int | None, read: int, windows: Sequence[int | None] | None) -> Asked:
        """`windows`: of each layer, as ModelShape.layer_windows; None: not known. Raises TypeError for what cannot be sent."""
        words = codec.dump(msgspec.structs.replace(question, request_id="", patience_s=0.0))
        return cls(question.run_id, link, None if stays_true(question, windows) else read, words)


def stays_true(question: Look, windows: Sequence[int | None] | None) -> bool:
    """Whether the answer remains the same however far its run goes on.

    Attention up to a stated token does, since nobody sees a later one; up to the newest one it does not. Links, the lens (of the prompt)
    and the stages of one token are about what has been. A cell does where its layer keeps every token: a sliding one forgets it.
    """
    if isinstance(question, AskAttention):
        return question.until is not None
    if isinstance(question, AskCell):
        return windows is not None and 0 <= question.layer < len(windows) and windows[question.layer] is None
    return True


@dataclass(eq=False, slots=True)
class _Flight:
    """A question on its way. `wanted`: whether its answer may be kept and others may still join."""

    answer: Future[Answer] = field(default_factory=Future)
    wanted: bool = True


class Recall:
    """Thread-safe. At most `kept_bytes` of answers; those that were used last stay. `clock` gives seconds."""

    def __init__(self, kept_bytes: int = KEPT_BYTES, clock: Callable[[], float] = time.monotonic) -> None:
        self._kept_bytes, self._clock = kept_bytes, clock
        self._lock = threading.Lock()
        self._kept: dict[Asked, Answer] = {}  # the one that was used last comes last
        self._bytes = 0
        self._flights: dict[Asked, _Flight] = {}

    def answer(self, asked: Asked, ask: Callable[[float], Answer], timeout_s: float) -> Answer:
        """What is kept, what somebody else is being told, or what `ask(seconds)` gives. Raises what that raises: a refusal is told to
        all that joined, and not kept. Who joined and has more patience than the one that asked asks again.
        """
        until, left_s = self._clock() + timeout_s, timeout_s
        while True:
            with self._lock:
                if asked in self._kept:
                    found = self._kept[asked] = self._kept.pop(asked)
                    return found
                flight, first = self._flights.get(asked), False
                if flight is None:
                    flight, first = self._flights.setdefault(asked, _Flight()), True
            if first:
                return self._fly(asked, flight, ask, left_s)
            try:
                return flight.answer.result(left_s)
            except TimeoutError as late:
                raise EngineUnavailable(detail="timeout") from late
            except EngineUnavailable as failure:
                left_s = until - self._clock()
                if failure.params.get("detail") != "timeout" or left_s < _WORTH_ASKING_S:
                    raise

    def forget(self, run_id: str) -> None:
        """The run's live memory is gone, or its record: so is what was seen of it. Who waits for an answer gets it."""
        self._drop(lambda asked: asked.run_id == run_id)

    def clear(self) -> None:
        self._drop(lambda asked: True)

    def _fly(self, asked: Asked, flight: _Flight, ask: Callable[[float], Answer], timeout_s: float) -> Answer:
        """Ask, and tell all that wait with this one, whatever comes of it."""
        try:
            answer = ask(timeout_s)
        except BaseException as failure:
            self._land(asked, flight)
            refused = isinstance(failure, Exception)  # else the asker itself was called off, which is nothing to the others
            flight.answer.set_exception(failure if refused else EngineUnavailable(detail="timeout"))
            raise
        self._land(asked, flight, answer)
        flight.answer.set_result(answer)
        return answer

    def _land(self, asked: Asked, flight: _Flight, answer: Answer | None = None) -> None:
        with self._lock:
            if not flight.wanted:
                return
            del self._flights[asked]
            if answer is None or (size := _size(asked, answer)) > self._kept_bytes:
                return
            self._kept[asked] = answer
            self._bytes += size
            while self._bytes > self._kept_bytes:
                self._take(next(iter(self._kept)))

    def _drop(self, goes: Callable[[Asked], bool]) -> None:
        with self._lock:
            for asked in [asked for asked in self._kept if goes(asked)]:
                self._take(asked)
            for asked in [asked for asked in self._flights if goes(asked)]:
                self._flights.pop(asked).wanted = False

    def _take(self, asked: Asked) -> None:
        self._bytes -= _size(asked, self._kept.pop(asked))


def _size(asked: Asked, answer: Answer) -> int:
    data = len(answer.encode()) if isinstance(answer, str) else answer.nbytes
    return data + len(asked.words) + _OVERHEAD_BYTES
