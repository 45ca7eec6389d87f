"""Readings of memory beside a run: what each device's sources tell, that they are never too many, and that none can hurt."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import psutil
import pytest
import torch

from engine import LoadedModel, Run, RunRecord, RunSettings
from engine.measure import gauge as gauges
from engine.measure.clock import Clock
from engine.measure.gauge import Gauge, sought
from engine.measure.latency import summarize
from engine.measure.nvml import Card, CardReading, SoughtCard, Untold
from engine.settings import VisibleCards
from engine.stem import stem_of
from engine.usage import MemoryReading

CPU, CUDA, MPS = torch.device("cpu"), torch.device("cuda", 1), torch.device("mps")
FIELDS = ("process_bytes", "system_used_bytes", "system_total_bytes")
OPEN = RunSettings(max_new_tokens=12, ignore_eos=True, temperature=0.0)


class FakeCard(Card):
    """One reading after the other."""

    def __init__(self, *readings: CardReading | Exception) -> None:
        super().__init__(SoughtCard(0))
        self._readings = iter(readings)

    def reading(self) -> CardReading:
        now = next(self._readings)
        if isinstance(now, Exception):
            raise now
        return now


@pytest.fixture
def allocator(monkeypatch: pytest.MonkeyPatch) -> None:
    for home, names in ((torch.cuda, ("memory_allocated", "memory_reserved")), (torch.mps, ("_", "_"))):
        for name, size in zip(names, (300, 500), strict=True):
            monkeypatch.setattr(home, name, lambda where, size=size: size, raising=False)
    monkeypatch.setattr(torch.mps, "current_allocated_memory", lambda: 70)
    monkeypatch.setattr(torch.mps, "driver_allocated_memory", lambda: 90)


def test_the_system_tells_this_process_and_all() -> None:
    reading = Gauge(CPU).reading()
    assert reading.process_bytes == pytest.approx(psutil.Process().memory_info().rss, rel=0.2)
    assert reading.system_total_bytes == psutil.virtual_memory().total
    assert reading.process_bytes < reading.system_used_bytes < reading.system_total_bytes
    if hasattr(psutil.Process().memory_info(), "shared"):
        assert 0 < reading.process_shared_bytes < reading.process_bytes, "pages of files: the libraries' own, at the least"
    assert reading.missing == {}, "what a CPU has nothing to do with is not missing"
    assert reading.allocated_bytes is reading.device_used_bytes is None


@pytest.mark.usefixtures("allocator")
def test_cuda_tells_its_allocator_and_its_card() -> None:
    reading = Gauge(CUDA, card=FakeCard(CardReading(900, 1000, 600))).reading()
    assert (reading.allocated_bytes, reading.reserved_bytes) == (300, 500)
    assert (reading.device_used_bytes, reading.device_total_bytes, reading.device_process_bytes) == (900, 1000, 600)
    assert reading.missing == {}


@pytest.mark.usefixtures("allocator")
def test_all_runs_share_one_search_for_the_card(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those that begin at the same moment in many threads."""
    found: list[SoughtCard] = []

    class SlowCard(Card):
        def _find(self) -> object:
            found.append(self._sought)
            time.sleep(0.05)
            raise Untold("no_card")

    monkeypatch.setattr(gauges, "Card", SlowCard)
    monkeypatch.setattr(gauges, "_CARDS", {})
    monkeypatch.setattr(gauges, "sought", lambda device: SoughtCard(device.index, "abc"))
    with ThreadPoolExecutor(8) as pool:
        readings = list(pool.map(lambda _: Gauge(CUDA).reading(), range(8)))
    assert found == [SoughtCard(1, "abc")]
    assert {reading.missing["nvml"] for reading in readings} == {"no_card"}


@pytest.mark.usefixtures("allocator")
def test_mps_tells_its_own_and_has_no_card() -> None:
    reading = Gauge(MPS).reading()
    assert (reading.allocated_bytes, reading.reserved_bytes, reading.missing) == (70, 90, {})


@pytest.mark.usefixtures("allocator")
def test_a_source_that_fails_is_a_gap_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = CardReading(900, 1000, 600)
    lost = CardReading(None, None, None, "failed")
    gauge = Gauge(CUDA, card=FakeCard(*[whole] * 4, lost, whole, RuntimeError("a card that is no card"), whole))
    readings = [gauge.reading() for _ in range(8)]
    assert [reading.device_used_bytes for reading in readings] == [900] * 4 + [None, 900, None, 900]
    assert [reading.missing.get("nvml") for reading in readings] == [None] * 4 + ["failed", None, "failed", None]
    assert all(reading.process_bytes and reading.allocated_bytes == 300 for reading in readings)

    def refuse(*_: object) -> int:
        raise psutil.AccessDenied

    monkeypatch.setattr(psutil, "virtual_memory", refuse)
    monkeypatch.setattr(psutil, "Process", refuse)
    monkeypatch.setattr(torch.cuda, "memory_reserved", refuse)
    blind = Gauge(CUDA, card=FakeCard(CardReading(missing="no_driver"))).reading()
    assert blind == MemoryReading(missing={"process": "failed", "system": "failed", "torch": "failed", "nvml": "no_driver"})


@pytest.mark.parametrize(("uuid", "bare"), [("abc-1", "abc-1"), ("GPU-abc-1", "abc-1"), (None, None)])
def test_the_card_is_the_one_that_torch_means(monkeypatch: pytest.MonkeyPatch, uuid: str | None, bare: str | None) -> None:
    told = {"name": "Big Card"} | ({} if uuid is None else {"uuid": uuid})
    asked = []
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: asked.append(index) or SimpleNamespace(**told))
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 3)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,0")
    assert sought(CUDA) == SoughtCard(1, bare, "Big Card", VisibleCards(("2", "0")))
    assert sought(torch.device("cuda")).index == 3
    assert asked == [1, 3]


def test_readings_keep_their_distance() -> None:
    now = [10.0]
    gauge = Gauge(CPU, clock=lambda: now[0])
    read = []
    for _ in range(10):
        read.append(gauge.due() is not None)
        now[0] += 0.0501
    assert read == [True, False, False, False] * 2 + [True, False]


def test_a_run_carries_readings_that_cost_it_nothing(tiny: Callable[..., LoadedModel], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each reading here takes 30 ms, far longer than a step of this model: they are in no latency and in no step."""
    monkeypatch.setattr(gauges, "LEAST_GAP_S", 0.0)

    def slow(gauge: Gauge) -> MemoryReading:
        time.sleep(0.03)
        return MemoryReading(process_bytes=5, missing={"system": "failed"})

    monkeypatch.setattr(Gauge, "due", slow)
    run = Run(tiny(), "the cat sat", OPEN)
    began_at = time.perf_counter()
    steps = list(run.decode())
    slow_s = time.perf_counter() - began_at
    traces = (run.prefill(), *steps)
    assert all(trace.memory == MemoryReading(process_bytes=5, missing={"system": "failed"}) for trace in traces)
    assert all(step.paused_s == 0 for step in steps), "nor had the reader paused"
    latency = summarize(run.record())
    assert latency.waited_s < 0.03 * len(steps) / 2, "nor does it look like waiting for others"
    assert latency.tpot_s == pytest.approx(sum(latency.itl_s) / len(steps), rel=1e-6)
    assert latency.tpot_s * len(steps) < slow_s - 0.03 * len(steps), "TPOT is without them, too"
    assert RunRecord.from_json(run.record().to_json()) == run.record()


READING_S = 3.0


class Wall:
    """A wall clock that stands still but where it is moved: a reading of memory takes three seconds, all else nothing."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(time, "perf_counter", lambda: self.now)
        monkeypatch.setattr(Gauge, "due", lambda gauge: self.pass_s(READING_S) or MemoryReading())

    def pass_s(self, seconds: float) -> None:
        self.now += seconds

    def run(self, model: LoadedModel) -> Run:
        """Of three tokens, each with its reading."""
        made = Run(model, "the cat sat", replace(OPEN, max_new_tokens=3), clock=Clock(CPU, time.perf_counter))
        list(made.decode())
        return made


@pytest.mark.parametrize("way", ["branch", "revive"])
def test_what_was_spent_reading_is_neither_a_pause_nor_a_wait_of_a_branch(
    tiny: Callable[..., LoadedModel], monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """Two seconds from the last token to the click: all of it, and nothing else, was the reader's, whoever stamps the click."""
    wall = Wall(monkeypatch)
    run = wall.run(tiny())
    wall.pass_s(2.0)
    if way == "branch":
        branch = run.branch(2, 7)
    else:
        stem = stem_of(run.record(), 2, 7, run_id="")
        branch = Run.revive(run.model, run.prompt, run.settings, stem, submitted_at=wall.now, parent=run)
    branch.settings = replace(branch.settings, max_new_tokens=6)
    step = next(branch.decode())
    assert (step.paused_s, step.waited_s, step.itl_s) == (2.0, 0.0, 0.0)


def test_readings_of_a_run_that_goes_on_are_a_wait_of_its_branch(tiny: Callable[..., LoadedModel], monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn of the other run is others' time, whatever it is spent on; and nothing of the branch changes the other's times."""
    wall = Wall(monkeypatch)
    run = wall.run(tiny())
    branch = run.branch(1, 7)
    run.stop_reason, run.settings = None, replace(run.settings, max_new_tokens=5)
    branch.settings = replace(branch.settings, max_new_tokens=6)
    others = run.decode()
    next(others)
    first = next(branch.decode())
    assert (first.paused_s, first.waited_s) == (0.0, READING_S), "one reading of the other run, while this one had nothing to do"
    second = next(others)
    assert second.waited_s == READING_S


def test_a_run_is_read_now_and_then(tiny: Callable[..., LoadedModel]) -> None:
    run = Run(tiny(), "the cat sat", OPEN)
    list(run.decode())
    first = run.prefill().memory
    assert first is not None
    assert all(getattr(first, name) > 0 for name in FIELDS)
    assert first.process_bytes > run.model.info.weight_bytes
    read = [run.prefill().at_s, *(step.at_s for step in run.record().steps if step.memory is not None)]
    assert all(later - earlier > gauges.LEAST_GAP_S / 2 for earlier, later in pairwise(read))


def test_a_run_with_a_clock_of_its_own_is_not_weighed(tiny: Callable[..., LoadedModel]) -> None:
    ticks = iter(range(10_000))
    run = Run(tiny(), "the cat", OPEN, submitted_at=0.0, clock=Clock(CPU, lambda: float(next(ticks))))
    assert all(step.memory is None for step in run.decode())


def test_a_source_that_breaks_does_not_end_a_run(tiny: Callable[..., LoadedModel], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError("too many open files")

    monkeypatch.setattr(psutil, "virtual_memory", refuse)
    run = Run(tiny(), "the cat sat", OPEN)
    assert len(list(run.decode())) == OPEN.max_new_tokens - 1
    assert run.error is None
    reading = run.prefill().memory
    assert reading is not None
    assert reading.missing == {"system": "failed"}
    assert reading.system_used_bytes is None


def test_an_old_record_without_readings_stays_readable(tiny: Callable[..., LoadedModel]) -> None:
    run = Run(tiny(), "the cat sat", OPEN)
    list(run.decode())
    record = run.record()
    bare = replace(record, prefill=replace(run.prefill(), memory=None), steps=tuple(replace(step, memory=None) for step in record.steps))
    partly = replace(bare, prefill=replace(run.prefill(), memory=MemoryReading(process_bytes=5)))
    former = partly.to_json().replace('"process_shared_bytes":null,', "")
    assert "shared" not in former
    assert RunRecord.from_json(former) == partly
    text = bare.to_json().replace('"memory":null,', "").replace(',"memory":null', "")
    assert "memory" not in text
    assert RunRecord.from_json(text) == bare
