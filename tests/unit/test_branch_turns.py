"""Branches in the engine, turn by turn, on a tiny model: what each turn tells, and what becomes of the run that is left. No process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from engine import Run
from engine.errors import ErrorInfo, OutOfMemory, RunFreed, RunNotBegun
from engine.model.loader import LoadedModel
from engine.serve.asks import AskAttention, AskCell, AskLens, AskLinks, AskStages
from engine.serve.models import Wanted
from engine.serve.protocol import Branched, Message, Prefilled, StatusChanged, Stepped, Submit
from engine.serve.server import Server
from engine.serve.work import RunWork
from engine.settings import Settings
from engine.stem import branch_settings, stem_of
from engine.trace import DecodeStep, PrefillTrace, RunRecord, RunSettings, RunStatus, StopReason

FREE = RunSettings(max_new_tokens=12, ignore_eos=True)


class Room:
    """A server whose model is there and whose turns are taken by hand."""

    def __init__(self, model: LoadedModel, home: Path) -> None:
        self.said: list[Message] = []
        self.server = Server(SimpleNamespace(send=lambda data: None), Settings(home=home, offline=True))
        self.scheduler = self.server._scheduler
        self.scheduler._emit = self.said.append
        self.server._pool.want = lambda wanted: self.scheduler.release(wanted)
        self.server._pool.take = lambda wanted: model

    def submit(self, run_id: str, settings: RunSettings = FREE, session: str = "s", play: bool = True) -> None:
        self.server._submit(Submit(run_id, session, "m", "cpu", "the cat sat on", settings, play), 0.0)

    def branch(self, left: str, run_id: str, index: int, token_id: int, *, record: RunRecord | None = None, play: bool = True) -> None:
        known = record or self.run(left).record()
        settings = branch_settings(known.settings)
        stem = stem_of(known, index, token_id, left)
        at = self.server._scheduler._clock()
        self.server._submit(Submit(run_id, "s", "m", "cpu", known.prompt, settings, play, 0.0, at, stem), at)

    def run(self, run_id: str) -> Run:
        work = self.scheduler.find(run_id).work
        assert isinstance(work, RunWork)
        assert work.live is not None
        return work.live

    def turns(self, count: int) -> None:
        for _ in range(count):
            self.scheduler.turn()

    def told(self, run_id: str) -> list[Message]:
        return [message for message in self.said if getattr(message, "run_id", None) == run_id]

    def kinds(self, run_id: str) -> list[str]:
        return [type(message).__name__ for message in self.told(run_id)]


@pytest.fixture
def room(tiny: Callable[..., LoadedModel], tmp_path: Path) -> Room:
    made = Room(tiny("llama"), tmp_path)
    made.submit("root")
    made.turns(7)  # encoded, read, five written
    made.scheduler.steer("root", "pause")
    return made


def test_the_first_turn_of_a_branch_tells_where_it_leaves_and_what_it_writes(room: Room) -> None:
    before = room.run("root").record()
    room.branch("root", "b", 3, 77)
    room.turns(1)
    assert room.kinds("b") == ["StatusChanged", "StatusChanged", "Branched", "Stepped"]
    branched, stepped = room.told("b")[-2:]
    assert isinstance(branched, Branched)
    assert isinstance(stepped, Stepped)
    assert (branched.origin.run_id, branched.origin.index, branched.origin.reread_s) == ("root", 3, None)
    assert branched.origin.instead_of == before.generated[3]
    assert (stepped.step.index, stepped.step.token.id) == (3, 77)
    assert stepped.step.at_s == before.steps[2].at_s
    assert stepped.step.kv_tokens == before.steps[2].kv_tokens
    room.turns(2)
    assert room.kinds("b")[-2:] == ["Stepped", "Stepped"]
    assert [message.step.index for message in room.told("b") if isinstance(message, Stepped)] == [3, 4, 5]
    assert room.run("root").record() == before, "the run that is left stays as it was"


def test_a_branch_at_the_first_token_is_told_as_read(room: Room) -> None:
    room.branch("root", "b", 0, 77)
    room.turns(1)
    assert room.kinds("b")[-2:] == ["Branched", "Prefilled"]
    prefilled = room.told("b")[-1]
    assert isinstance(prefilled, Prefilled)
    assert prefilled.prefill.first.id == 77
    room.turns(1)
    assert room.run("b").record().steps[0].kv_tokens == len(room.run("b").tokens) + 1


@pytest.mark.parametrize("index", [0, 3])
def test_an_end_token_ends_the_branch_in_its_first_turn(tiny: Callable[..., LoadedModel], tmp_path: Path, index: int) -> None:
    room = Room(tiny("llama"), tmp_path)
    settings = RunSettings(max_new_tokens=12)
    eos = tiny("llama").info.eos_ids[0]
    run = Run(tiny("llama"), "the cat sat on", settings, forced=(70, 71, 72, 73, 74))
    list(run.decode())
    room.branch("gone", "b", index, eos, record=run.record())
    room.turns(1)
    last = room.told("b")[-1]
    assert last == StatusChanged("b", RunStatus.ENDED, StopReason.EOS)
    assert room.kinds("b")[-2] == ("Prefilled" if index == 0 else "Stepped")
    assert [token.id for token in room.run("b").record().generated] == [*(70, 71, 72)[:index], eos]


def test_the_last_token_that_may_be_written_ends_the_branch_too(room: Room) -> None:
    room.scheduler.steer("root", "play")
    room.turns(20)
    assert room.run("root").stop_reason is StopReason.LENGTH
    room.branch("root", "b", 11, 77)
    room.turns(1)
    assert room.told("b")[-1] == StatusChanged("b", RunStatus.ENDED, StopReason.LENGTH)


@pytest.mark.parametrize("gone", ["freed", "unknown", "its model made room"])
def test_where_the_other_run_is_gone_all_is_read_once_more(room: Room, gone: str) -> None:
    record = room.run("root").record()
    room.branch("root", "live", 4, 77)
    room.turns(8)
    taken = room.run("live").record()
    left = "nobody" if gone == "unknown" else "root"
    room.scheduler.steer("root", "cancel" if gone == "freed" else "stop")
    if gone == "its model made room":
        room.scheduler.free_ended(Wanted("m", "cpu"))
    room.branch(left, "b", 4, 77, record=record)
    room.turns(9)
    branched = next(message for message in room.told("b") if isinstance(message, Branched))
    assert branched.origin.reread_s is not None
    assert branched.origin.reread_s > 0
    read = room.run("b").record()
    assert [token.id for token in read.generated] == [token.id for token in taken.generated]
    assert [step.kv_tokens for step in read.steps] == [step.kv_tokens for step in taken.steps]
    assert read.steps[4].paused_s >= branched.origin.reread_s, "reading once more is nobody's latency"


def test_a_branch_that_fails_ends_alone(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    before = room.run("root").record()

    def full(*args: object, **options: object) -> Run:
        raise OutOfMemory(detail="no room to read it once more")

    with monkeypatch.context() as patch:
        patch.setattr(Run, "revive", full)
        room.branch("root", "b", 3, 77)
        room.turns(1)
    error = ErrorInfo("out_of_memory", {"detail": "no room to read it once more"})
    assert room.told("b")[-1] == StatusChanged("b", RunStatus.ENDED, StopReason.OUT_OF_MEMORY, error)
    assert room.run("root").record() == before
    room.scheduler.steer("root", "play")
    room.turns(2)
    assert len(room.run("root").record().steps) == len(before.steps) + 2


def test_a_branch_that_does_not_play_writes_its_own_token_and_waits(room: Room) -> None:
    room.branch("root", "b", 3, 77, play=False)
    room.turns(5)
    assert room.kinds("b")[:3] == ["StatusChanged", "Branched", "Stepped"]
    steps = [message for message in room.told("b") if isinstance(message, Stepped)]
    assert len(steps) == 1
    assert all(message.status is RunStatus.PAUSED for message in room.told("b") if isinstance(message, StatusChanged))
    room.scheduler.steer("b", "step")
    room.turns(5)
    step = room.run("b").record().steps[-1]
    assert step.index == 4
    assert step.waited_s < 0.5 * step.gap_s, "most of the time it was the reader who waited"


def test_waiting_for_its_turn_is_the_branchs_latency_and_the_readers_thinking_is_not(room: Room) -> None:
    thought, waited = 30.0, 4.0
    clock, offset = room.scheduler._clock, [0.0]
    fork_at = clock()
    room.scheduler._clock = lambda: clock() + offset[0]
    run = room.run("root")
    run._clock._read = room.scheduler._clock
    offset[0] = thought
    room.branch("root", "b", 5, 77)
    offset[0] += waited
    room.turns(2)
    run._clock._read = clock
    step = room.run("b").record().steps[-1]
    assert step.index == 6
    assert step.paused_s == pytest.approx(thought, abs=clock() - fork_at + 1.0)
    assert step.waited_s == pytest.approx(waited, abs=1.0)


def test_no_stem_outlives_its_run(room: Room) -> None:
    room.branch("root", "b", 3, 77)
    room.branch("root", "never", 3, 78, play=False)
    for run_id in ("b", "never"):
        assert room.scheduler.find(run_id).work._stem is not None
    room.turns(1)
    assert room.scheduler.find("b").work._stem is None
    room.server._scheduler.steer("never", "cancel")
    job = room.scheduler._jobs["never"]
    assert (job.freed, job.work._stem, job.work._command.stem) == (True, None, None)


def test_the_run_that_is_left_is_not_freed_while_its_notes_are_taken_over(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    revive, seen = Run.revive, []

    def interrupted(*args: object, parent: Run, **options: object) -> Run:
        room.scheduler.steer("root", "cancel")
        seen.append(parent.kv_bytes())
        return revive(*args, parent=parent, **options)

    monkeypatch.setattr(Run, "revive", interrupted)
    room.branch("root", "b", 3, 77)
    room.turns(1)
    assert seen[0] > 0
    assert room.run("b").origin.reread_s is None
    assert room.scheduler._jobs["root"].freed
    room.turns(2)
    assert len(room.run("b").record().steps) == 5


def test_a_branch_that_waits_for_its_first_turn_says_so(room: Room) -> None:
    """A page knows its tokens already and asks: its notes have not been cleared, they are still to come."""
    questions = (AskCell("q", "b", 0, 0), AskAttention("q", "b", 0, until=3), AskLinks("q", "b", 1, 0), AskLens("q", "b", 5))
    room.branch("root", "b", 3, 77)
    for question in (*questions, AskStages("q", "b", 0)):
        with pytest.raises(RunNotBegun) as caught:
            room.scheduler.find("b").work.look(question)
        assert caught.value.params == {"run": "b"}
    room.turns(1)
    for question in (*questions, AskStages("q", "b", 0)):
        assert room.scheduler.find("b").work.look(question) is not None
    work = room.scheduler.find("b").work
    room.scheduler.steer("b", "cancel")
    with pytest.raises(RunFreed):
        work.look(questions[0])


def test_what_never_began_or_failed_as_it_began_has_no_memory_to_come(room: Room) -> None:
    room.branch("root", "stopped", 3, 77, play=False)
    stopped = room.scheduler.find("stopped").work
    room.scheduler.steer("stopped", "cancel")
    room.branch("root", "failed", 3, 10**6)
    room.turns(1)
    failed = room.scheduler.find("failed")
    assert (failed.ended, failed.freed) == (True, False)
    for work in (stopped, failed.work):
        with pytest.raises(RunFreed):
            work.look(AskCell("q", "b", 0, 0))


def test_held_memory_is_counted_for_each(room: Room) -> None:
    room.branch("root", "b", 3, 77)
    room.turns(4)
    for run_id in ("root", "b"):
        run = room.run(run_id)
        newest = run.newest
        assert isinstance(newest, DecodeStep | PrefillTrace)
        assert room.scheduler.find(run_id).work.held_bytes() >= newest.kv_bytes + newest.recorded_bytes > 0
    room.scheduler.steer("b", "cancel")
    assert room.scheduler._jobs["b"].work.held_bytes() == 0
    assert room.run("root").kv_bytes() > 0


def storages(*runs: Run) -> int:
    """Bytes of memory behind the caches of these runs, each piece once."""
    layers = [layer for run in runs for layer in run._live_stepper().cache._layers]
    parts = [part.untyped_storage() for layer in layers for part in (layer.keys, layer.values)]
    return sum({part.data_ptr(): part.nbytes() for part in parts}.values())


def test_the_sum_over_a_run_and_its_branches_is_no_less_than_what_they_hold(room: Room) -> None:
    """Also where a branch has not gone on since, and where the run that it left is gone: nothing is kept alive that nobody counts."""
    for run_id, index in (("b", 3), ("c", 5)):
        room.branch("root", run_id, index, 77, play=False)
        room.turns(1)
    runs = [room.run(run_id) for run_id in ("root", "b", "c")]
    assert 0 < storages(*runs) <= sum(run.kv_bytes() for run in runs)
    room.scheduler.steer("root", "cancel")
    for run in runs[1:]:
        assert 0 < storages(run) <= run.kv_bytes()
