"""One benchmark figure and how it is printed. Knows no benchmark."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """`value` in `unit`, held `against` what, `ratio` = value / that (None where there is nothing to hold it against).

    `target` says what the project promises: "<= 1.1" (of the ratio, or of the value where there is no ratio).
    """

    name: str
    value: float
    unit: str
    against: str
    ratio: float | None
    target: str

    @property
    def met(self) -> bool:
        sign, bound = self.target.split()
        seen = self.value if self.ratio is None else self.ratio
        return seen <= float(bound) if sign == "<=" else seen >= float(bound)

    def line(self) -> str:
        return json.dumps(asdict(self) | {"met": self.met})


Benchmark = Callable[[], Iterator[Figure]]


def paired(one: Callable[[], float], other: Callable[[], float], rounds: int) -> tuple[float, float, float]:
    """Both measured in turn, A B, B A, A B, …: their medians and the median of the ratios pair by pair.

    Pairs lie close together in time, so a machine that slows down for a while slows both sides of a ratio.
    """
    pairs = []
    for number in range(rounds):
        if number % 2:
            second = other()
            pairs.append((one(), second))
        else:
            pairs.append((one(), other()))
    ratios = [a / b for a, b in pairs]
    return statistics.median(a for a, _ in pairs), statistics.median(b for _, b in pairs), statistics.median(ratios)
