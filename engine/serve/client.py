"""The app's side of the engine: starts the process, keeps the book of its runs, starts it again when it dies.

Knows processes, runs and questions as the pages see them; does not know torch, models from the inside, or Streamlit. Thread-safe.
"""

from __future__ import annotations

import atexit
import logging
import secrets
import threading
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from engine import codec
from engine.errors import (
    EngineLost,
    EngineUnavailable,
    ErrorInfo,
    NotYours,
    RunFreed,
    RunUnknown,
    Unwatched,
)
from engine.serve.asks import Look, Question
from engine.serve.book import Book, Entry
from engine.serve.checks import check_pace, check_place
from engine.serve.keeper import EngineStatus, Garbled, Keeper
from engine.serve.protocol import (
    Answered,
    Hello,
    Message,
    ModelFailed,
    ModelFreed,
    ModelProgress,
    ModelReady,
    StatusChanged,
    Steer,
    SteerAction,
    Submit,
    SweepEnded,
    SweepMoved,
    read_address,
    read_event,
)
from engine.serve.questions import Answer, Questions
from engine.serve.recall import Recall
from engine.serve.recordings import Recordings
from engine.serve.stock import ModelStatus
from engine.serve.supply import ModelSupply
from engine.serve.sweeping import Sheet, SweepBook, SweepDesk
from engine.serve.window import RunWindow
from engine.settings import Settings
from engine.stem import branch_settings, stem_of
from engine.trace import RunSettings, RunStatus, RunView, StopReason

__all__ = ["EngineClient", "EngineStatus", "ModelStatus", "Ticket"]

T = TypeVar("T")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Ticket:
    """`run_id` lets watch, `key` lets steer."""

    run_id: str
    key: str


class EngineClient(ModelSupply, RunWindow, SweepDesk, Recordings):
    """One engine process and its runs. `start` before use; `close` leaves no process behind (also at the interpreter's exit)."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._recall = Recall()
        self._book = Book(settings.kept_runs, settings.lease_s, left=self._recall.forget)
        self._sweeps = SweepBook(settings.lease_s)
        self._questions = Questions()
        self._keeper = Keeper(settings, self._receive, self._lose)
        self._closed = threading.Event()
        self._branching = threading.Lock()

    def start(self) -> None:
        """Returns at once; the process comes up meanwhile."""
        atexit.register(self.close)
        self._keeper.start()
        threading.Thread(target=self._reap, name="engine reaper", daemon=True).start()

    def close(self) -> None:
        atexit.unregister(self.close)
        self._closed.set()
        self._keeper.close()
        self._questions.fail(EngineUnavailable(detail="closed").info)
        self._book.close()
        self._recall.clear()

    def status(self) -> EngineStatus:
        return self._keeper.status()

    # runs

    def submit(
        self,
        prompt: str,
        settings: RunSettings,
        *,
        model: str,
        device: str = "auto",
        session: str,
        play: bool = True,
        pace_s: float = 0.0,
    ) -> Ticket:
        """A new run; it has one lease before somebody must be watching. Waiting counts from this call on, whether there is an engine
        or not. Raises LoneSurrogate, InvalidSetting, TooManyRuns; ModelNotFound for a model that visitors may not name.
        """
        submitted_at = time.perf_counter()
        for text in (prompt, settings.system_prompt or "", model, device, session):
            codec.check_text(text)
        self._check_model(model)
        check_pace(pace_s)
        run_id, key = secrets.token_urlsafe(16), secrets.token_urlsafe(16)
        command = Submit(run_id, session, model, device, prompt, settings, play, pace_s, submitted_at)
        data = codec.dump(command)  # what cannot be sent fails here, before there is a run
        self._send(data, self._book.add(command, key))
        return Ticket(run_id, key)

    def branch(
        self, run_id: str, key: str | None, index: int, token_id: int, *, session: str, play: bool = True, pace_s: float = 0.0
    ) -> Ticket:
        """Leave a run at its generated token `index` and go on with `token_id` in its place, as a run of its own with the same key. The
        run that is left is paused and stays as it is. `play` False: only that token is written, then the branch is paused.

        Raises RunUnknown, NotYours, OutOfRange, InvalidSetting, TooManyRuns, LoneSurrogate; nothing has happened then.
        """
        asked_at = time.perf_counter()
        left, view = self._mine(run_id, key), self._book.view(run_id)
        if view is None:
            raise RunUnknown(run=run_id)
        codec.check_text(session)
        check_pace(pace_s)
        check_place("index", index, len(view.generated))
        check_place("token_id", token_id, 0 if view.model is None else view.model.shape.vocab_size)
        stem, settings = stem_of(view, index, token_id, run_id), branch_settings(view.settings)
        new_id = secrets.token_urlsafe(16)
        command = Submit(new_id, session, view.model_id, view.device, view.prompt, settings, play, pace_s, asked_at, stem)
        data = codec.dump(command)
        with self._branching:  # no stop for a branch that stands in the book overtakes its own Submit
            entry = self._book.add(command, left.key, left)
            self._book.touch(run_id)
            if left.status is not RunStatus.ENDED:  # also where it seems to be paused: a click on play may still be on its way
                self._post(Steer(run_id, "pause"))
            self._send(data, entry)
            for other in self._book.crowded_out(entry, left):
                self._post(Steer(other, "stop", error=Unwatched().info))
        return Ticket(new_id, left.key)

    def family(self, run_id: str) -> tuple[RunView, ...]:
        """The run and all its branches: the one that all began with first, then as they were made. What has left the book is absent."""
        return self._book.family(run_id)

    def view(self, run_id: str) -> RunView | None:
        """What the run has shown so far; None when it is unknown or has left the book."""
        return self._book.view(run_id)

    def can_steer(self, run_id: str, key: str | None) -> bool:
        try:
            entry = self._book.find(run_id)
        except RunUnknown:
            return False
        return key is not None and secrets.compare_digest(entry.key.encode(), key.encode(errors="replace"))

    def steer(self, run_id: str, key: str | None, action: SteerAction, pace_s: float | None = None) -> None:
        """Raises RunUnknown, NotYours, InvalidSetting. A run that has ended can only be cancelled (its live memory is freed)."""
        entry = self._mine(run_id, key)
        if pace_s is not None:
            check_pace(pace_s)
            self._book.set_pace(run_id, pace_s)
        self._book.touch(run_id)
        if action == "cancel":
            self._cancel(run_id)
        elif entry.status is not RunStatus.ENDED:
            self._post(Steer(run_id, action, pace_s))

    def touch(self, run_id: str) -> None:
        """Somebody is looking."""
        self._book.touch(run_id)

    async def stream(self, run_id: str) -> AsyncIterator[str]:
        """JSON texts for one browser: a Snapshot, then each event once, in order. Goes on after the run's end, until the run leaves
        the book or the client is closed. A browser that falls far behind gets a new Snapshot instead. Raises RunUnknown.
        """
        watcher = self._book.watch(run_id)
        try:
            while not watcher.over:
                watcher.event.clear()
                for frame in self._book.take(watcher):
                    yield frame
                await watcher.event.wait()
        finally:
            self._book.unwatch(watcher)

    def _mine(self, run_id: str, key: str | None) -> Entry:
        """Raises RunUnknown, NotYours."""
        entry = self._book.find(run_id)
        if not self.can_steer(run_id, key):
            raise NotYours(run=run_id)
        return entry

    def _send(self, data: bytes, entry: Entry | Sheet) -> None:
        self._keeper.post(data, lambda number: setattr(entry, "link", number))

    def _post(self, message: Message) -> None:
        self._keeper.post(codec.dump(message))

    def _cancel(self, run_id: str, error: ErrorInfo | None = None) -> None:
        """End it, where it goes on, and free its live memory; first there, then here: what is asked from now on is asked of the engine."""
        self._post(Steer(run_id, "cancel", error=error))
        self._recall.forget(run_id)

    def _look(self, question: Look, timeout_s: float, read: Callable[[Answer], T]) -> T:
        entry = self._book.find(question.run_id)
        self._book.touch(question.run_id)
        if entry.link is not None and entry.link != self._keeper.number:
            raise RunFreed(run=question.run_id)

        def ask(patience_s: float) -> Answer:
            answer = self._ask(msgspec.structs.replace(question, patience_s=patience_s), patience_s)
            read(answer)  # what cannot be read is not kept
            return answer

        return read(self._recall.answer(entry.asked(question), ask, timeout_s))

    def _ask(self, question: Question, timeout_s: float) -> Answer:
        if self._closed.is_set():
            raise EngineUnavailable(detail="closed")
        with self._questions.expecting(question.request_id) as answer:
            self._post(question)
            return answer(timeout_s)

    # in the keeper's thread

    def _receive(self, data: bytes, more: Callable[[], bytes]) -> None:
        try:
            event = read_event(data)
        except Exception as failure:
            log.exception("a message that cannot be read")
            self._give_up(data, failure)
            return
        if isinstance(event, Answered):
            self._questions.answer(event, more() if event.dtype else b"")
        elif isinstance(event, ModelProgress | ModelReady | ModelFailed | ModelFreed):
            self._stock.apply(event)
        elif isinstance(event, SweepMoved | SweepEnded):
            self._sweeps.apply(event)
        elif not isinstance(event, Hello):
            self._book.apply(event, data.decode())

    def _give_up(self, data: bytes, failure: Exception) -> None:
        """End the run or sweep whose message cannot be read: nobody is to wait for what will not come. Raises Garbled for no one's."""
        try:
            about = read_address(data)
        except msgspec.MsgspecError as worse:
            raise Garbled from worse
        run_id, error = about.run_id, ErrorInfo("internal", {"detail": str(failure)})
        if about.sweep_id is not None:
            self._give_up_sweep(about.sweep_id, error)
            return
        if run_id is None:
            raise Garbled from failure
        self._book.apply(StatusChanged(run_id, RunStatus.ENDED, StopReason.ERROR, error))
        self._cancel(run_id)

    def _lose(self, number: int, exit_code: int) -> list[bytes]:
        self._book.lose(number, exit_code)
        self._sweeps.lose(number, exit_code)
        self._questions.fail(EngineLost(exit_code=exit_code).info)
        self._recall.clear()
        return [codec.dump(wish) for wish in self._stock.lose(exit_code)]

    # in the reaper's thread

    def _reap(self) -> None:
        """Cancel what nobody watches: a run that goes on ends, one that has ended lets go of its live memory."""
        while not self._closed.wait(min(max(self._settings.lease_s / 4, 0.05), 1.0)):
            for run_id in self._book.unwanted():
                self._cancel(run_id, Unwatched().info)
            self._stop_unwanted_sweeps()
