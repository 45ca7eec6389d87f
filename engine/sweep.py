"""A sweep as it travels: which lengths were asked for, what was measured at each, how it stands. Knows no model and no clock."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

from engine.errors import ErrorInfo
from engine.trace import ModelInfo

SweepKind = Literal["ttft", "tpot"]  # the first-token wait over the prompt's length; the time per token over the context's
SweepStatus = Literal["waiting", "measuring", "done", "stopped", "failed"]  # waiting: for the model or its first turn

KINDS: tuple[SweepKind, ...] = ("ttft", "tpot")
SHORTEST, LONGEST, MOST_LENGTHS = 16, 131_072, 32
FIRST, COUNT = 32, 8


@dataclass(frozen=True, slots=True)
class SweepSample:
    """One measurement. `seconds`: what it took; `forward_s`: the forward pass alone, within these."""

    length: int
    seconds: float
    forward_s: float


@dataclass(frozen=True, slots=True)
class SweepPoint:
    """All that was measured at one length, in tokens: one value per repeat (ttft) or per decode step (tpot), in the order of measuring."""

    length: int
    seconds: tuple[float, ...]
    forward_s: tuple[float, ...]

    @property
    def median_s(self) -> float:
        return statistics.median(self.seconds)


@dataclass(frozen=True, slots=True)
class Measuring:
    """What is measured next: the `number`-th value (from 1) of at most `most` at `length`; 0: the text is being read up to there."""

    length: int
    number: int
    most: int


@dataclass(frozen=True, slots=True)
class SweepView:
    """A frozen snapshot of one sweep, whatever its state; what was measured stays in every case.

    `model_id` and `device` as they were asked for; `lengths`: those asked for, and once it measures those that fit into the model's
    context. `conditions`: name → value of what else the times depend on. `created`: ISO 8601 with offset.
    """

    sweep_id: str
    kind: SweepKind
    model_id: str
    device: str
    lengths: tuple[int, ...]
    created: str
    status: SweepStatus = "waiting"
    model: ModelInfo | None = None
    points: tuple[SweepPoint, ...] = ()
    measuring: Measuring | None = None
    error: ErrorInfo | None = None
    conditions: dict[str, str] = field(default_factory=dict)

    @property
    def moving(self) -> bool:
        return self.status in ("waiting", "measuring")


def lengths_until(longest: int, count: int = COUNT) -> tuple[int, ...]:
    """`count` lengths that end at `longest`: its halves down to FIRST, and where these are fewer, lengths half-way between two, from above.

    4,096 gives the eight powers of two from 32 on. Fewer where there is no room for so many.
    """
    halves = [longest]
    while len(halves) < count and halves[-1] // 2 >= FIRST:
        halves.append(halves[-1] // 2)
    between = [(long + short) // 2 for long, short in pairwise(halves)]
    return tuple(sorted({*halves, *between[: count - len(halves)]}))


def grown(points: tuple[SweepPoint, ...], sample: SweepSample) -> tuple[SweepPoint, ...]:
    """The points with one more measurement."""
    known = next((point for point in points if point.length == sample.length), SweepPoint(sample.length, (), ()))
    point = SweepPoint(sample.length, (*known.seconds, sample.seconds), (*known.forward_s, sample.forward_s))
    return tuple(sorted([*(one for one in points if one is not known), point], key=lambda one: one.length))
