"""Answers to what the app asks of the engine process: looks into a run (attention, cache, guesses), cuts of a text, what this machine can
do, terms of a model.

Knows the questions and who can answer them; does not know the connection. Looks wait for the worker's next free moment. Cuts, and the
text of ids, need tokenizers alone: a clerk answers them beside the worker, so that nobody waits for a long prompt to be read. Terms may
need the network and get a thread each. The machine is measured by the worker, piece by piece between the turns of all runs.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Generator
from typing import Any, Protocol

import numpy as np

from engine import codec
from engine.calibration import Measuring
from engine.errors import EngineError, EngineUnavailable, ErrorInfo, OutOfRange
from engine.findings import TextCut
from engine.serve.asks import AcceptTerms, AskCalibration, AskCut, AskDecoded, AskTerms, Look, Question
from engine.serve.errand import guarded
from engine.serve.models import Wanted
from engine.serve.protocol import Answered, Message
from engine.serve.scheduler import Scheduler

log = logging.getLogger(__name__)

CUTS_WAITING = 64  # a cut takes milliseconds; more than these is a flood
SURVEYS_WAITING = 4  # each takes the worker a second or two


class Notary(Protocol):
    """Shows and records terms; raises EngineError. Measures what the machine can do for a loaded model, in pieces."""

    def terms(self, model: str) -> str: ...
    def accept(self, model: str) -> None: ...
    def calibrate(self, model: Any, measuring: Measuring) -> Generator[None, None, Any]: ...


class Shelf(Protocol):
    """The models in memory; raises ModelNotLoaded."""

    def find(self, wanted: Wanted) -> Any: ...


class Clerk:
    """Does one task after another in a thread of its own, which begins with the first one. Tasks report their own failures."""

    def __init__(self, waiting: int) -> None:
        self._tasks: queue.Queue[Callable[[], None]] = queue.Queue(waiting)
        self._thread = threading.Thread(target=self._work, name="clerk", daemon=True)

    def take(self, task: Callable[[], None]) -> bool:
        """For one thread. False: too many are waiting."""
        try:
            self._tasks.put_nowait(task)
        except queue.Full:
            return False
        if not self._thread.is_alive():
            self._thread.start()
        return True

    def _work(self) -> None:
        while True:
            guarded(self._tasks.get())


class Survey:
    """An errand in pieces, so that others have their turns in between. `piece` does one, and says whether it was the last."""

    def __init__(self, piece: Callable[[], bool], again: Callable[[Survey], None], over: Callable[[], None] = lambda: None) -> None:
        self._piece, self._again, self._over = piece, again, over

    def can_run(self) -> bool:
        return True

    def run(self) -> None:
        last = True  # also where it fails to tell: those behind it must not wait for ever
        try:
            last = self._piece()
        finally:
            if last:
                self._over()
        if not last:
            self._again(self)


class Surveys:
    """One after the other, for each fills memory of its own and two would disturb each other's times. Any thread may bring one."""

    def __init__(self, send: Callable[[Survey], None]) -> None:
        self._send, self._lock = send, threading.Lock()
        self._waiting: deque[Survey] = deque()  # the first of them is with the worker

    def take(self, piece: Callable[[], bool]) -> bool:
        """False: too many are waiting."""
        survey = Survey(piece, self._send, self._next)
        with self._lock:
            if len(self._waiting) >= SURVEYS_WAITING:
                return False
            self._waiting.append(survey)
            first = len(self._waiting) == 1
        if first:
            self._send(survey)
        return True

    def _next(self) -> None:
        with self._lock:
            self._waiting.popleft()
            survey = self._waiting[0] if self._waiting else None
        if survey is not None:
            self._send(survey)


class Answers:
    """`send` takes an Answered and, where it announces one, the array that follows it; when it fails, nothing has been sent.

    `clock` gives seconds.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        send: Callable[[Message, Any], None],
        notary: Notary,
        shelf: Shelf,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._scheduler, self._send, self._notary, self._shelf, self._clock = scheduler, send, notary, shelf, clock
        self._clerk = Clerk(CUTS_WAITING)
        self._surveys = Surveys(scheduler.send)

    def take(self, question: Question) -> None:
        """Every question is answered, if only with an error."""
        if isinstance(question, AskTerms | AcceptTerms):
            task = threading.Thread(target=self._answer, args=(question, lambda: self._read(question)), name="terms", daemon=True)
            task.start()
            return
        expires_at = self._clock() + question.patience_s
        if isinstance(question, AskCalibration):
            self._survey(question, expires_at)
            return

        def answer() -> None:
            self._answer(question, lambda: self._find(question, expires_at))

        taken = self._clerk.take(answer) if isinstance(question, AskCut | AskDecoded) else self._scheduler.ask(question.run_id, answer)
        if not taken:
            self._refuse(question)

    def _refuse(self, question: Question) -> None:
        self._send(Answered(question.request_id, EngineUnavailable(detail="too many questions").info), None)

    def _check_waiting(self, expires_at: float) -> None:
        """Nothing is computed for somebody who has gone."""
        if self._clock() > expires_at:
            raise EngineUnavailable(detail="timeout")

    def _survey(self, question: AskCalibration, expires_at: float) -> None:
        """What is only looked up is the clerk's; what may have to be measured is the worker's."""
        work = self._measured(question, expires_at)

        def piece() -> bool:
            return self._answer(question, lambda: _piece_of(work))

        look_up = question.measuring == "never"
        if not (self._clerk.take(Survey(piece, self._scheduler.send).run) if look_up else self._surveys.take(piece)):
            self._refuse(question)

    def _measured(self, question: AskCalibration, expires_at: float) -> Generator[None, None, Any]:
        """Nothing here holds the model while it is measured: it may have to make room meanwhile."""
        self._check_waiting(expires_at)
        return (yield from self._notary.calibrate(self._shelf.find(Wanted(question.model, question.device)), question.measuring))

    def _find(self, question: Look | AskCut | AskDecoded, expires_at: float) -> Any:
        self._check_waiting(expires_at)
        if isinstance(question, AskDecoded):
            return self._decoded(question)
        return self._cut(question) if isinstance(question, AskCut) else self._scheduler.find(question.run_id).work.look(question)

    def _cut(self, question: AskCut) -> TextCut:
        model = self._shelf.find(Wanted(question.model, question.device))
        tokenizer, vocabulary = model.tokenizer, model.vocabulary
        del model  # it may have to make room meanwhile
        from engine.generate.merges import cut

        return cut(tokenizer, vocabulary, question.words)

    def _decoded(self, question: AskDecoded) -> str:
        model = self._shelf.find(Wanted(question.model, question.device))
        tokenizer, vocabulary, count = model.tokenizer, model.vocabulary, model.shape.vocab_size
        del model  # it may have to make room meanwhile
        stranger = next((id for id in question.ids if not 0 <= id < count), None)
        if stranger is not None:
            raise OutOfRange(field="id", value=stranger, count=count)
        with vocabulary.lock:  # the worker may be encoding with the same tokenizer
            return str(tokenizer.decode(list(question.ids), skip_special_tokens=question.skip_special))

    def _read(self, question: AskTerms | AcceptTerms) -> str:
        if isinstance(question, AskTerms):
            return self._notary.terms(question.model)
        self._notary.accept(question.model)
        return ""

    def _answer(self, question: Question, find: Callable[[], Any]) -> bool:
        """False: `find` gave None, there is no answer yet."""
        try:
            answer = find()
            if answer is None:
                return False
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
        return True


def _piece_of(work: Generator[None, None, Any]) -> Any:
    """Do one piece: None, and at the end what the work gives, "" for nothing."""
    try:
        next(work)
    except StopIteration as end:
        return "" if end.value is None else end.value
    return None
