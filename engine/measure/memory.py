"""Memory in use while something is done: the allocator's own peak on a CUDA device, elsewhere the process's resident set.

The resident set is looked at every 50 milliseconds, so a peak shorter than that may be missed, and it knows the whole process: what
another thread takes counts too, and memory that was freed but not given back to the system hides a rise. On Apple's MPS the allocator
keeps no peak; its memory is the computer's own, and the resident set is said there as well.

Knows the sources; does not know what was done. A reading that fails is none at all and never disturbs what is being done.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Protocol

import psutil
import torch

from engine.trace import WorkPeak

log = logging.getLogger(__name__)

INTERVAL_S = (
    0.05  # each wake-up takes a core from the pass: on two cores, 256 tokens, a look every 5 ms cost 4.6 % of it, every 20 ms 1.5 %
)

# What a reading fails with: the system's refusal, a thread that cannot be started, CUDA's errors (RuntimeError all).
_FAILURES = (psutil.Error, OSError, RuntimeError, ValueError)


class PeakSource(Protocol):
    """One way to learn of a peak; any method may raise."""

    def begin(self) -> None: ...
    def end(self) -> WorkPeak: ...


class AllocatorPeak:
    """torch's own count of one CUDA device, exact to the byte; since the last reset, which `begin` is."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._before_bytes = 0

    def begin(self) -> None:
        torch.cuda.reset_peak_memory_stats(self._device)
        self._before_bytes = torch.cuda.memory_allocated(self._device)

    def end(self) -> WorkPeak:
        return WorkPeak(self._before_bytes, torch.cuda.max_memory_allocated(self._device), "torch")


class ResidentPeak:
    """The resident set, sampled by a thread of its own between `begin` and `end`; the thread is gone when `end` returns."""

    def __init__(self, read: Callable[[], int] | None = None, interval_s: float = INTERVAL_S) -> None:
        self._read = resident_bytes if read is None else read
        self._interval_s = interval_s
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._failure: Exception | None = None
        self._before_bytes = self._peak_bytes = 0

    def begin(self) -> None:
        self._before_bytes = self._peak_bytes = self._read()
        thread = threading.Thread(target=self._sample, name="resident-peak", daemon=True)
        thread.start()
        self._thread = thread

    def end(self) -> WorkPeak:
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        if self._failure is not None:
            raise self._failure
        return WorkPeak(self._before_bytes, max(self._peak_bytes, self._read()), "resident")

    def _sample(self) -> None:
        try:
            while not self._over.wait(self._interval_s):
                self._peak_bytes = max(self._peak_bytes, self._read())
        except _FAILURES as failure:  # raised again, where it can be answered for
            self._failure = failure


def resident_bytes() -> int:
    """The resident set of this process."""
    return psutil.Process().memory_info().rss


class PeakWatch:
    """While entered, the most memory in use is noted. May be entered again; the last time counts."""

    def __init__(self, device: torch.device, source: Callable[[], PeakSource] | None = None) -> None:
        self._open = source or (lambda: AllocatorPeak(device) if device.type == "cuda" else ResidentPeak())
        self._source: PeakSource | None = None
        self._reading: WorkPeak | None = None

    def __enter__(self) -> PeakWatch:
        source = self._open()
        self._source = self._reading = None
        try:
            source.begin()
            self._source = source
        except _FAILURES as failure:
            log.debug("no peak of memory: %s: %s", type(failure).__name__, failure)
        return self

    def __exit__(self, *reason: object) -> None:
        if self._source is None:
            return
        try:
            self._reading = self._source.end()
        except _FAILURES as failure:
            log.debug("no peak of memory: %s: %s", type(failure).__name__, failure)

    def reading(self) -> WorkPeak | None:
        """None: nothing could be read, or nothing has been watched to its end."""
        return self._reading
