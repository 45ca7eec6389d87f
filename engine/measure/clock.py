"""The one clock of a run: `time.perf_counter`, read after the device has finished what it was asked to do.

Knows devices and seconds; does not know what is being timed.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

from engine.model.device import synchronise


class Clock:
    """Stamps in seconds. `read` is the source of time and `wait` what makes the device finish; tests put their own there."""

    def __init__(
        self,
        device: torch.device,
        read: Callable[[], float] = time.perf_counter,
        wait: Callable[[torch.device], None] = synchronise,
    ) -> None:
        self._device = device
        self._read = read
        self._wait = wait
        self._left_out_s = 0.0

    @property
    def real(self) -> bool:
        """Whether stamps are moments of `time.perf_counter`; a test's own are not."""
        return self._read is time.perf_counter

    def now(self) -> float:
        """Seconds, after all work queued on the device is done."""
        self._wait(self._device)
        return self.at(self._read())

    def at(self, stamp: float) -> float:
        """What this clock says at a moment of its source."""
        return stamp - self._left_out_s

    def fork(self) -> Clock:
        """A clock of its own that goes on from here: what either leaves out from now on is nothing to the other."""
        own = Clock(self._device, self._read, self._wait)
        own._left_out_s = self._left_out_s
        return own

    def leave_out(self, seconds: float) -> None:
        """The last so many seconds did not pass here: the clock had been standing still."""
        self._left_out_s += seconds
