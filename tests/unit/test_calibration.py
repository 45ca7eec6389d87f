"""What the machine can do: that the measurement tells what was done, is kept and asked for again, and comes in pieces between turns."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
import torch

from engine import LoadedModel, codec
from engine.calibration import Calibration, Conditions
from engine.errors import OutOfMemory
from engine.measure import roofline
from engine.measure.clock import Clock
from engine.measure.roofline import Site, calibrated, measured
from engine.serve.maker import ModelMaker
from engine.settings import Settings

CPU = torch.device("cpu")
SITE = Site(CPU, torch.float32, 1)
KNOWN = Calibration(5e10, 2e10, 1e-7, "cpu", "float32", 1, "2026-01-01T10:00:00+01:00", Conditions(1024, 1 << 28, 5, "x 2", "2.13.0", 0.1))


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Little work, for tests of everything but the speed."""
    monkeypatch.setattr(roofline, "READ_BYTES", {"cpu": 16 << 20})
    monkeypatch.setattr(roofline, "PIECE_S", 0.0)


def result(work: Generator[None, None, Any]) -> tuple[Any, int]:
    """What the work gives, and in how many pieces."""
    pieces = 0
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value, pieces + 1
        pieces += 1


def test_rates_are_what_was_done_through_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a clock that says 0.05 s for every piece: 2 n³ operations and so many bytes, through 0.05 s."""
    monkeypatch.setattr(roofline, "READ_BYTES", {"cpu": 32 << 20})
    monkeypatch.setattr(roofline, "_timed", lambda clock, site, work: 0.05)
    found, _ = result(measured(SITE))
    assert found.conditions.matmul_size == roofline.SMALLEST, "long enough at once"
    assert found.flops_per_s == pytest.approx(2 * roofline.SMALLEST**3 / 0.05)
    assert found.conditions.read_bytes == 32 << 20
    assert found.bytes_per_s == pytest.approx((32 << 20) / 0.05)


def test_the_best_try_counts_and_short_products_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([0.001, 0.3, 0.9, 0.004, 0.03, 0.05, 0.06, 0.025, 0.07, *[0.5, 0.4, 0.6, 0.7, 0.8], *[0.9, 0.2, 0.9, 0.9, 0.9]])
    monkeypatch.setattr(roofline, "READ_BYTES", {"cpu": 16 << 20})
    monkeypatch.setattr(roofline, "_timed", lambda clock, site, work: next(times))
    found, _ = result(measured(SITE))
    size = 4 * roofline.SMALLEST
    assert found.conditions.matmul_size == size
    assert found.flops_per_s == pytest.approx(2 * size**3 / 0.025)
    assert found.bytes_per_s == pytest.approx((16 << 20) / 0.2), "whichever way of reading is faster"
    assert next(times, None) is None, "as many tries as are told"


def test_this_machine_is_measured_and_said_how() -> None:
    began = time.perf_counter()
    found, pieces = result(measured(SITE, repeats=2))
    assert time.perf_counter() - began < 30.0
    assert pieces > 5, "others have their turns in between"
    assert 1e8 < found.flops_per_s < 1e15
    assert 1e8 < found.bytes_per_s < 1e14
    assert 1e-9 < found.timer_overhead_s < 1e-3
    assert (found.device, found.dtype, found.threads) == ("cpu", "float32", 1)
    assert abs((datetime.now().astimezone() - datetime.fromisoformat(found.date)).total_seconds()) < 60
    assert found.conditions.read_bytes > 8 << 20
    assert found.conditions.load is None or 0 <= found.conditions.load <= 1
    assert codec.load(codec.dump(found), Calibration) == found


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_every_dtype_is_measured(dtype: torch.dtype) -> None:
    found, _ = result(measured(replace(SITE, dtype=dtype), repeats=2))
    assert found.dtype == str(dtype).removeprefix("torch.")


@pytest.mark.usefixtures("small")
def test_it_reads_far_less_where_memory_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roofline, "READ_BYTES", {"cpu": 1 << 40})
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=80 << 20))
    assert result(measured(SITE, repeats=2))[0].conditions.read_bytes == 20 << 20


@pytest.mark.usefixtures("small")
def test_it_is_kept_and_measured_again_on_demand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "a home that is not there yet"
    assert result(calibrated(home, SITE, "never")) == (None, 1)
    first, pieces = result(calibrated(home, SITE, "once"))
    assert pieces > 1
    for measuring in ("once", "never"):
        assert result(calibrated(home, SITE, measuring)) == (first, 1), "kept"
    other, _ = result(calibrated(home, replace(SITE, dtype=torch.bfloat16), "once"))
    assert other.dtype == "bfloat16", "each device, dtype and number of threads is a place of its own"
    assert result(calibrated(home, replace(SITE, threads=2), "never"))[0] is None
    again, _ = result(calibrated(home, SITE, "again"))
    assert again != first
    assert result(calibrated(home, SITE, "never"))[0] == again
    assert [path.name for path in home.iterdir()] == ["calibration.json"]
    monkeypatch.setattr(torch, "__version__", "99.0")
    assert result(calibrated(home, SITE, "never"))[0] is None, "another torch may be faster"


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("text", ["", "{", "[]", '{"cpu": 3}', '{"cpu": {"flops_per_s": "fast"}}', "\x00\xff"])
def test_a_broken_file_is_measured_anew(tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "calibration.json").write_text(text, encoding="latin-1")
    with caplog.at_level(logging.WARNING):
        assert result(calibrated(tmp_path, SITE, "never"))[0] is None
    assert "calibration.json" in caplog.text
    found, _ = result(calibrated(tmp_path, SITE, "once"))
    assert result(calibrated(tmp_path, SITE, "never"))[0] == found


@pytest.mark.usefixtures("small")
def test_a_file_that_promises_nothing_per_second_is_none(tmp_path: Path) -> None:
    data = codec.dump({SITE.key: replace(KNOWN, bytes_per_s=0.0)})
    (tmp_path / "calibration.json").write_bytes(data)
    assert result(calibrated(tmp_path, SITE, "never"))[0] is None, "nothing is divided by it"


@pytest.mark.usefixtures("small")
def test_what_cannot_be_kept_is_told_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file where the folder should be")
    assert isinstance(result(calibrated(tmp_path / "home", SITE, "once"))[0], Calibration)


def test_no_memory_is_said_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(site: Site, size: int) -> None:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory")

    monkeypatch.setattr(roofline, "_product", refuse)
    with pytest.raises(OutOfMemory):
        result(calibrated(tmp_path, SITE, "again"))


def test_a_stamp_costs_what_the_clock_takes() -> None:
    assert roofline._stamp_s(Clock(CPU, wait=lambda device: time.sleep(0.0005))) == pytest.approx(0.0005, rel=2.0)
    assert roofline._stamp_s(Clock(CPU)) < 1e-4


@pytest.mark.usefixtures("small")
def test_the_maker_measures_where_the_model_runs(tiny: Callable[..., LoadedModel], tmp_path: Path) -> None:
    model = tiny()
    found, _ = result(ModelMaker(Settings(home=tmp_path)).calibrate(model, "once"))
    assert (found.device, found.dtype, found.threads) == (model.info.device, model.info.dtype, model.info.prefill_threads)
    assert (tmp_path / "calibration.json").exists()
