"""TTFT, ITL and TPOT of real runs by a clock that a test moves, recomputed from raw stamps and pauses that an onlooker wrote down."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Iterator

import pytest

from engine import LoadedModel, RunSettings
from engine.measure.latency import LatencySummary, summarize
from engine.trace import StopReason
from tests.stamps import CUTTING_S, PICKING_S, READING_S, Hall, Wall, wall_for

OPEN = RunSettings(max_new_tokens=8, ignore_eos=True)
FOREIGN = 77


@pytest.fixture
def model(tiny: Callable[..., LoadedModel]) -> LoadedModel:
    return tiny("llama")


@pytest.fixture
def wall(model: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> Iterator[Wall]:
    with wall_for(model, monkeypatch) as made:
        yield made


@pytest.fixture
def hall(model: LoadedModel, wall: Wall) -> Hall:
    return Hall(model, wall)


def checked(hall: Hall, name: str) -> LatencySummary:
    """The engine's own figures, after they have been compared with the onlooker's book."""
    book, summary = hall.books[name], summarize(hall.record(name))
    assert summary.tokens == len(book.ids_at)
    assert summary.ttft_s == pytest.approx(book.ttft_s)
    assert summary.ttft_parts is not None
    assert sum(dataclasses.astuple(summary.ttft_parts)) == pytest.approx(book.ttft_s)
    assert summary.itl_s == pytest.approx(book.itl_s)
    assert summary.tpot_s == (None if book.tpot_s is None else pytest.approx(book.tpot_s))
    assert summary.decode_tokens_per_s == (None if book.tpot_s is None else pytest.approx(1 / book.tpot_s))
    assert summary.overall_tokens_per_s == pytest.approx(book.overall_per_s)
    assert summary.paused_s == pytest.approx(book.held_s(book.asked_at, book.ids_at[-1]))
    return summary


def test_one_token_is_all_wait_and_has_no_time_per_token(hall: Hall) -> None:
    hall.submit("a", dataclasses.replace(OPEN, max_new_tokens=1))
    hall.turns()
    summary = checked(hall, "a")
    assert hall.ended["a"].stop_reason is StopReason.LENGTH
    assert (summary.tpot_s, summary.itl_s, summary.decode_tokens_per_s) == (None, (), None)
    parts = summary.ttft_parts
    assert parts is not None
    assert (parts.queue_s, parts.template_s, parts.tokenize_s, parts.sample_s) == pytest.approx(
        (CUTTING_S, CUTTING_S, CUTTING_S, PICKING_S)
    )
    assert parts.prefill_s / READING_S == pytest.approx(round(parts.prefill_s / READING_S))


def test_an_end_token_at_once_is_a_run_of_one_token(model: LoadedModel, wall: Wall) -> None:
    probe = Hall(model, wall)
    probe.submit("probe", dataclasses.replace(OPEN, max_new_tokens=1))
    probe.turns()
    first = probe.record("probe").generated[0].id
    hall = Hall(dataclasses.replace(model, info=dataclasses.replace(model.info, eos_ids=(first,))), wall)
    hall.submit("a", RunSettings(max_new_tokens=8))
    hall.turns()
    assert hall.ended["a"].stop_reason is StopReason.EOS
    summary = checked(hall, "a")
    assert (summary.tokens, summary.tpot_s) == (1, None)


def test_a_pause_in_the_middle_is_in_no_interval(hall: Hall) -> None:
    hall.submit("a", OPEN)
    hall.turns(4)
    hall.wall.now += 0.25  # nobody's fault: the worker was slow to come
    hall.steer("a", "pause")
    hall.wall.now += 3600
    hall.turns(3)
    hall.steer("a", "play")
    hall.wall.now += 0.5
    hall.turns()
    summary = checked(hall, "a")
    assert max(summary.itl_s) < 3
    assert summary.paused_s == 3600
    assert summary.waited_s == pytest.approx(0.75)


def test_a_pause_before_the_first_id_is_not_in_the_first_wait(hall: Hall) -> None:
    hall.submit("a", OPEN, play=False)
    hall.wall.now += 100
    hall.steer("a", "step")  # cuts the text
    hall.turns(2)
    hall.wall.now += 1000
    hall.steer("a", "play")
    hall.wall.now += 0.5
    hall.turns()
    summary = checked(hall, "a")
    assert summary.paused_s == 1100
    assert summary.ttft_parts is not None
    assert summary.ttft_parts.queue_s == pytest.approx(0.5 + CUTTING_S)


def test_single_steps_hold_the_run_between_them(hall: Hall) -> None:
    hall.submit("a", OPEN, play=False)
    for _ in range(12):
        hall.steer("a", "step")
        hall.wall.now += 0.125  # until the worker comes: waiting
        hall.turns(2)
        hall.wall.now += 7  # the reader looks: a pause
    summary = checked(hall, "a")
    assert summary.tokens == 8
    assert summary.waited_s == pytest.approx(7 * 0.125)


def test_turns_of_another_session_are_waited_for_and_told_apart(hall: Hall) -> None:
    hall.submit("a", OPEN, "one")
    hall.submit("b", OPEN, "two")
    hall.turns()
    for name, other in (("a", "b"), ("b", "a")):
        summary, record = checked(hall, name), hall.record(name)
        theirs = {step.index: step.busy_s for step in hall.record(other).steps}
        waits = [step.waited_s for step in record.steps]
        expected = [theirs.get(index if name == "b" else index - 1) for index in range(1, 8)]
        known = [(wait, busy) for wait, busy in zip(waits, expected, strict=True) if busy is not None]
        assert [wait for wait, _ in known] == pytest.approx([busy for _, busy in known]), "each waits for just the other's step"
        assert summary.waited_s > 0
        assert summary.tpot_s is not None
        busy_s = sum(step.busy_s for step in record.steps)
        assert summary.tpot_s * 7 == pytest.approx(busy_s + summary.waited_s)


@pytest.mark.parametrize("notes", [True, False], ids=["taken-over", "read-again"])
@pytest.mark.parametrize("index", [0, 3])
def test_a_branch_goes_on_by_its_parents_clock(hall: Hall, index: int, notes: bool) -> None:
    hall.submit("a", OPEN)
    hall.turns(7)
    hall.steer("a", "pause")
    hall.wall.now += 500  # the reader thinks about it
    hall.branch("a", "b", index, FOREIGN, notes=notes)
    hall.wall.now += 0.25  # and waits for the worker
    hall.turns()
    parent, branch = checked(hall, "a"), checked(hall, "b")
    assert branch.tokens == 8
    assert branch.ttft_s == parent.ttft_s
    assert branch.itl_s[:index] == parent.itl_s[:index], "what was written before the fork is the parent's"
    assert branch.waited_s - sum(step.waited_s for step in hall.record("b").steps[:index]) == pytest.approx(0.25)
    origin = hall.run("b").origin
    assert origin is not None
    assert (origin.reread_s is None) == notes
    assert branch.paused_s >= (500 if notes else origin.reread_s)
    assert max(branch.itl_s) < 5


@pytest.mark.parametrize("then", ["play", "step", "nothing"])
def test_a_pause_cannot_hold_the_turn_that_a_branch_owes(hall: Hall, then: str) -> None:
    """Whether or not the reader thinks better of it before that turn comes, the time until then was waiting."""
    hall.submit("a", OPEN)
    hall.turns(7)
    hall.steer("a", "pause")
    hall.branch("a", "b", 3, FOREIGN)
    hall.steer("b", "pause")
    hall.wall.now += 2
    if then != "nothing":
        hall.steer("b", then)  # type: ignore[arg-type]
    hall.turns(2)
    hall.wall.now += 40
    hall.steer("b", "play")
    hall.turns()
    waited_s = [step.waited_s for step in hall.record("b").steps]
    assert checked(hall, "b").itl_s[3] < 4
    assert waited_s[3] == pytest.approx(2)


def test_a_branch_while_another_session_writes(hall: Hall) -> None:
    hall.submit("a", OPEN, "one")
    hall.submit("c", dataclasses.replace(OPEN, max_new_tokens=30), "two")
    hall.turns(10)
    hall.steer("a", "pause")
    hall.wall.now += 20
    hall.branch("a", "b", 1, FOREIGN, notes=False, session="one")
    hall.turns()
    for name in "abc":
        checked(hall, name)


@pytest.mark.parametrize("inside", [False, True])
def test_a_stop_in_mid_run_leaves_figures_of_what_was_written(hall: Hall, inside: bool, model: LoadedModel) -> None:
    hall.submit("a", OPEN)
    hall.turns(4)
    if inside:  # asked for while the step is under way: that step is done first
        handle = model.model.register_forward_pre_hook(lambda *_: hall.steer("a", "stop"))
        hall.turn()
        handle.remove()
    else:
        hall.wall.now += 3
        hall.steer("a", "stop")
    hall.turns()
    assert hall.ended["a"].stop_reason is StopReason.STOPPED
    assert checked(hall, "a").tokens == 3 + inside


@pytest.mark.parametrize("seed", range(12))
def test_whatever_the_readers_do_the_figures_are_those_of_the_stamps(hall: Hall, seed: int) -> None:
    """Three readers press at random, time passes at random, branches grow; every book agrees."""
    dice = random.Random(seed)
    names = ["a", "b", "c"]
    for name in names:
        hall.submit(name, dataclasses.replace(OPEN, max_new_tokens=12), dice.choice("st"), play=dice.random() < 0.7)
    for _ in range(120):
        name = dice.choice(names)
        what = dice.choice(["turn", "turn", "turn", "time", "pause", "play", "step", "step", "branch"])
        if what == "turn":
            hall.turn()
        elif what == "time":
            hall.wall.now += dice.choice([0.25, 1, 30])
        elif what != "branch":
            if name not in hall.ended:
                hall.steer(name, what)
        elif len(names) < 6 and len(hall.books[name].ids_at) > 1 and hall.works[name].live is not None:
            names.append(f"{name}{len(names)}")
            hall.branch(name, names[-1], dice.randrange(len(hall.books[name].ids_at)), FOREIGN, notes=dice.random() < 0.5)
    for name in names:
        if name not in hall.ended:
            hall.steer(name, "play")
    hall.turns()
    for name in names:
        checked(hall, name)
