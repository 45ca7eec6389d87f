"""One run as the scheduler sees it: a generator of messages with a state, a pace and a pause clock.

Knows turns and pauses; does not know models, tensors or what a message says. A turn is one `next()`: encoding the text, prefill,
then one decode step each. A turn gives one message, or a few that belong together.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from engine.errors import ErrorInfo
from engine.serve.asks import Look
from engine.serve.protocol import Message, StatusChanged, SteerAction
from engine.trace import RunStatus, StopReason


class Work(Protocol):
    """What a job does. `look` answers questions about its live memory (an array, or what engine.codec can write; raises EngineError);
    `held_bytes`, which any thread may ask, is its size. `aside` tells, between two turns, what of the newest one is only worth its
    time to a reader who follows step by step.
    """

    @property
    def stop_reason(self) -> StopReason | None: ...
    @property
    def error(self) -> ErrorInfo | None: ...
    def turns(self) -> Iterator[tuple[Message, ...]]: ...
    def aside(self) -> Message | None: ...
    def note_pause(self, seconds: float) -> None: ...
    def stop(self, reason: StopReason) -> None: ...
    def free(self) -> None: ...
    def look(self, question: Look) -> Any: ...
    def held_bytes(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked about a job, and when (`at`). `error`: why it is to end, where that was not the reader's wish."""

    action: SteerAction
    pace_s: float | None
    at: float
    error: ErrorInfo | None = None


@dataclass(eq=False, slots=True)
class Job:
    """A run in the engine process. `group` names what it needs (its model); `ready` is False until that is there.

    Stamps are seconds of the scheduler's clock. `allowance`: single turns that were asked for while paused; a paused job may come
    with some. `owes_first`: its first turn is taken even if it is paused before: a branch writes the token that the reader chose.
    `word` makes the message that tells its status. `polite`: after each turn it rests as long as that took, while others want theirs; and
    when it has ended it keeps no live memory for questions.
    """

    run_id: str
    session: str
    work: Work
    submitted_at: float
    group: Hashable = None
    ready: bool = True
    pace_s: float = 0.0
    status: RunStatus = RunStatus.QUEUED
    allowance: int = 0
    owes_first: bool = False
    word: Callable[..., Message] = StatusChanged
    polite: bool = False
    busy: bool = False
    freed: bool = False
    deferred: list[Request] = field(default_factory=list)  # what was asked while it was busy
    _turns: Iterator[tuple[Message, ...]] | None = None
    _began_at: float | None = None
    _idle_since: float = 0.0
    _held_before_s: float = 0.0
    _rests_until: float = 0.0
    _paused_since: float | None = None
    _pauses: list[tuple[float, float]] = field(default_factory=list)  # the reader's own, since the last turn

    def __post_init__(self) -> None:
        self._idle_since = self.submitted_at
        if self.status is RunStatus.PAUSED and self.allowance == 0:
            self._paused_since = self.submitted_at

    @property
    def ended(self) -> bool:
        return self.status is RunStatus.ENDED

    @property
    def started(self) -> bool:
        return self._began_at is not None

    @property
    def wants_turn(self) -> bool:
        """Whether it would take a turn if the pace allowed it."""
        return self.ready and not self.ended and not self.busy and (self.allowance > 0 or self.status is not RunStatus.PAUSED)

    def is_due(self, now: float) -> bool:
        return self.wants_turn and self.due_at() <= now

    def rests(self, now: float) -> bool:
        """Whether the others, if there are any, go before it."""
        return self.polite and now < self._rests_until

    def due_at(self) -> float:
        """From when on the next turn may start. A single step that was asked for does not wait for the pace."""
        if self._began_at is None or self.allowance > 0:
            return self._idle_since
        return max(self._idle_since, self._began_at + self.pace_s)

    def pause(self, at: float) -> None:
        self.allowance = int(self.owes_first and not self.started)
        self.status = RunStatus.PAUSED
        if self._paused_since is None and not self.allowance:  # it was going on, or a single step is not wanted any more; none is owed
            self._paused_since = max(at, self._idle_since)

    def play(self, at: float) -> None:
        self.allowance = 0
        self._end_pause(at)
        self.status = RunStatus.RUNNING if self.started else RunStatus.QUEUED

    def step(self, at: float) -> None:
        """One turn more, then paused again."""
        if self.status is not RunStatus.PAUSED:
            self.pause(at)
        self.allowance += 1
        self._end_pause(at)

    def set_pace(self, pace_s: float, at: float) -> None:
        """A new least time from turn to turn; what the old one has held back so far stays the reader's pause."""
        if self.started and pace_s != self.pace_s:
            self._pauses.append((self._idle_since, min(self.due_at(), at)))
        self.pace_s = pace_s

    def begin(self, now: float) -> None:
        """A turn starts; how long the reader had held it, by pausing or by the pace, is reckoned up."""
        self._held_before_s = self._held_s(now)
        self._pauses.clear()
        self._began_at = now
        self.busy = True

    def note_aside(self, began_at: float, ended_at: float) -> None:
        """What was looked up for the reader between two turns is the reader's own time: neither work nor waiting."""
        self._pauses.append((began_at, ended_at))

    def advance(self) -> tuple[Message, ...]:
        """The turn itself; nothing when the work is at its end. Raises what the work raises."""
        if self._held_before_s > 0:
            self.work.note_pause(self._held_before_s)
        if self._turns is None:
            self._turns = self.work.turns()
        return next(self._turns, ())

    def finish(self, now: float) -> None:
        """The turn is over; with no single step left, a paused job's pause goes on."""
        self.busy = False
        self._rests_until = now + (now - (self._began_at or now))
        self._idle_since = now
        self.allowance = max(self.allowance - 1, 0)
        if self.status is RunStatus.PAUSED and self.allowance == 0:
            self._paused_since = now

    def end(self) -> None:
        self.status = RunStatus.ENDED
        self._turns = None

    def free(self) -> None:
        if not self.freed:
            self.freed = True
            self.work.free()

    def _end_pause(self, at: float) -> None:
        if self._paused_since is not None:
            if at > self._paused_since:
                self._pauses.append((self._paused_since, at))
            self._paused_since = None

    def _held_s(self, now: float) -> float:
        """Length of the union of the reader's pauses and the time for which the pace held the job back."""
        covered_until, held_s = self._idle_since, 0.0
        for begin, end in sorted([*self._pauses, (self._idle_since, min(self.due_at(), now))]):
            held_s += max(end - max(begin, covered_until), 0.0)
            covered_until = max(covered_until, end)
        return held_s
