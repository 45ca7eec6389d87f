"""The engine process: `python -m engine.serve.server PORT`, started by the app, which hands it a key on its standard input.

Knows how scheduler, models, questions and connection are put together; does not know pages or browsers. Three threads: the main one
reads commands, the worker owns models and runs, the sender writes; a few questions that need no run are answered in others
(engine.serve.answers). When the app is gone, whatever the reason, the process ends.
"""

from __future__ import annotations

import importlib
import logging
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec

from engine import codec
from engine.errors import EngineError, ErrorInfo, RunFreed, RunUnknown
from engine.serve import heap
from engine.serve.answers import Answers
from engine.serve.job import Job
from engine.serve.maker import ModelMaker
from engine.serve.models import ModelPool, Wanted
from engine.serve.protocol import (
    Answered,
    BeginSweep,
    Hello,
    LoadModel,
    Message,
    ModelFailed,
    Shutdown,
    StatusChanged,
    Steer,
    StopSweep,
    Submit,
    SweepEnded,
    read_address,
    read_boot,
    read_command,
)
from engine.serve.scheduler import Scheduler
from engine.serve.sweepwork import SweepWork, word_of
from engine.serve.wire import Wire, dial
from engine.serve.work import Neighbour, RunWork
from engine.settings import Settings
from engine.trace import RunStatus, StopReason

if TYPE_CHECKING:
    from engine.run import Run

log = logging.getLogger(__name__)

SPARE_THREADS = 1  # for the browser that draws every step, often on this very machine
GRACE_S = 0.3  # for the turn in progress, when the app is gone


class Outbox:
    """Messages on their way to the app: the worker hands over and goes on, a thread of its own does the writing."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._waiting: queue.SimpleQueue[bytes | memoryview] = queue.SimpleQueue()
        self._pair = threading.Lock()  # an array follows its announcement, whoever else is sending
        threading.Thread(target=self._write, name="sender", daemon=True).start()

    def put(self, message: Message, array: Any = None) -> None:
        """`array`: numpy, sent as its bytes in C order. When this fails, nothing is sent."""
        data, more = codec.dump(message), None if array is None else array.tobytes()
        with self._pair:
            self._waiting.put(data)
            if more is not None:
                self._waiting.put(more)

    def _write(self) -> None:
        try:
            while True:
                self._wire.send(self._waiting.get())
        except OSError:
            leave(0)
        except Exception:
            log.exception("the sender failed")
            leave(1)


class Server:
    """One engine on one connection."""

    def __init__(self, wire: Wire, settings: Settings) -> None:
        self._wire = wire
        self._outbox = Outbox(wire)
        models = ModelMaker(settings)
        self._scheduler = Scheduler(self._outbox.put, held_runs=settings.held_runs, tidy=heap.give_back)
        self._pool = ModelPool(self._scheduler, self._outbox.put, models)
        self._answers = Answers(self._scheduler, self._outbox.put, models, self._pool)
        self._worker = threading.Thread(target=self._work, name="worker", daemon=True)

    def serve(self) -> None:
        """Until the app is gone or says so."""
        self._worker.start()
        self._outbox.put(Hello(os.getpid()))
        try:
            while self._handle(self._wire.receive(), time.perf_counter()):
                pass
        except (EOFError, OSError):
            log.info("the app is gone")
        self._scheduler.close()
        self._worker.join(GRACE_S)

    def _work(self) -> None:
        try:
            for heavy in ("engine.model.loader", "engine.run"):  # the slow part of the first load; nobody waits for it yet
                importlib.import_module(heavy)
            self._scheduler.run()
        except BaseException:
            log.exception("the worker failed")
            leave(1)

    def _handle(self, data: bytes, at: float) -> bool:
        """False: the app wants no more."""
        try:
            command = read_command(data)
            if isinstance(command, Shutdown):
                return False
            if isinstance(command, Submit):
                self._submit(command, at)
            elif isinstance(command, Steer):
                self._scheduler.steer(command.run_id, command.action, command.pace_s, at, command.error)
            elif isinstance(command, BeginSweep):
                self._begin_sweep(command, at)
            elif isinstance(command, StopSweep):
                self._stop_sweep(command, at)
            elif isinstance(command, LoadModel):
                self._load(Wanted(command.model, command.device))
            else:
                self._answers.take(command)
        except msgspec.MsgspecError as failure:
            log.exception("a command that cannot be read")
            self._refuse(data, failure)
        except Exception as failure:
            log.exception("a command failed")
            self._refuse(data, failure)
        return True

    def _refuse(self, data: bytes, failure: Exception) -> None:
        """Tell who waits for what the command was to do. One that does not even say whom it is for ends this process (and is raised):
        then everybody who waits is told."""
        about = read_address(data)
        error = ErrorInfo("internal", {"detail": f"{type(failure).__name__}: {failure}"})
        if about.request_id is not None:
            self._outbox.put(Answered(about.request_id, error))
        elif about.run_id is not None:
            self._outbox.put(StatusChanged(about.run_id, RunStatus.ENDED, StopReason.ERROR, error))
            self._scheduler.steer(about.run_id, "cancel")  # what there may be of it goes; the app has heard its end already
        elif about.sweep_id is not None:
            self._outbox.put(SweepEnded(about.sweep_id, "failed", error))
            self._scheduler.steer(about.sweep_id, "cancel")
        elif about.model is not None and about.device is not None:
            self._outbox.put(ModelFailed(about.model, about.device, error))
        else:
            raise failure

    def _load(self, wanted: Wanted) -> None:
        try:
            if self._pool.want(wanted):
                self._pool.announce(wanted)
        except EngineError as failure:
            self._outbox.put(ModelFailed(wanted.model, wanted.device, failure.info))

    def _submit(self, command: Submit, arrived_at: float) -> None:
        at = arrived_at if command.submitted_at is None else min(command.submitted_at, arrived_at)
        wanted = Wanted(command.model, command.device)
        work = RunWork(command, lambda: self._pool.take(wanted), at, self._left_by(command))
        status = RunStatus.QUEUED if command.play else RunStatus.PAUSED
        branch = command.stem is not None
        job = Job(
            run_id=command.run_id,
            session=command.session,
            work=work,
            submitted_at=at,
            group=wanted,
            ready=False,
            pace_s=command.pace_s,
            status=status,
            allowance=int(branch and not command.play),
            owes_first=branch,
        )
        self._enter(job, wanted)

    def _enter(self, job: Job, wanted: Wanted) -> None:
        self._scheduler.add(job)
        try:
            self._pool.want(wanted)
        except EngineError as failure:
            self._scheduler.fail(wanted, failure.info)

    def _begin_sweep(self, command: BeginSweep, at: float) -> None:
        wanted = Wanted(command.model, command.device)
        work = SweepWork(command, lambda: self._pool.take(wanted))
        self._enter(Job(command.sweep_id, command.session, work, at, group=wanted, ready=False, word=word_of, polite=True), wanted)

    def _stop_sweep(self, command: StopSweep, at: float) -> None:
        """The one under way hears of it in the middle of its turn; one that waits for its turn ends here."""
        with suppress(RunUnknown, RunFreed):  # it has ended by itself
            work = self._scheduler.find(command.sweep_id).work
            assert isinstance(work, SweepWork)
            work.halt(command.error)
            self._scheduler.steer(command.sweep_id, "stop", at=at)

    def _left_by(self, command: Submit) -> Neighbour:
        """The live run that a branch leaves, for the worker: its memory stays while it is held."""
        run_id = "" if command.stem is None else command.stem.run_id

        @contextmanager
        def left() -> Iterator[Run | None]:
            with self._scheduler.kept(run_id) as job:
                yield job.work.live if job is not None and isinstance(job.work, RunWork) else None

        return left


def leave(code: int) -> NoReturn:
    """End this process at once: threads in the middle of torch or of a load do not hold it up. Downloads end with it by themselves."""
    os._exit(code)


def main(arguments: list[str]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole terminal; the app is the one to close this process
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="engine %(levelname)s %(name)s: %(message)s")
    boot = read_boot(sys.stdin.buffer.readline())
    settings = Settings(home=Path(boot.home), offline=boot.offline, held_runs=boot.held_runs, spare_threads=SPARE_THREADS)
    Server(dial(int(arguments[0]), bytes.fromhex(boot.key)), settings).serve()
    leave(0)


if __name__ == "__main__":
    main(sys.argv[1:])
