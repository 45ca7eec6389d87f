"""A scheduler with a clock that only moves when told, and works that only count: for tests that know every turn in advance."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from engine.errors import ErrorInfo
from engine.serve.asks import Look
from engine.serve.holding import HELD_BYTES
from engine.serve.job import Job
from engine.serve.protocol import Message, ModelProgress, StatusChanged
from engine.serve.scheduler import Scheduler
from engine.trace import RunStatus, StopReason

TURN_S = 1.0


class Clock:
    def __init__(self, now: float = 100.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


@dataclass
class CountingWork:
    """Takes `length` turns of TURN_S; writes down each turn's begin and the pauses it was told. `during` is called in every turn."""

    name: str
    clock: Clock
    diary: list[tuple[str, float]]
    length: int = 1_000
    failure: Exception | None = None
    during: Callable[[int], None] = lambda turn: None
    stop_reason: StopReason | None = None
    error: ErrorInfo | None = None
    pauses: list[float] = field(default_factory=list)
    freed: bool = False
    held: int = 0
    beside: Message | None = None
    aside_s: float = 0.0
    asides: list[float] = field(default_factory=list)

    def turns(self) -> Iterator[tuple[Message, ...]]:
        for turn in range(self.length):
            self.diary.append((self.name, self.clock.now))
            self.during(turn)
            self.clock.now += TURN_S
            if self.failure is not None:
                raise self.failure
            if turn == self.length - 1:
                self.stop_reason = StopReason.LENGTH
            yield (ModelProgress(self.name, "cpu", "load", turn, 0),)

    def aside(self) -> Message | None:
        self.asides.append(self.clock.now)
        self.clock.now += self.aside_s
        return self.beside

    def note_pause(self, seconds: float) -> None:
        self.pauses.append(seconds)

    def stop(self, reason: StopReason) -> None:
        self.stop_reason = self.stop_reason or reason

    def free(self) -> None:
        self.freed = True

    def look(self, question: Look) -> str:
        return f"look into {self.name}"

    def held_bytes(self) -> int:
        return 0 if self.freed else self.held


class Hall:
    """A scheduler with its clock, and what it has said."""

    def __init__(self, held_runs: int = 16, held_bytes: int = HELD_BYTES) -> None:
        self.clock = Clock()
        self.said: list[Message] = []
        self.diary: list[tuple[str, float]] = []
        self.works: dict[str, CountingWork] = {}
        self.scheduler = Scheduler(self.said.append, clock=self.clock, held_runs=held_runs, held_bytes=held_bytes)

    def add(
        self,
        name: str,
        session: str = "s",
        *,
        play: bool = True,
        pace_s: float = 0.0,
        ready: bool = True,
        allowance: int = 0,
        owes_first: bool = False,
        **work: object,
    ) -> Job:
        self.works[name] = CountingWork(name, self.clock, self.diary, **work)
        status = RunStatus.QUEUED if play else RunStatus.PAUSED
        job = Job(name, session, self.works[name], self.clock.now, "model", ready, pace_s, status, allowance, owes_first)
        self.scheduler.add(job)
        return job

    def turns(self, count: int) -> int:
        return sum(self.scheduler.turn() for _ in range(count))

    def order(self) -> str:
        return "".join(name for name, _ in self.diary)

    def statuses(self, name: str) -> list[str]:
        return [message.status.value for message in self.said if isinstance(message, StatusChanged) and message.run_id == name]

    def last_words(self, name: str) -> StatusChanged:
        return [message for message in self.said if isinstance(message, StatusChanged) and message.run_id == name][-1]
