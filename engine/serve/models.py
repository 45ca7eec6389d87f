"""The models that the engine process holds: two at most, the least recently used makes room.

Knows when to load and when to free; does not know how a model is loaded (that is handed in) nor what a run does with it.
Weights are fetched in threads of their own; only the worker loads and frees. `want` may be called by any thread.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from engine.errors import EngineError, ErrorInfo, LoadFailed, ModelNotLoaded
from engine.serve.protocol import Message, ModelFailed, ModelFreed, ModelProgress, ModelReady
from engine.serve.scheduler import Scheduler
from engine.trace import LoadStage

log = logging.getLogger(__name__)

MODELS_HELD = 2
PROGRESS_GAP_S = 0.1

Progress = Callable[[LoadStage, int, int], None]


class Maker(Protocol):
    """Where models come from. `check` raises EngineError for a name that is none; it is quick and may run in any thread.

    `is_ready` says whether the weights are on the disk, `prepare` puts them there, both in any thread; `load` and `discard` (of what
    is left of a freed one) belong to the worker.
    `place` gives the device's own name for one that was asked for ("auto" → "cpu").
    """

    def check(self, model: str) -> None: ...
    def place(self, device: str) -> str: ...
    def is_ready(self, model: str) -> bool: ...
    def prepare(self, model: str, progress: Progress) -> None: ...
    def load(self, model: str, device: str, progress: Progress) -> Any: ...
    def discard(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Wanted:
    """A model as it was asked for; also the `group` of the jobs that need it."""

    model: str
    device: str


@dataclass(frozen=True, slots=True)
class Held:
    """A loaded model and where it lies. One model may be held under two names ("auto" and "cpu")."""

    model: Any
    place: str


class ModelPool:
    """`emit` takes ModelProgress, ModelReady, ModelFailed, ModelFreed.

    The scheduler's lock may be taken under this one's, never the reverse.
    """

    def __init__(self, scheduler: Scheduler, emit: Callable[[Message], None], maker: Maker) -> None:
        self._scheduler, self._emit, self._maker = scheduler, emit, maker
        self._lock = threading.Lock()
        self._held: dict[Wanted, Held] = {}  # the least recently used first
        self._coming: set[Wanted] = set()
        self._fetching = threading.Lock()

    def want(self, wanted: Wanted) -> bool:
        """True: the model is here, and its waiting jobs are released. False: it is being loaded; they are released, or failed, after that.

        Raises EngineError at once for a name that cannot be a model.
        """
        with self._lock:
            if wanted in self._held:
                self._touch(wanted)
                self._scheduler.release(wanted)
                return True
        self._maker.check(wanted.model)
        with self._lock:
            if wanted not in self._coming:
                self._coming.add(wanted)
                threading.Thread(target=self._fetch, args=(wanted,), name="fetch", daemon=True).start()
        return False

    def announce(self, wanted: Wanted) -> None:
        """Say once more that a model that is here is here."""
        with self._lock:
            held = self._held.get(wanted)
        if held is not None:
            self._emit(ModelReady(wanted.model, wanted.device, held.model.info))

    def take(self, wanted: Wanted) -> Any:
        """The loaded model, for a run that starts."""
        with self._lock:
            self._touch(wanted)
            return self._held[wanted].model

    def find(self, wanted: Wanted) -> Any:
        """The loaded model, for a question: whose turn it is to make room stays as it was. Raises ModelNotLoaded."""
        with self._lock:
            if wanted not in self._held:
                raise ModelNotLoaded(model=wanted.model)
            return self._held[wanted].model

    def has_room(self) -> bool:
        return len(self._groups()) < MODELS_HELD or bool(self._idle())

    def load(self, wanted: Wanted) -> None:
        """On the worker. Whatever happens, those who wait are told."""
        self._guarded(wanted, lambda: self._load(wanted))

    def _fetch(self, wanted: Wanted) -> None:
        """In a thread of its own: downloading and converting may take minutes, and other runs go on meanwhile. One at a time: a class
        that asks for ten models at once must not fill line, memory and disk with all of them. What is there already does not wait."""

        def fetch() -> None:
            if not self._maker.is_ready(wanted.model):
                with self._fetching:
                    self._maker.prepare(wanted.model, self._progress(wanted))
            self._scheduler.send(Load(self, wanted))

        self._guarded(wanted, fetch)

    def _load(self, wanted: Wanted) -> None:
        place = self._maker.place(wanted.device)
        names = self._groups().get((wanted.model, place))
        if names is None:
            self._make_room()
            model = self._maker.load(wanted.model, wanted.device, self._progress(wanted))
        else:
            model = self._held[names[0]].model
        self._emit(ModelReady(wanted.model, wanted.device, model.info))
        with self._lock:
            self._held[wanted] = Held(model, place)
            self._coming.discard(wanted)
            self._scheduler.release(wanted)

    def _progress(self, wanted: Wanted) -> Progress:
        return _thinned(lambda stage, done, total: self._emit(ModelProgress(wanted.model, wanted.device, stage, done, total)))

    def _guarded(self, wanted: Wanted, work: Callable[[], None]) -> None:
        try:
            work()
        except EngineError as failure:
            log.warning("loading failed: %s", failure)
            self._fail(wanted, failure.info)
        except Exception as failure:
            log.exception("loading failed")
            self._fail(wanted, LoadFailed(model=wanted.model, detail=f"{type(failure).__name__}: {failure}").info)

    def _fail(self, wanted: Wanted, error: ErrorInfo) -> None:
        with self._lock:
            self._coming.discard(wanted)
        self._emit(ModelFailed(wanted.model, wanted.device, error))
        self._scheduler.fail(wanted, error)

    def _make_room(self) -> None:
        with self._lock:
            names = self._idle() if len(self._groups()) >= MODELS_HELD else []
            for name in names:
                del self._held[name]
        for name in names:
            self._scheduler.free_ended(name)
            self._emit(ModelFreed(name.model, name.device))
        if names:
            self._maker.discard()

    def _groups(self) -> dict[tuple[str, str], list[Wanted]]:
        """(model, place) → the names under which it is held; the least recently used first."""
        groups: dict[tuple[str, str], list[Wanted]] = {}
        for wanted, held in reversed(list(self._held.items())):
            groups.setdefault((wanted.model, held.place), []).append(wanted)
        return dict(reversed(groups.items()))

    def _idle(self) -> list[Wanted]:
        """The names of the least recently used model that no live run uses; none: []."""
        idle = (names for names in self._groups().values() if not any(self._scheduler.in_use(name) for name in names))
        return next(idle, [])

    def _touch(self, wanted: Wanted) -> None:
        self._held[wanted] = self._held.pop(wanted)


@dataclass(frozen=True, slots=True)
class Load:
    """The errand: waits, if it must, until a held model has no live run."""

    pool: ModelPool
    wanted: Wanted

    def can_run(self) -> bool:
        return self.pool.has_room()

    def run(self) -> None:
        self.pool.load(self.wanted)


def _thinned(progress: Progress) -> Progress:
    """At most one report per PROGRESS_GAP_S and stage, the first and the last of a stage always."""
    last: tuple[str, float] = ("", 0.0)

    def report(stage: LoadStage, done: int, total: int) -> None:
        nonlocal last
        now = time.perf_counter()
        if stage != last[0] or now - last[1] >= PROGRESS_GAP_S or (total and done >= total):
            last = (stage, now)
            progress(stage, done, total)

    return report
