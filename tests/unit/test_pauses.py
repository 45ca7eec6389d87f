"""Steering by theory: exact numbers of turns, and seconds of pause that are the reader's own."""

from __future__ import annotations

import pytest

from engine.trace import RunStatus, StopReason
from tests.hall import Hall


@pytest.fixture
def hall() -> Hall:
    return Hall()


def test_pause_and_step_take_exactly_the_turns_asked_for(hall: Hall) -> None:
    hall.add("a", play=False)
    assert hall.turns(3) == 0
    for steps in (1, 1, 3):
        before = len(hall.diary)
        for _ in range(steps):
            hall.scheduler.steer("a", "step")
        hall.turns(10)
        assert len(hall.diary) - before == steps
    assert hall.statuses("a") == ["paused"]
    hall.scheduler.steer("a", "play")
    hall.turns(4)
    assert len(hall.diary) == 9
    hall.scheduler.steer("a", "pause")
    assert hall.turns(3) == 0
    assert hall.statuses("a") == ["paused", "running", "paused"]


def test_a_step_of_a_playing_job_is_one_turn_and_then_a_pause(hall: Hall) -> None:
    hall.add("a")
    hall.turns(2)
    hall.scheduler.steer("a", "step")
    hall.turns(5)
    assert len(hall.diary) == 3
    assert hall.statuses("a")[-1] == "paused"


def test_what_is_asked_in_mid_turn_happens_right_after_it(hall: Hall) -> None:
    hall.add("a", during=lambda turn: hall.scheduler.steer("a", "pause") if turn == 2 else None)
    hall.turns(10)
    assert len(hall.diary) == 3
    assert hall.works["a"].stop_reason is None
    hall.works["a"].during = lambda turn: hall.scheduler.steer("a", "cancel")
    hall.scheduler.steer("a", "play")
    hall.turns(10)
    assert len(hall.diary) == 4
    assert hall.last_words("a").stop_reason is StopReason.STOPPED
    assert hall.works["a"].freed


@pytest.mark.parametrize(("action", "freed"), [("stop", False), ("cancel", True)])
def test_stop_keeps_and_cancel_frees(hall: Hall, action: str, freed: bool) -> None:
    hall.add("a")
    hall.turns(3)
    hall.scheduler.steer("a", action)
    assert hall.turns(3) == 0
    assert (hall.last_words("a").status, hall.last_words("a").stop_reason) == (RunStatus.ENDED, StopReason.STOPPED)
    assert hall.works["a"].freed is freed
    told = len(hall.said)
    hall.scheduler.steer("a", "cancel")
    hall.scheduler.steer("a", "play")
    assert hall.works["a"].freed
    assert len(hall.said) == told, "an ended run says nothing more"


def test_the_readers_pause_is_counted_and_waiting_for_others_is_not(hall: Hall) -> None:
    hall.add("a", "1")
    hall.add("b", "2")
    hall.turns(2)  # a until 101, b until 102
    hall.scheduler.steer("a", "pause")  # 102: the last second was waiting
    hall.turns(3)  # b until 105
    hall.scheduler.steer("a", "play")
    hall.turns(2)
    assert hall.order() == "abbbbab"
    assert hall.works["a"].pauses == [3.0]
    assert hall.works["b"].pauses == []


def test_a_pause_before_the_first_turn_counts_from_submission(hall: Hall) -> None:
    hall.add("a", play=False)
    hall.clock.now += 7.0
    hall.scheduler.steer("a", "step")
    hall.clock.now += 2.0  # waiting for the worker
    hall.turns(1)
    assert hall.works["a"].pauses == [7.0]
    hall.clock.now += 4.0
    hall.scheduler.steer("a", "step")
    hall.turns(1)
    assert hall.works["a"].pauses == [7.0, 4.0]


def test_a_pause_asked_for_in_mid_turn_begins_at_the_turns_end(hall: Hall) -> None:
    hall.add("a", during=lambda turn: hall.scheduler.steer("a", "pause") if turn == 0 else None)
    hall.turns(1)
    hall.clock.now += 5.0
    hall.scheduler.steer("a", "play")
    hall.turns(1)
    assert hall.works["a"].pauses == [5.0]


def test_pace_is_from_begin_to_begin_and_counts_as_the_readers_pause(hall: Hall) -> None:
    hall.add("a", pace_s=4.0)
    for _ in range(4):
        assert hall.turns(2) == 1, "no second turn before its time"
        hall.clock.now += 2.5
        assert hall.turns(1) == 0
        hall.clock.now += 0.75  # a quarter of a second too late: that is waiting
    assert [at for _, at in hall.diary] == [100.0, 104.25, 108.5, 112.75]
    assert hall.works["a"].pauses == pytest.approx([3.0, 3.0, 3.0])


def test_pause_and_pace_together_are_counted_once(hall: Hall) -> None:
    hall.add("a", pace_s=4.0)
    hall.turns(1)  # until 101, paced until 104
    hall.clock.now = 102.0
    hall.scheduler.steer("a", "pause")
    hall.clock.now = 107.0
    hall.scheduler.steer("a", "play")
    hall.clock.now = 108.0
    hall.turns(1)
    assert hall.works["a"].pauses == [6.0]  # 101 … 107


def test_a_quicker_pace_acts_at_once_and_what_was_held_back_stays_a_pause(hall: Hall) -> None:
    hall.add("a", pace_s=50.0)
    hall.turns(1)
    hall.clock.now += 9.0
    assert hall.turns(1) == 0
    hall.scheduler.steer("a", "play", 0.0)
    assert hall.turns(1) == 1
    assert hall.works["a"].pauses == [9.0]


def test_a_branch_writes_the_token_chosen_for_it_even_if_it_is_paused_before_its_first_turn() -> None:
    hall = Hall()
    job = hall.add("a", owes_first=True)
    hall.add("b", session="t")
    hall.scheduler.steer("a", "pause")
    hall.scheduler.steer("b", "pause")
    hall.turns(5)
    assert hall.order() == "a"
    assert job.status is RunStatus.PAUSED
    hall.scheduler.steer("a", "pause")
    hall.turns(5)
    assert hall.order() == "a", "one turn, not one with every pause"
