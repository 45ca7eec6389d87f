"""What is told besides the steps, by theory: only to a reader who follows step by step, only where nobody waits, and in nobody's time."""

from __future__ import annotations

import logging

import pytest

from engine.errors import ErrorInfo
from engine.serve.protocol import Glanced, ModelProgress
from engine.trace import RunStatus, StopReason
from tests.hall import Hall

GLANCE = Glanced("a", 0, b"")


@pytest.fixture
def hall() -> Hall:
    return Hall()


def glances(hall: Hall) -> int:
    return hall.said.count(GLANCE)


def test_at_full_speed_nothing_is_looked_up(hall: Hall) -> None:
    hall.add("a", beside=GLANCE)
    hall.turns(20)
    assert hall.works["a"].asides == []


def test_at_a_slow_pace_each_turn_brings_one_right_after_its_own_message(hall: Hall) -> None:
    hall.add("a", pace_s=4.0, beside=GLANCE)
    for _ in range(3):
        hall.turns(1)
        hall.clock.now += 4.0
    assert [type(message) for message in hall.said[2:]] == [ModelProgress, Glanced] * 3


def test_a_single_step_brings_one_and_what_plays_on_does_not(hall: Hall) -> None:
    hall.add("a", play=False, beside=GLANCE)
    for _ in range(2):
        hall.scheduler.steer("a", "step")
        hall.turns(3)
    assert glances(hall) == 2
    hall.scheduler.steer("a", "play")
    hall.turns(3)
    assert glances(hall) == 2
    hall.scheduler.steer("a", "step")
    hall.turns(3)
    assert glances(hall) == 3


def test_a_pace_that_is_given_up_in_mid_turn_brings_none(hall: Hall) -> None:
    hall.add("a", pace_s=4.0, beside=GLANCE, during=lambda turn: hall.scheduler.steer("a", "play", 0.0))
    hall.turns(3)
    assert hall.works["a"].asides == []


def test_nobody_waits_for_it(hall: Hall) -> None:
    hall.add("a", "1", pace_s=1.5, beside=GLANCE)
    other = hall.add("b", "2", length=4)
    while not other.ended:
        assert hall.works["a"].asides == []
        hall.turns(1)
    assert len(hall.diary) > 4
    hall.clock.now += 9.0
    hall.turns(1)
    assert glances(hall) == 1


def test_another_session_that_is_not_due_yet_does_not_count_as_waiting(hall: Hall) -> None:
    hall.add("b", "2", pace_s=100.0)
    hall.add("a", "1", pace_s=100.0, beside=GLANCE)
    hall.add("c", "3", ready=False)
    hall.turns(2)
    assert glances(hall) == 1


def test_a_question_comes_first(hall: Hall) -> None:
    hall.add("a", pace_s=4.0, beside=GLANCE, during=lambda turn: hall.scheduler.ask("a", lambda: None) and None)
    hall.turns(1)
    assert hall.works["a"].asides == []


def test_its_time_is_the_readers_own(hall: Hall) -> None:
    hall.add("a", pace_s=4.0, beside=GLANCE, aside_s=5.0)
    hall.turns(1)  # 100 … 101, looked up until 106; due again at 104
    hall.turns(1)
    assert [at for _, at in hall.diary] == [100.0, 106.0]
    assert hall.works["a"].pauses == [5.0]


def test_after_a_single_step_its_time_is_the_readers_own_too(hall: Hall) -> None:
    hall.add("a", play=False, beside=GLANCE, aside_s=5.0)
    hall.scheduler.steer("a", "step")
    hall.turns(1)  # 100 … 101, looked up until 106
    hall.clock.now = 103.0
    hall.scheduler.steer("a", "step")
    hall.clock.now = 106.0
    hall.turns(1)
    assert hall.works["a"].pauses == [5.0]


def test_one_that_fails_is_written_down_and_ends_nothing(hall: Hall, caplog: pytest.LogCaptureFixture) -> None:
    hall.add("a", pace_s=1.0)
    hall.works["a"].aside = lambda: 1 // 0
    with caplog.at_level(logging.ERROR):
        hall.turns(5)
    assert len(hall.diary) == 5
    assert hall.statuses("a") == ["queued", "running"]
    assert len(caplog.records) == 5


def test_a_run_that_ends_with_the_turn_is_not_looked_at(hall: Hall) -> None:
    hall.add("a", length=1, pace_s=1.0, beside=GLANCE)
    hall.turns(1)
    assert hall.works["a"].asides == []
    hall.add("b", pace_s=1.0, during=lambda turn: hall.scheduler.steer("b", "stop"))
    hall.turns(1)
    assert hall.works["b"].asides == []


def test_a_run_is_not_freed_under_it(hall: Hall) -> None:
    hall.add("a", pace_s=1.0)
    seen: list[bool] = []

    def aside() -> None:
        hall.scheduler.steer("a", "cancel", error=ErrorInfo("unwatched"))
        seen.append(hall.works["a"].freed)

    hall.works["a"].aside = aside
    hall.turns(1)
    assert seen == [False]
    assert hall.works["a"].freed
    words = hall.last_words("a")
    assert (words.status, words.stop_reason, words.error) == (RunStatus.ENDED, StopReason.STOPPED, ErrorInfo("unwatched"))


def test_what_one_turn_tells_comes_in_one_go(hall: Hall) -> None:
    hall.add("a", "1")
    hall.add("b", "2")
    hall.works["a"].turns = lambda: iter([(GLANCE, ModelProgress("a", "cpu", "load", 1, 1)), (GLANCE,)])
    hall.turns(4)
    own = [message for message in hall.said if isinstance(message, Glanced | ModelProgress)]
    assert [type(message) for message in own[:4]] == [Glanced, ModelProgress, ModelProgress, Glanced]
    assert own[2].model == "b"
    hall.turns(2)
    assert hall.statuses("a") == ["queued", "running", "ended"]


def test_a_job_that_comes_paused_with_a_turn_takes_it_at_once(hall: Hall) -> None:
    hall.add("a", play=False, allowance=1)
    hall.clock.now += 2.0
    assert hall.turns(5) == 1
    assert hall.statuses("a") == ["paused"]
    assert hall.works["a"].pauses == [], "it waited for the worker"


def test_a_single_step_that_is_taken_back_leaves_the_pause_going(hall: Hall) -> None:
    hall.add("a", play=False)
    hall.scheduler.steer("a", "step")
    hall.scheduler.steer("a", "pause")
    hall.clock.now += 7.0
    hall.scheduler.steer("a", "play")
    hall.turns(1)
    assert hall.works["a"].pauses == [7.0]


def test_who_is_kept_is_freed_afterwards(hall: Hall) -> None:
    hall.add("a")
    hall.turns(1)
    with hall.scheduler.kept("a") as job:
        assert job is not None
        hall.scheduler.steer("a", "cancel")
        assert not hall.works["a"].freed
    assert hall.works["a"].freed
    with hall.scheduler.kept("a") as freed, hall.scheduler.kept("nobody") as unknown:
        assert (freed, unknown) == (None, None)
