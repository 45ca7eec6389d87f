"""Peaks of memory: what is sampled, what fails, and that no thread outlives the watch."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator

import numpy as np
import psutil
import pytest
import torch

from engine import LoadedModel, Run, RunSettings
from engine.measure.memory import PeakWatch, ResidentPeak, resident_bytes
from engine.trace import WorkPeak

CPU = torch.device("cpu")
PATIENCE_S = 30.0


def samplers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "resident-peak"]


class Readings:
    """Gives one number after the other, then the last one for ever; `given` tells the test that a certain one has been read."""

    def __init__(self, *values: int | Exception) -> None:
        self._values: Iterator[int | Exception] = iter(values)
        self._last: int | Exception = 0
        self.exhausted = threading.Event()

    def __call__(self) -> int:
        try:
            self._last = next(self._values)
        except StopIteration:
            self.exhausted.set()
        if isinstance(self._last, Exception):
            self.exhausted.set()
            raise self._last
        return self._last


def watched(readings: Readings) -> PeakWatch:
    return PeakWatch(CPU, lambda: ResidentPeak(readings, interval_s=0.0005))


def test_a_peak_between_enter_and_exit_is_seen() -> None:
    readings = Readings(100, 130, 900, 120, 110)
    with watched(readings) as watch:
        assert readings.exhausted.wait(PATIENCE_S)
        assert watch.reading() is None, "not over yet"
    assert watch.reading() == WorkPeak(100, 900, "resident")
    assert not samplers()


def test_enter_and_exit_are_looked_at_even_if_the_thread_never_is() -> None:
    with PeakWatch(CPU, lambda: ResidentPeak(Readings(100, 700), interval_s=1e6)) as watch:
        pass
    assert watch.reading() == WorkPeak(100, 700, "resident")


def test_what_is_watched_may_fail() -> None:
    watch = watched(Readings(5, 7))
    with pytest.raises(MemoryError), watch:
        raise MemoryError
    assert watch.reading() == WorkPeak(5, 7, "resident")
    assert not samplers()


@pytest.mark.parametrize("values", [(psutil.AccessDenied(),), (1, psutil.NoSuchProcess(1)), (1, 2, OSError("too many open files"))])
def test_a_reading_that_fails_is_none(values: tuple[int | Exception, ...], caplog: pytest.LogCaptureFixture) -> None:
    readings = Readings(*values)
    with caplog.at_level(logging.DEBUG, "engine.measure.memory"), watched(readings) as watch:
        assert readings.exhausted.wait(PATIENCE_S)
    assert watch.reading() is None
    assert type(values[-1]).__name__ in caplog.text
    assert not samplers()


def test_a_thread_that_cannot_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with PeakWatch(CPU) as watch:
        pass
    assert watch.reading() is None


def test_a_second_watch_starts_afresh() -> None:
    readings = iter([Readings(1, 50, 2), Readings(psutil.AccessDenied())])
    watch = PeakWatch(CPU, lambda: ResidentPeak(next(readings), interval_s=1e6))
    with watch:
        pass
    assert watch.reading() == WorkPeak(1, 50, "resident")
    with watch:
        pass
    assert watch.reading() is None


def test_the_resident_set_is_this_process_s() -> None:
    assert resident_bytes() == pytest.approx(psutil.Process().memory_info().rss, rel=0.2)
    with PeakWatch(CPU) as watch:
        block = np.ones(64 * 1024**2, np.uint8)
    reading = watch.reading()
    assert reading is not None
    assert reading.peak_bytes - reading.before_bytes >= 0.9 * block.nbytes


def test_cuda_tells_its_own_peak(monkeypatch: pytest.MonkeyPatch) -> None:
    device, said = torch.device("cuda:1"), []
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda where: said.append(("reset", where)))
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda where: said.append(("allocated", where)) or 300)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda where: said.append(("peak", where)) or 800)
    with PeakWatch(device) as watch:
        assert not samplers()
        assert said == [("reset", device), ("allocated", device)]
    assert said[2:] == [("peak", device)]
    assert watch.reading() == WorkPeak(300, 800, "torch")


def test_cuda_that_fails_is_no_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(where: torch.device) -> int:
        raise RuntimeError("CUDA error: unspecified launch failure")

    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", refuse)
    with PeakWatch(torch.device("cuda")) as watch:
        pass
    assert watch.reading() is None


def test_an_mps_device_has_no_peak_of_its_own() -> None:
    with PeakWatch(torch.device("mps")) as watch:
        pass
    reading = watch.reading()
    assert reading is not None
    assert reading.source == "resident"


def test_a_run_tells_its_peak(tiny: Callable[..., LoadedModel]) -> None:
    peak = Run(tiny(), "the cat sat", RunSettings(max_new_tokens=1)).prefill().peak
    assert peak is not None
    assert peak.source == "resident"
    assert peak.peak_bytes >= peak.before_bytes > 10 * 1024**2
    assert not samplers()
