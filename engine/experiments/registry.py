"""The experiments by the kind of sweep that they are: one entry here and one file in this room make one. Knows no model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from engine.experiments.paper import SweepTurn
from engine.experiments.tpot_over_context import tpot_over_context
from engine.experiments.ttft_over_length import ttft_over_length
from engine.model.loader import LoadedModel
from engine.sweep import SweepKind


@dataclass(frozen=True, slots=True)
class Experiment:
    """`measure(model, lengths, halted)`: a generator, one measurement for each `next()`; see the two there are."""

    kind: SweepKind
    measure: Callable[[LoadedModel, Sequence[int], Callable[[], bool]], Iterator[SweepTurn]]


EXPERIMENTS = (Experiment("ttft", ttft_over_length), Experiment("tpot", tpot_over_context))


def experiment(kind: SweepKind) -> Experiment:
    return next(one for one in EXPERIMENTS if one.kind == kind)
