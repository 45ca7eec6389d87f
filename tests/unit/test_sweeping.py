"""Sweeps as the client keeps them, without a process: looked at, stopped, lost, forgotten."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.errors import EngineLost, InvalidSetting, LoneSurrogate, ModelNotFound, TooManySweeps, Unwatched
from engine.serve import sweeping
from engine.serve.client import EngineClient
from engine.serve.protocol import BeginSweep, Message, StopSweep, SweepEnded, SweepMoved
from engine.serve.sweeping import SweepBook
from engine.settings import Settings
from engine.sweep import Measuring, SweepSample, SweepView
from tests.exam import until
from tests.hall import Clock
from tests.samples import INFO
from tests.solo import hear, pretend


@pytest.fixture
def posted(monkeypatch: pytest.MonkeyPatch) -> list[Message]:
    return pretend(monkeypatch)


@pytest.fixture
def client(posted: list[Message], tmp_path: Path) -> Iterator[EngineClient]:
    made = EngineClient(Settings(home=tmp_path))
    yield made
    made._closed.set()


def begin(client: EngineClient, *lengths: int) -> str:
    return client.sweep("ttft", lengths or (32, 64), model="m", device="cpu", session="s")


def view_of(client: EngineClient, sweep_id: str) -> SweepView:
    view = client.sweep_view(sweep_id)
    assert view is not None
    return view


def test_a_sweep_grows_by_what_is_told(client: EngineClient, posted: list[Message]) -> None:
    sweep = begin(client, 32, 64, 5000)
    assert posted == [BeginSweep(sweep, "s", "m", "cpu", "ttft", (32, 64, 5000))]
    assert view_of(client, sweep).status == "waiting"
    then = Measuring(32, 1, 3)
    hear(client, SweepMoved(sweep, "measuring", model=INFO, lengths=(32, 64), conditions={"cores": "2"}))
    hear(client, SweepMoved(sweep, "measuring", then=then))
    seen = view_of(client, sweep)
    assert (seen.status, seen.model, seen.lengths, seen.measuring, seen.conditions) == ("measuring", INFO, (32, 64), then, {"cores": "2"})
    hear(client, SweepMoved(sweep, "measuring", sample=SweepSample(32, 0.2, 0.1), then=Measuring(32, 2, 3)))
    hear(client, SweepMoved(sweep, "measuring", sample=SweepSample(32, 0.4, 0.1)))
    assert seen.points == (), "a snapshot is frozen"
    assert view_of(client, sweep).points[0].seconds == (0.2, 0.4)
    hear(client, SweepEnded(sweep, "done"))
    hear(client, SweepMoved(sweep, "measuring", sample=SweepSample(64, 0.4, 0.1)))
    seen = view_of(client, sweep)
    assert (seen.status, seen.moving, seen.measuring, len(seen.points)) == ("done", False, None, 1)


def test_stopping_asks_the_engine_and_keeps_the_points(client: EngineClient, posted: list[Message]) -> None:
    sweep = begin(client)
    hear(client, SweepMoved(sweep, "measuring", sample=SweepSample(32, 0.2, 0.1)))
    client.stop_sweep(sweep)
    assert posted[-1] == StopSweep(sweep)
    hear(client, SweepEnded(sweep, "stopped"))
    assert len(view_of(client, sweep).points) == 1
    client.stop_sweep(sweep)
    client.stop_sweep("nobody")
    assert len(posted) == 2, "what has ended, or never was, is not stopped"


def test_a_lost_engine_marks_its_sweeps_and_keeps_their_points(client: EngineClient) -> None:
    sweep, other = begin(client), begin(client)
    hear(client, SweepMoved(sweep, "measuring", sample=SweepSample(32, 0.2, 0.1)))
    client._sweeps._sheets[other].link = None  # still waiting for an engine
    client._keeper.lost(0, -9)
    lost = view_of(client, sweep)
    assert (lost.status, lost.error, len(lost.points)) == ("failed", EngineLost(exit_code=-9).info, 1)
    assert view_of(client, other).moving


def test_a_message_that_cannot_be_read_ends_its_sweep(client: EngineClient, posted: list[Message]) -> None:
    sweep = begin(client)
    client._keeper.receive(b'{"type":"sweep_moved","sweep_id":"' + sweep.encode() + b'","status":7}', lambda: b"")
    assert view_of(client, sweep).status == "failed"
    assert posted[-1] == StopSweep(sweep)


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": "memory"},
        *({"lengths": bad} for bad in ((), (15,), (64, 64), (64, 32), (32, 10**9), tuple(range(32, 65)), (True, 64), ("32",))),
    ],
)
def test_what_no_sweep_can_measure_is_refused(client: EngineClient, posted: list[Message], wrong: dict[str, object]) -> None:
    asked = {"kind": "ttft", "lengths": (32, 64)} | wrong
    with pytest.raises(InvalidSetting):
        client.sweep(asked["kind"], asked["lengths"], model="m", session="s")
    assert not posted


def test_names_are_checked_as_for_runs(client: EngineClient, posted: list[Message], tmp_path: Path) -> None:
    with pytest.raises(LoneSurrogate):
        client.sweep("ttft", (32,), model="m", session="\ud800")
    listed = EngineClient(Settings(home=tmp_path, any_model=False))
    with pytest.raises(ModelNotFound):
        listed.sweep("ttft", (32,), model="../../etc", session="s")
    assert not posted


def test_a_sweep_that_nobody_asks_after_is_stopped(posted: list[Message], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeping, "LEASES", 1)
    client = EngineClient(Settings(home=tmp_path, lease_s=0.1))
    client.start()
    sweep = client.sweep("ttft", (32,), model="m", session="s")
    until(lambda: StopSweep(sweep, Unwatched().info) in posted, 5.0)
    client.close()
    assert posted.count(StopSweep(sweep, Unwatched().info)) == 1


def test_one_that_waits_for_an_engine_ends_at_once(client: EngineClient, posted: list[Message]) -> None:
    sweeps = [begin(client) for _ in range(sweeping.SWEEPS_LIVE)]
    for sweep in sweeps:
        client._sweeps._sheets[sweep].link = None
    client.stop_sweep(sweeps[0])
    seen = view_of(client, sweeps[0])
    assert (seen.status, seen.error) == ("stopped", None)
    assert posted[-1] == StopSweep(sweeps[0]), "the next process is to know"
    client._sweeps._clock = lambda: time.monotonic() + 10**6
    for _ in range(3):
        client._stop_unwanted_sweeps()
    assert posted[sweeping.SWEEPS_LIVE + 1 :] == [StopSweep(sweep, Unwatched().info) for sweep in sweeps[1:]], "once each"
    for sweep in sweeps[1:]:
        assert (view_of(client, sweep).status, view_of(client, sweep).error) == ("stopped", Unwatched().info)
    assert begin(client), "their places are free"


def test_looking_keeps_a_sweep_and_the_book_is_bounded() -> None:
    clock = Clock()
    book = SweepBook(7.0, clock)
    book.add(SweepView("a", "ttft", "m", "cpu", (32,), "now"))
    clock.now += 69
    assert book.unwanted() == []
    assert book.look("a") is not None
    clock.now += 69
    assert book.unwanted() == []
    clock.now += 2
    assert book.unwanted() == ["a"]
    assert book.unwanted() == [], "named once"
    book.apply(SweepEnded("a", "stopped"))
    assert book.unwanted() == []
    for number in range(sweeping.SWEEPS_KEPT):
        book.add(SweepView(str(number), "ttft", "m", "cpu", (32,), "now"))
        book.apply(SweepEnded(str(number), "done"))
    assert book.look("a") is None
    assert book.look("0") is not None
    for number in range(sweeping.SWEEPS_LIVE):
        book.add(SweepView(f"live {number}", "ttft", "m", "cpu", (32,), "now"))
    with pytest.raises(TooManySweeps):
        book.add(SweepView("one more", "ttft", "m", "cpu", (32,), "now"))
