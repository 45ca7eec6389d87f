"""Sweeps in the real engine process on a tiny random model: beside a run, cancelled, and after the process has been killed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from engine.errors import ErrorInfo
from engine.measure.fit import fit
from engine.sweep import SweepView, lengths_until
from engine.trace import RunSettings
from tests.dawdle import Pace
from tests.exam import Exam, open_exam, until

SLOW_S = 0.05  # of each of the tiny model's 15 parts: no reading ends in less than half a second


@pytest.fixture(scope="module")
def slowed(tmp_path_factory: pytest.TempPathFactory) -> Pace:
    made = Pace(tmp_path_factory.mktemp("pace") / "seconds")
    made.set(0)
    return made


@pytest.fixture(scope="module")
def exam(tiny_dir: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory, slowed: Pace) -> Iterator[Exam]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in slowed.env.items():
            patch.setenv(name, value)
        made = open_exam(str(tiny_dir("llama")), tmp_path_factory.mktemp("home"))
        yield made
        made.client.close()


@pytest.fixture
def pace(slowed: Pace) -> Iterator[Pace]:
    yield slowed
    slowed.set(0)


def begin(exam: Exam, kind: str = "ttft", longest: int = 1024, session: str = "s") -> str:
    return exam.client.sweep(kind, lengths_until(longest), model=exam.model, device="cpu", session=session)


def view_of(exam: Exam, sweep_id: str) -> SweepView:
    view = exam.client.sweep_view(sweep_id)
    assert view is not None
    return view


def done(exam: Exam, sweep_id: str) -> SweepView:
    until(lambda: not view_of(exam, sweep_id).moving)
    return view_of(exam, sweep_id)


@pytest.mark.parametrize("kind", ["ttft", "tpot"])
def test_eight_lengths_come_back_and_give_a_curve(exam: Exam, kind: str) -> None:
    view = done(exam, begin(exam, kind))
    assert (view.status, view.error, view.measuring) == ("done", None, None)
    assert [point.length for point in view.points] == list(lengths_until(1024)) == list(view.lengths)
    assert all(seconds > forward_s > 0 for point in view.points for seconds, forward_s in zip(point.seconds, point.forward_s, strict=True))
    assert view.model is not None
    assert view.model.device == "cpu"
    assert fit([point.length for point in view.points], [point.median_s for point in view.points]) is not None


def measured(exam: Exam, sweep_id: str) -> int:
    return sum(len(point.seconds) for point in view_of(exam, sweep_id).points)


def test_a_run_goes_on_beside_a_sweep(exam: Exam, pace: Pace) -> None:
    alone = exam.answer(exam.submit(RunSettings(max_new_tokens=60, ignore_eos=True)))
    pace.set(SLOW_S)
    sweep = begin(exam)
    until(lambda: measured(exam, sweep))
    ticket = exam.submit(RunSettings(max_new_tokens=60, ignore_eos=True), session="another", pace_s=0.02)
    until(lambda: exam.steps(ticket))
    before = measured(exam, sweep)
    assert view_of(exam, sweep).moving, "the run has not waited for its end"
    until(lambda: measured(exam, sweep) > before or exam.ended(ticket))
    assert not exam.ended(ticket), "nor the sweep for the run's"
    pace.set(0)
    assert exam.answer(ticket) == alone
    view = done(exam, sweep)
    assert (view.status, len(view.points)) == ("done", 8)
    assert exam.view(ticket).error is None


def test_cancel_keeps_what_is_there(exam: Exam, pace: Pace) -> None:
    pace.set(SLOW_S)
    sweep = begin(exam)
    until(lambda: view_of(exam, sweep).points)
    exam.client.stop_sweep(sweep)
    assert until(lambda: not view_of(exam, sweep).moving) < 2.0
    view = view_of(exam, sweep)
    assert (view.status, view.error) == ("stopped", None)
    assert 0 < len(view.points) < 8


def test_a_model_that_is_none_fails_its_sweep(exam: Exam) -> None:
    sweep = exam.client.sweep("ttft", (32,), model="no/such/model/at/all", device="cpu", session="s")
    view = done(exam, sweep)
    assert view.status == "failed"
    assert isinstance(view.error, ErrorInfo)
    assert view.error.code == "model_not_found"


def test_a_killed_engine_leaves_the_points_and_the_next_one_measures(exam: Exam, pace: Pace) -> None:
    pace.set(SLOW_S)
    sweep = begin(exam, "tpot")
    until(lambda: view_of(exam, sweep).points)
    pid = exam.client.status().pid
    assert pid is not None
    psutil.Process(pid).kill()
    pace.set(0)
    view = done(exam, sweep)
    assert view.points
    assert view.error is not None
    assert (view.status, view.error.code) == ("failed", "engine_lost")
    until(lambda: exam.client.model_status(exam.model, "cpu").state == "ready")
    assert done(exam, begin(exam, longest=64)).status == "done"
