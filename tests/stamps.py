"""Raw time stamps of runs on a tiny model, and what follows from them by definition: an independent book of TTFT, ITL and TPOT.

Time moves only when told: every forward pass, every choice of a token and every reading of the text costs what this file says, and
whoever takes turns may let it pass. A book knows when ids appeared and when the reader held the run, both seen from outside; it never
looks into a trace.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from engine.measure.clock import Clock
from engine.model.layers import decoder_layers
from engine.run import Run
from engine.run_settings import RunSettings
from engine.serve.job import Job
from engine.serve.protocol import Branched, Message, Prefilled, StatusChanged, SteerAction, Stepped, Submit
from engine.serve.scheduler import Scheduler
from engine.serve.work import RunWork
from engine.stem import branch_settings, stem_of
from engine.trace import RunRecord, RunStatus

if TYPE_CHECKING:
    from engine.model.loader import LoadedModel

PROMPT = "the cat sat on the mat"
READING_S, PICKING_S, CUTTING_S = 0.125, 0.015625, 0.0078125  # of a pass, a choice and a look at the tokenizer's clock; exact in binary


@dataclass
class Wall:
    """A clock on the wall. `costs`: every pass takes its own multiple of READING_S, so that no two steps look alike."""

    now: float = 1000.0
    costs: random.Random = field(default_factory=lambda: random.Random(7))

    def __call__(self) -> float:
        return self.now

    def tick(self) -> float:
        self.now += CUTTING_S
        return self.now


@contextmanager
def wall_for(model: LoadedModel, patch: pytest.MonkeyPatch) -> Iterator[Wall]:
    """The wall clock by which all runs of `model` go while inside."""
    wall = Wall()
    patch.setattr("engine.run.Clock", lambda device: Clock(device, wall))
    patch.setattr("engine.generate.tokens.time", SimpleNamespace(perf_counter=wall.tick))

    def reads(*_: object) -> None:
        wall.now += READING_S * wall.costs.randint(1, 9)

    def number(_: object) -> float:
        wall.now += PICKING_S
        return drawn(_)

    from engine.generate.sampling import Sampler

    drawn = Sampler._number
    patch.setattr(Sampler, "_number", number)
    handle = decoder_layers(model.model)[0].register_forward_pre_hook(reads)
    yield wall
    handle.remove()


@dataclass
class Book:
    """What an onlooker writes down of one run: when it was asked for, when each id came, and from when until when the reader held it."""

    asked_at: float
    ids_at: list[float] = field(default_factory=list)
    held: list[tuple[float, float]] = field(default_factory=list)

    def held_s(self, begin: float, end: float) -> float:
        """Seconds of the union of what was held, between two stamps."""
        total, reached = 0.0, begin
        for start, stop in sorted(self.held):
            start, stop = max(start, reached), min(stop, end)
            if stop > start:
                total, reached = total + stop - start, stop
        return total

    @property
    def ttft_s(self) -> float:
        return self.ids_at[0] - self.asked_at - self.held_s(self.asked_at, self.ids_at[0])

    @property
    def itl_s(self) -> list[float]:
        return [late - early - self.held_s(early, late) for early, late in zip(self.ids_at, self.ids_at[1:], strict=False)]

    @property
    def tpot_s(self) -> float | None:
        first, last, steps = self.ids_at[0], self.ids_at[-1], len(self.ids_at) - 1
        return (last - first - self.held_s(first, last)) / steps if steps else None

    @property
    def overall_per_s(self) -> float:
        last = self.ids_at[-1]
        return len(self.ids_at) / (last - self.asked_at - self.held_s(self.asked_at, last))


class Hands:
    """The reader's hands on one job as an onlooker sees them: when it is held. A single step holds again as soon as its turn is over.
    `owes`: a branch, whose first turn nobody can hold."""

    def __init__(self, book: Book, since: float | None, owes: bool) -> None:
        self.book, self.since, self.free, self.plays, self.owes = book, since, 0, since is None, owes

    def do(self, action: SteerAction, at: float) -> None:
        if action == "pause":
            self.free, self.plays = int(self.owes), False
            if self.since is None and not self.owes:
                self.since = at
        elif action in {"play", "step"}:
            self.release(at)
            left = int(self.owes) if self.plays else self.free
            self.free = left + 1 if action == "step" else 0
            self.plays = action == "play"
        else:
            self.release(at)

    def turn_is_over(self, at: float) -> None:
        self.owes = False
        self.free = max(self.free - 1, 0)
        if not self.plays and not self.free and self.since is None:
            self.since = at

    def release(self, at: float) -> None:
        if self.since is not None:
            self.book.held.append((self.since, at))
            self.since = None


class Hall:
    """The real scheduler and real runs, one turn at a time, with an onlooker's book of each."""

    def __init__(self, model: LoadedModel, wall: Wall) -> None:
        self.model, self.wall = model, wall
        self.scheduler = Scheduler(self._hear, clock=wall)
        self.books: dict[str, Book] = {}
        self.hands: dict[str, Hands] = {}
        self.works: dict[str, RunWork] = {}
        self.ended: dict[str, StatusChanged] = {}
        self.order: list[str] = []
        self._turn_at = wall.now

    def submit(self, name: str, settings: RunSettings, session: str = "s", *, play: bool = True) -> None:
        command = Submit(name, session, "m", "cpu", PROMPT, settings, play)
        work = RunWork(command, lambda: self.model, self.wall.now)
        self._add(name, session, work, Book(self.wall.now), play)

    def branch(self, left: str, name: str, index: int, token_id: int, *, notes: bool = True, session: str = "s") -> None:
        """`notes`: whether those of the run that is left are still there; else all is read once more."""
        run = self.run(left)
        record = run.record()
        stem = stem_of(record, index, token_id, left)
        command = Submit(name, session, "m", "cpu", PROMPT, branch_settings(record.settings), True, 0.0, self.wall.now, stem)
        work = RunWork(command, lambda: self.model, self.wall.now, lambda: nullcontext(run if notes else None))
        self._add(name, session, work, self._stem_book(left, index, notes), True, owes_first=True)

    def _stem_book(self, left: str, index: int, notes: bool) -> Book:
        """What two runs share up to the fork. From there until the reader asked for it, the branch was held: that is known where the
        other run is still there; else the branch's clock is set so that it was asked for at the fork's own stamp."""
        known = self.books[left]
        forked_at = known.ids_at[index]
        late = 0.0 if notes else self.wall.now - forked_at
        held = [(begin + late, min(end, forked_at) + late) for begin, end in known.held if begin < forked_at]
        ids_at = [at + late for at in known.ids_at[: index + 1]]
        return Book(known.asked_at + late, ids_at, [*held, (ids_at[-1], self.wall.now)])

    def _add(self, name: str, session: str, work: RunWork, book: Book, play: bool, owes_first: bool = False) -> None:
        self.books[name], self.works[name] = book, work
        self.hands[name] = Hands(book, None if play else self.wall.now, owes_first)
        status = RunStatus.QUEUED if play else RunStatus.PAUSED
        self.scheduler.add(Job(name, session, work, self.wall.now, "m", True, 0.0, status, owes_first=owes_first))

    def steer(self, name: str, action: SteerAction) -> None:
        self.hands[name].do(action, self.wall.now)
        self.scheduler.steer(name, action)

    def turn(self) -> bool:
        """One turn of whoever's it is; everything in it takes the time that the wall says."""
        heard, self._turn_at = len(self.order), self.wall.now
        done = self.scheduler.turn()
        for name in dict.fromkeys(self.order[heard:]):  # a turn may tell more than one thing
            self.hands[name].turn_is_over(self.wall.now)
        return done

    def turns(self, most: int = 1000) -> None:
        for _ in range(most):
            if not self.turn():
                return

    def run(self, name: str) -> Run:
        live = self.works[name].live
        assert live is not None
        return live

    def record(self, name: str) -> RunRecord:
        return self.run(name).record()

    def _hear(self, message: Message) -> None:
        """From outside: an id is there when it is told."""
        name = getattr(message, "run_id", "")
        if isinstance(message, StatusChanged):
            if message.status is RunStatus.ENDED:
                self.ended[name] = message
            return
        if isinstance(message, Branched):  # what making a branch takes is nobody's time, neither work nor waiting
            self.books[name].held.append((self._turn_at, self.wall.now))
            return
        at_fork = self.run(name).origin is not None and name not in self.order
        if isinstance(message, Prefilled | Stepped) and not at_fork:  # the fork's own token came when the run that was left chose there
            self.books[name].ids_at.append(self.wall.now)
        self.order.append(name)
