"""Fair turns: one worker, many jobs, round robin between sessions.

Knows jobs, errands (loading a model) and questions; does not know models, processes or messages other than a status. Any thread may
add, steer or ask; only the worker calls `turn` or `run`. What is asked about a job that is in the middle of a turn happens right
after it, as if it had come then.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager

from engine.errors import EngineError, ErrorInfo, OutOfMemory, RunFreed, RunUnknown
from engine.serve.errand import Errand, guarded
from engine.serve.holding import HELD_BYTES, Holding
from engine.serve.job import Job, Request
from engine.serve.protocol import Message, SteerAction
from engine.serve.rings import Rings
from engine.trace import RunStatus, StopReason

log = logging.getLogger(__name__)

QUESTIONS_WAITING = 256
TIDY_AFTER_S = 2.0  # of rest


class Scheduler:
    """`emit` takes the jobs' words on their status and whatever their turns give, in order. `clock` gives seconds.

    held_runs, held_bytes: as Holding. `tidy` is called on the worker when it has rested for a while after a job's end.
    """

    def __init__(
        self,
        emit: Callable[[Message], None],
        *,
        clock: Callable[[], float] = time.perf_counter,
        held_runs: int = 16,
        held_bytes: int = HELD_BYTES,
        tidy: Callable[[], None] = lambda: None,
    ) -> None:
        self._emit, self._clock, self._holding = emit, clock, Holding(held_runs, held_bytes)
        self._changed = threading.Condition()  # re-entrant: guards all below
        self._jobs: dict[str, Job] = {}  # ended ones in the order in which they ended
        self._rings = Rings()
        self._errands: deque[Errand] = deque()
        self._questions: deque[tuple[str, Callable[[], None]]] = deque()
        self._tidy, self._untidy = tidy, False
        self._closed = False

    # from any thread

    def add(self, job: Job) -> None:
        with self._changed:
            self._jobs[job.run_id] = job
            self._rings.add(job)
            self._tell(job)
            self._changed.notify_all()

    def steer(
        self,
        run_id: str,
        action: SteerAction,
        pace_s: float | None = None,
        at: float | None = None,
        error: ErrorInfo | None = None,
    ) -> None:
        """`at`: when it was asked. `error`: why the job ends, for actions that end it. A job that is not known any more is beyond
        steering: nothing happens."""
        with self._changed:
            job = self._jobs.get(run_id)
            if job is None:
                log.info("%s for a run that is not here", action)
                return
            job.deferred.append(Request(action, pace_s, self._clock() if at is None else at, error))
            if not job.busy:
                self._settle(job)

    def ask(self, run_id: str, question: Callable[[], None]) -> bool:
        """To be answered between two turns; it reports its own failures. False: too many are waiting."""
        with self._changed:
            if len(self._questions) >= QUESTIONS_WAITING:
                return False
            self._questions.append((run_id, question))
            self._changed.notify_all()
            return True

    def send(self, errand: Errand) -> None:
        with self._changed:
            self._errands.append(errand)
            self._changed.notify_all()

    def find(self, run_id: str) -> Job:
        """Raises RunUnknown, RunFreed."""
        job = self._jobs.get(run_id)
        if job is None:
            raise RunUnknown(run=run_id)
        if job.freed:
            raise RunFreed(run=run_id)
        return job

    def release(self, group: Hashable) -> None:
        """What the jobs of `group` were waiting for is there."""
        with self._changed:
            for job in self._rings.of(group):
                job.ready = True
            self._changed.notify_all()

    def fail(self, group: Hashable, error: ErrorInfo) -> None:
        """What the waiting jobs of `group` need will not come."""
        with self._changed:
            for job in [job for job in self._rings.of(group) if not job.ready]:
                self._end(job, StopReason.ERROR, error)

    def in_use(self, group: Hashable) -> bool:
        """Whether a job that has not ended holds what `group` names."""
        with self._changed:
            return any(job.ready for job in self._rings.of(group))

    def free_ended(self, group: Hashable) -> None:
        with self._changed:
            for job in self._jobs.values():
                if job.ended and job.group == group:
                    job.free()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    # the worker

    def run(self) -> None:
        """Take turns until closed."""
        while not self._closed:
            if not self.turn():
                self._rest()

    def turn(self) -> bool:
        """At most one question, one errand and one job's turn, in this order. False: there was nothing to do."""
        with self._changed:
            question = self._questions.popleft() if self._questions else None
        if question is not None:
            self._answer(*question)
        with self._changed:
            errand = next((errand for errand in self._errands if errand.can_run()), None)
            if errand is not None:
                self._errands.remove(errand)
        if errand is not None:
            guarded(errand.run)
        job = self._next_job()
        if job is not None:
            self._play(job)
        return question is not None or errand is not None or job is not None

    def _rest(self) -> None:
        """Sleep until something is asked or the next paced turn is due."""
        with self._changed:
            if self._closed or self._questions or any(errand.can_run() for errand in self._errands):
                return
            due_at = self._rings.next_due_at()
            wait_s = None if due_at is None else due_at - self._clock()
            if wait_s is not None and wait_s <= TIDY_AFTER_S:
                self._changed.wait(max(wait_s, 0.0))
                return
            if self._changed.wait(TIDY_AFTER_S if self._untidy else wait_s) or not self._untidy:
                return
            self._untidy = False
        guarded(self._tidy)

    @contextmanager
    def kept(self, run_id: str) -> Iterator[Job | None]:
        """On the worker: the job, which is not freed while inside, whatever is asked about it meanwhile. None: unknown, or freed."""
        with self._changed:
            job = self._jobs.get(run_id)
            if job is not None and job.freed:
                job = None
            if job is not None:
                job.busy = True
        try:
            yield job
        finally:
            with self._changed:
                if job is not None:
                    job.busy = False
                    self._settle(job)

    def _answer(self, run_id: str, question: Callable[[], None]) -> None:
        with self.kept(run_id):
            guarded(question)

    def _next_job(self) -> Job | None:
        with self._changed:
            now = self._clock()
            job = self._rings.take(now)
            if job is not None:
                self._start(job, now)
            return job

    def _start(self, job: Job, now: float) -> None:
        first = not job.started
        job.begin(now)
        if job.status is RunStatus.QUEUED:
            job.status = RunStatus.RUNNING
            self._tell(job)
        if first:
            self._holding.trim(self._jobs)

    def _play(self, job: Job) -> None:
        single = job.allowance > 0
        if self._advance(job) and (single or job.pace_s > 0):
            self._look_aside(job)

    def _advance(self, job: Job) -> bool:
        """One turn. False: the job has ended."""
        messages: tuple[Message, ...] = ()
        error, reason = None, None
        try:
            messages = job.advance()
            for message in messages:
                self._emit(message)
        except EngineError as failure:
            error = job.work.error or failure.info
            reason = StopReason.OUT_OF_MEMORY if isinstance(failure, OutOfMemory) else StopReason.ERROR
        except Exception as failure:
            log.exception("a turn failed")
            error = job.work.error or ErrorInfo("internal", {"detail": f"{type(failure).__name__}: {failure}"})
        with self._changed:
            job.finish(self._clock())
            if not messages or error is not None or job.work.stop_reason is not None:
                self._end(job, job.work.stop_reason or reason or StopReason.ERROR, error or job.work.error)
            self._settle(job)
            return not job.ended

    def _look_aside(self, job: Job) -> None:
        """What a reader who follows step by step likes to see besides, where nobody else waits for the worker. It belongs to no step."""
        with self._changed:
            began_at = self._clock()
            if self._questions or self._rings.others_wait(job.session, began_at):
                return
        with self.kept(job.run_id) as found:
            if found is None or found.ended:
                return
            guarded(lambda: self._tell_aside(job))
            with self._changed:
                job.note_aside(began_at, self._clock())

    def _tell_aside(self, job: Job) -> None:
        message = job.work.aside()
        if message is not None:
            self._emit(message)

    # under the lock

    def _settle(self, job: Job) -> None:
        """Do what was asked about a job that is not (any more) in the middle of a turn."""
        while job.deferred:
            request = job.deferred.pop(0)
            before = job.status
            if not job.ended:
                self._apply(job, request)
            if request.action == "cancel":
                job.free()
            if job.status is not before and not job.ended:
                self._tell(job)
        self._changed.notify_all()

    def _apply(self, job: Job, request: Request) -> None:
        if request.pace_s is not None:
            job.set_pace(request.pace_s, request.at)
        if request.action == "play":
            job.play(request.at)
        elif request.action == "pause":
            job.pause(request.at)
        elif request.action == "step":
            job.step(request.at)
        else:
            job.work.stop(StopReason.STOPPED)
            self._end(job, job.work.stop_reason or StopReason.STOPPED, job.work.error or request.error)

    def _end(self, job: Job, reason: StopReason, error: ErrorInfo | None) -> None:
        job.end()
        self._untidy = True
        self._rings.remove(job)
        self._jobs[job.run_id] = self._jobs.pop(job.run_id)
        if job.polite or not job.started:
            job.free()  # it has no live memory to keep for questions, and only what is freed can be forgotten
        self._tell(job, reason, error)
        self._holding.trim(self._jobs)
        self._changed.notify_all()

    def _tell(self, job: Job, reason: StopReason | None = None, error: ErrorInfo | None = None) -> None:
        self._emit(job.word(job.run_id, job.status, reason, error))
