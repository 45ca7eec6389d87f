"""The app's book of runs: what each one has shown so far, who watches it, and for how long it is still wanted.

Knows snapshots, families of branches, watchers and leases; does not know the engine process. Bounded: the records that ended first
leave first.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

import msgspec

from engine import codec
from engine.errors import EngineLost, ErrorInfo, NotRecorded, RunUnknown, TooManyRuns
from engine.serve.asks import Look
from engine.serve.protocol import Branched, Glanced, Prefilled, Snapshot, StatusChanged, Stepped, Submit, Tokenized
from engine.serve.recall import Asked
from engine.serve.watcher import Watcher, wake
from engine.trace import DecodeStep, ModelInfo, Origin, PrefillTrace, RunRecord, RunStatus, RunView, StopReason, Token, weight

WEIGHT_KEPT = 720_000  # tokens and candidates over all records; about 200 MB
RECORDINGS_SHARE = 0.5  # of the runs kept and of their weight: files that one reader brings push no more of the others' runs out
LIVE_BRANCHES = 8  # of one run, itself included, that may go on; each holds memory in the engine until it has ended

RunEvent = Tokenized | Branched | Prefilled | Stepped | Glanced | StatusChanged


@dataclass(eq=False, slots=True)
class Entry:
    """One run. `link`: number of the engine process that has it, None while it waits for one. `family`: the run that it and all its
    branches began with; `number` counts the runs of this book as they were made."""

    command: Submit
    key: str
    created: str
    wanted_until: float
    status: RunStatus
    family: str
    number: int
    link: int | None = None
    pace_s: float = 0.0
    given_up: bool = False
    model: ModelInfo | None = None
    tokens: tuple[Token, ...] = ()
    prefill: PrefillTrace | None = None
    steps: list[DecodeStep] = field(default_factory=list)
    origin: Origin | None = None
    stop_reason: StopReason | None = None
    error: ErrorInfo | None = None
    watchers: list[Watcher] = field(default_factory=list)
    view: RunView | None = None
    recording: bool = False
    weight: int = 0

    def fill(self, record: RunRecord) -> None:
        """Be a recording: all of it is here at once, it has ended, and no engine has any of it."""
        self.created, self.model, self.tokens, self.prefill = record.created, record.model, record.tokens, record.prefill
        self.steps, self.origin, self.error = list(record.steps), record.origin, record.error
        self.status, self.stop_reason = RunStatus.ENDED, record.stop_reason or StopReason.STOPPED
        self.recording = self.given_up = True
        self.weight = weight(record.tokens, record.prefill, *record.steps)

    def grow_from(self, left: Entry) -> None:
        """Begin with what the run that is left wrote before the token at which it is left; the engine tells that one and all others."""
        stem = self.command.stem
        assert stem is not None
        self.command = msgspec.structs.replace(self.command, stem=None)  # what it holds would outlive the other run's record
        self.family, self.model, self.tokens = left.family, left.model, stem.tokens
        self.prefill = stem.prefill if stem.index else None
        self.steps = list(stem.steps[:-1])
        self.weight = weight(self.tokens, self.prefill, *self.steps)
        self.origin = Origin(stem.run_id, stem.index, stem.instead_of)

    def apply(self, event: RunEvent) -> None:
        if isinstance(event, Glanced):
            return
        self.view = None
        if isinstance(event, Stepped):
            self.steps.append(event.step)
            self.weight += weight((), event.step)
        elif isinstance(event, Branched):
            self.origin = event.origin
        elif isinstance(event, Prefilled):
            self.prefill = event.prefill
            self.weight += weight((), event.prefill)
        elif isinstance(event, Tokenized):
            self.model, self.tokens = event.model, event.tokens
            self.weight += weight(event.tokens)
        else:
            self.status, self.stop_reason, self.error = event.status, event.stop_reason, event.error

    def asked(self, question: Look) -> Asked:
        """The question together with what of this run its answer depends on. Raises NotRecorded: nobody could answer it."""
        if self.recording:
            raise NotRecorded(run=self.command.run_id)
        read = 0 if self.prefill is None else len(self.tokens) + len(self.steps)
        return Asked.of(question, self.link, read, None if self.model is None else self.model.shape.layer_windows)

    def snapshot(self) -> RunView:
        """Made when somebody looks and something is new."""
        if self.view is None:
            command = self.command
            self.view = RunView(
                run_id=command.run_id,
                prompt=command.prompt,
                settings=command.settings,
                model_id=command.model,
                created=self.created,
                status=self.status,
                model=self.model,
                tokens=self.tokens,
                prefill=self.prefill,
                steps=tuple(self.steps),
                stop_reason=self.stop_reason,
                error=self.error,
                device=command.device,
                pace_s=self.pace_s,
                origin=self.origin,
                recording=self.recording,
            )
        return self.view


class Book:
    """Thread-safe. `clock` gives seconds. `left(run_id)` is told when a record leaves; it may ask nothing of the book."""

    def __init__(
        self,
        kept_runs: int,
        lease_s: float,
        clock: Callable[[], float] = time.monotonic,
        left: Callable[[str], None] = lambda run_id: None,
    ) -> None:
        self._kept_runs, self._lease_s, self._clock, self._left = kept_runs, lease_s, clock, left
        self._lock = threading.Lock()
        self._closed = False
        self._numbers = itertools.count()
        self._entries: dict[str, Entry] = {}  # the ended ones in the order in which they ended

    def add(self, command: Submit, key: str, left: Entry | None = None, record: RunRecord | None = None) -> Entry:
        """`left`: the run that a branch leaves. `record`: what a recording shows; it has ended, and is the last of those to leave.
        Raises TooManyRuns when the book is full of runs that have not ended, NotRecorded for a branch of a recording.
        """
        if left is not None and left.recording:
            raise NotRecorded(run=left.command.run_id)
        status = RunStatus.QUEUED if command.play else RunStatus.PAUSED
        created = datetime.now().astimezone().isoformat(timespec="milliseconds")
        with self._lock:
            if sum(entry.status is not RunStatus.ENDED for entry in self._entries.values()) >= self._kept_runs:
                raise TooManyRuns(limit=self._kept_runs)
            wanted_until, number = self._clock() + self._lease_s, next(self._numbers)
            entry = Entry(command, key, created, wanted_until, status, command.run_id, number, pace_s=command.pace_s)
            if left is not None:
                entry.grow_from(left)
            if record is not None:
                entry.fill(record)
                self._make_room(entry)
            self._entries[command.run_id] = entry
            self._trim()
        return entry

    def find(self, run_id: str) -> Entry:
        """Raises RunUnknown."""
        entry = self._entries.get(run_id)
        if entry is None:
            raise RunUnknown(run=run_id)
        return entry

    def view(self, run_id: str) -> RunView | None:
        with self._lock:
            entry = self._entries.get(run_id)
            return None if entry is None else entry.snapshot()

    def family(self, run_id: str) -> tuple[RunView, ...]:
        """The run and all its branches that are still here: the one that all began with first, then as they were made."""
        with self._lock:
            entry = self._entries.get(run_id)
            members = [] if entry is None else [one for one in self._entries.values() if one.family == entry.family]
            return tuple(one.snapshot() for one in sorted(members, key=lambda one: one.number))

    def touch(self, run_id: str) -> None:
        entry = self._entries.get(run_id)
        if entry is not None:
            entry.wanted_until = self._clock() + self._lease_s

    def set_pace(self, run_id: str, pace_s: float) -> None:
        """What was asked for last; a run that has ended keeps what it had."""
        with self._lock:
            entry = self._entries.get(run_id)
            if entry is not None and entry.status is not RunStatus.ENDED:
                entry.pace_s, entry.view = pace_s, None

    def apply(self, event: RunEvent, frame: str | None = None) -> None:
        """Write it down and pass it on. `frame`: its JSON, where it exists already. What comes after the end is dropped."""
        with self._lock:
            entry = self._entries.get(event.run_id)
            if entry is None or entry.status is RunStatus.ENDED:
                return
            entry.apply(event)
            if entry.status is RunStatus.ENDED:
                self._entries[event.run_id] = self._entries.pop(event.run_id)
                self._trim()
            text = frame or codec.dump(event).decode()
            for watcher in entry.watchers:
                watcher.put(text)
            watchers = list(entry.watchers)
        if watchers:
            wake(watchers)

    def lose(self, link: int, exit_code: int) -> None:
        """The engine process number `link` has died: its runs have ended."""
        error = EngineLost(exit_code=exit_code).info
        lost = [entry for entry in list(self._entries.values()) if entry.link == link]
        for entry in lost:
            self.apply(StatusChanged(entry.command.run_id, RunStatus.ENDED, StopReason.ERROR, error))
            entry.given_up = True

    def unwanted(self) -> list[str]:
        """Runs of which nobody watches any branch any more; each is named once."""
        now = self._clock()
        with self._lock:
            wanted = {entry.family for entry in self._entries.values() if entry.watchers or entry.wanted_until >= now}
            entries = [entry for entry in self._entries.values() if not entry.given_up and entry.family not in wanted]
            for entry in entries:
                entry.given_up = True
        return [entry.command.run_id for entry in entries]

    def crowded_out(self, newest: Entry, left: Entry) -> list[str]:
        """Runs of a family that have to end now that it has a new branch, so that not too many can go on: those that nobody watches and
        that were looked at longest ago, made first where that is equal; never the new one or the one it left, which is on the screen.
        """
        with self._lock:
            live = [one for one in self._entries.values() if one.family == newest.family and one.status is not RunStatus.ENDED]
            idle = [one for one in live if not one.watchers and one is not newest and one is not left]
        idle.sort(key=lambda one: (one.wanted_until, one.number))
        return [one.command.run_id for one in idle[: max(len(live) - LIVE_BRANCHES, 0)]]

    # watching

    def watch(self, run_id: str) -> Watcher:
        """In the event loop that will wait. Raises RunUnknown."""
        watcher = Watcher(run_id)
        with self._lock:
            self.find(run_id).watchers.append(watcher)
            watcher.over = self._closed
        return watcher

    def unwatch(self, watcher: Watcher) -> None:
        with self._lock:
            entry = self._entries.get(watcher.run_id)
            if entry is not None and watcher in entry.watchers:
                entry.watchers.remove(watcher)
                entry.wanted_until = self._clock() + self._lease_s

    def take(self, watcher: Watcher) -> list[str]:
        """The frames that are new to this watcher; the first one, or the one after falling far behind, is a Snapshot."""
        with self._lock:
            entry, behind = self._entries.get(watcher.run_id), watcher.behind
            frames = watcher.take()
            view = entry.snapshot() if entry is not None and behind else None
        return frames if view is None else [codec.dump(Snapshot.of(view)).decode()]

    def close(self) -> None:
        """Nothing more will come: watchers are let go."""
        with self._lock:
            self._closed = True
            watchers = [watcher for entry in self._entries.values() for watcher in entry.watchers]
            for watcher in watchers:
                watcher.over = True
        wake(watchers)

    def _make_room(self, newest: Entry) -> None:
        """Under the lock: recordings keep to their share. Those of the session that brings one go first, the oldest of them before."""
        kept = [one for one in self._entries.values() if one.recording]
        kept.sort(key=lambda one: one.command.session != newest.command.session)
        too_heavy = sum(one.weight for one in (*kept, newest)) - WEIGHT_KEPT * RECORDINGS_SHARE
        self._shed(kept, len(kept) + 1 - max(int(self._kept_runs * RECORDINGS_SHARE), 1), too_heavy)

    def _trim(self) -> None:
        """Under the lock: the runs that ended first go, watched or not, until the rest fits."""
        ended = [one for one in self._entries.values() if one.status is RunStatus.ENDED]
        too_heavy = sum(one.weight for one in self._entries.values()) - WEIGHT_KEPT
        self._shed(ended, len(self._entries) - self._kept_runs, too_heavy)

    def _shed(self, entries: list[Entry], surplus: int, too_heavy: float) -> None:
        for entry in entries:
            if surplus <= 0 and too_heavy <= 0:
                return
            del self._entries[entry.command.run_id]
            self._left(entry.command.run_id)
            surplus, too_heavy = surplus - 1, too_heavy - entry.weight
            for watcher in entry.watchers:
                watcher.over = True
            wake(entry.watchers)
