"""The memory that is read beside a run's steps.

Knows when a run may be weighed: between two steps, when the newest token is stamped. Does not know the sources (engine.measure.gauge).
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from engine.measure.clock import Clock
from engine.measure.gauge import Gauge
from engine.usage import MemoryReading

if TYPE_CHECKING:
    from engine.model.loader import LoadedModel


class Weighing:
    """The readings of a run, which brings `model` and its clock."""

    model: LoadedModel
    _clock: Clock
    _gauge: Gauge | None = None

    def _weigh(self) -> MemoryReading | None:
        """What is to be read after the newest token, if it is time for that again.

        What it takes is nobody's latency: the run's clock stands still meanwhile. Where that is a test's, nothing is read, for no such
        clock would know how long it took.
        """
        if not self._clock.real:
            return None
        if self._gauge is None:
            self._gauge = Gauge(self.model.device)
        began_at = time.perf_counter()
        reading = self._gauge.due()
        if reading is not None:
            self._clock.leave_out(time.perf_counter() - began_at)
        return reading
