"""Free memory goes back to the system when the worker rests after work: not while it works, not twice, and never as a failure."""

from __future__ import annotations

import ctypes
import sys
import threading
import time

import pytest

from engine.serve import heap, scheduler
from engine.serve.job import Job
from engine.serve.scheduler import Scheduler
from engine.trace import RunStatus
from tests.exam import until
from tests.hall import Clock, CountingWork

REST_S = 0.15


def test_the_worker_tidies_up_once_after_each_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler, "TIDY_AFTER_S", REST_S)
    tidied: list[int] = []
    diary: list[tuple[str, float]] = []
    own = Scheduler(lambda message: None, tidy=lambda: tidied.append(len(diary)))
    worker = threading.Thread(target=own.run)
    worker.start()
    try:
        assert not tidied, "nothing has ended yet"
        for rounds in (1, 2):
            for name in ("a", "b"):
                work = CountingWork(name, Clock(), diary, length=3)
                own.add(Job(f"{name}{rounds}", "s", work, time.perf_counter(), "model", True, 0.0, RunStatus.QUEUED))
            until(lambda rounds=rounds: len(tidied) == rounds)
            assert tidied[-1] == 6 * rounds, "only after all there was to do"
            threading.Event().wait(3 * REST_S)
            assert len(tidied) == rounds, "once is enough"
    finally:
        own.close()
        worker.join()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the GNU allocator")
def test_what_is_free_in_the_heap_goes_back() -> None:
    import psutil

    def resident() -> int:
        return psutil.Process().memory_info().rss

    pieces = [bytearray(60_000) for _ in range(4_000)]  # small enough to lie in the heap; every second one goes
    kept = pieces[::2]
    del pieces
    before = resident()
    heap.give_back()
    assert before - resident() > 60_000 * 1_500
    assert len(kept) == 2_000


def test_another_c_library_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    heap.give_back()
