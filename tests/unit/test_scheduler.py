"""Fair turns, by theory. No model and no process here."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass

import pytest

from engine.errors import EmptyPrompt, ErrorInfo, RunFreed, RunUnknown
from engine.serve.holding import JOBS_REMEMBERED
from engine.serve.protocol import Message, ModelProgress
from engine.serve.scheduler import QUESTIONS_WAITING, Scheduler
from engine.trace import RunStatus, StopReason
from tests.hall import Hall


@pytest.fixture
def hall() -> Hall:
    return Hall()


def test_sessions_get_equal_turns_whatever_their_number_of_jobs(hall: Hall) -> None:
    hall.add("x", "one")
    for name in "abcde":
        hall.add(name, "five")
    assert hall.turns(20) == 20
    assert Counter(hall.order()) == Counter({"x": 10, **dict.fromkeys("abcde", 2)})
    assert hall.order()[:12] == "xaxbxcxdxexa"


def test_a_session_that_comes_later_waits_for_one_turn_of_each_other(hall: Hall) -> None:
    hall.add("a", "1")
    hall.add("b", "2")
    hall.turns(3)
    hall.add("c", "3")
    hall.turns(6)
    assert hall.order() == "aba" + "bac" + "bac"


def test_an_ended_job_gives_its_turns_to_the_others(hall: Hall) -> None:
    hall.add("a", "1", length=2)
    hall.add("b", "2")
    hall.turns(6)
    assert hall.order() == "abab" + "bb"
    assert hall.statuses("a") == ["queued", "running", "ended"]
    assert hall.last_words("a").stop_reason is StopReason.LENGTH


def test_the_end_is_told_right_after_the_last_turn(hall: Hall) -> None:
    hall.add("a", length=1)
    hall.turns(1)
    assert isinstance(hall.said[-2], ModelProgress)
    assert hall.last_words("a").status is RunStatus.ENDED
    assert hall.turns(1) == 0


def test_one_question_per_turn_and_one_turn_per_question(hall: Hall) -> None:
    hall.add("a")
    for number in range(3):
        assert hall.scheduler.ask("a", lambda number=number: hall.diary.append((str(number), 0.0)))
    hall.turns(5)
    assert hall.order() == "0a1a2aaa"


def test_questions_are_answered_without_any_job_and_are_bounded(hall: Hall) -> None:
    answers: list[int] = []
    taken = [hall.scheduler.ask("nobody", lambda: answers.append(1)) for _ in range(QUESTIONS_WAITING + 3)]
    assert taken == [True] * QUESTIONS_WAITING + [False] * 3
    hall.turns(QUESTIONS_WAITING + 10)
    assert len(answers) == QUESTIONS_WAITING


def test_a_run_is_not_freed_under_a_question(hall: Hall) -> None:
    hall.add("a", length=1)
    hall.turns(1)
    seen: list[bool] = []

    def question() -> None:
        hall.scheduler.steer("a", "cancel")
        seen.append(hall.works["a"].freed)

    hall.scheduler.ask("a", question)
    hall.turns(1)
    assert seen == [False]
    assert hall.works["a"].freed


def test_unknown_and_freed_runs_are_told_apart(hall: Hall) -> None:
    hall.add("a")
    assert hall.scheduler.find("a").run_id == "a"
    with pytest.raises(RunUnknown):
        hall.scheduler.find("b")
    hall.scheduler.steer("a", "cancel")
    with pytest.raises(RunFreed):
        hall.scheduler.find("a")


@pytest.mark.parametrize(
    ("failure", "code"), [(EmptyPrompt(), "empty_prompt"), (ZeroDivisionError("by zero"), "internal"), (MemoryError(), "internal")]
)
def test_a_failing_turn_ends_its_job_alone_and_says_why(hall: Hall, failure: Exception, code: str) -> None:
    hall.add("a", "1", failure=failure)
    hall.add("b", "2")
    hall.turns(4)
    assert hall.order() == "abbb"
    words = hall.last_words("a")
    assert (words.status, words.stop_reason) == (RunStatus.ENDED, StopReason.ERROR)
    assert words.error is not None
    assert words.error.code == code


def test_a_turn_whose_message_cannot_be_sent_ends_its_job(hall: Hall) -> None:
    def emit(message: Message) -> None:
        hall.said.append(message)
        if isinstance(message, ModelProgress):
            raise TypeError("not serialisable")

    hall.scheduler = Scheduler(emit, clock=hall.clock)
    hall.add("a")
    hall.turns(3)
    assert hall.order() == "a"
    error = hall.last_words("a").error
    assert error is not None
    assert error.params == {"detail": "TypeError: not serialisable"}


def test_a_failing_question_or_errand_does_not_end_the_worker(hall: Hall) -> None:
    hall.add("a")
    hall.scheduler.ask("a", lambda: 1 // 0)
    hall.turns(2)
    assert hall.order() == "aa"


def test_jobs_that_end_before_they_start_are_forgotten_like_all_others(hall: Hall) -> None:
    for number in range(3 * JOBS_REMEMBERED):
        hall.add(str(number), str(number % 7), ready=False)
        hall.scheduler.fail("model", ErrorInfo("offline"))
    assert len(hall.scheduler._jobs) == JOBS_REMEMBERED
    assert all(work.freed for work in hall.works.values())
    hall.add("stopped", play=False)
    hall.scheduler.steer("stopped", "stop")
    assert hall.works["stopped"].freed
    assert hall.last_words("stopped").stop_reason is StopReason.STOPPED


def test_a_cancel_may_say_why(hall: Hall) -> None:
    why = ErrorInfo("unwatched")
    for name in "ab":
        hall.add(name)
    hall.turns(2)
    hall.scheduler.steer("a", "cancel", error=why)
    hall.scheduler.steer("b", "cancel")
    assert [(hall.last_words(name).stop_reason, hall.last_words(name).error) for name in "ab"] == [
        (StopReason.STOPPED, why),
        (StopReason.STOPPED, None),
    ]
    hall.add("c", length=1)
    hall.turns(1)
    hall.scheduler.steer("c", "cancel", error=why)
    assert (hall.statuses("c").count("ended"), hall.last_words("c").error) == (1, None), "what had ended did not end by this"


@dataclass
class Load:
    """An errand that writes itself into the diary."""

    hall: Hall
    allowed: bool = True

    def can_run(self) -> bool:
        return self.allowed

    def run(self) -> None:
        self.hall.diary.append(("L", 0.0))


def test_jobs_wait_for_what_they_need_and_others_go_on(hall: Hall) -> None:
    hall.add("a", "1", ready=False)
    hall.add("b", "2")
    assert not hall.scheduler.in_use("other")
    hall.turns(2)
    assert hall.order() == "bb"
    assert hall.statuses("a") == ["queued"]
    hall.scheduler.release("model")
    hall.turns(2)
    assert Counter(hall.order()) == Counter("bbba")
    assert hall.works["a"].pauses == []


def test_what_will_not_come_ends_the_jobs_that_wait_for_it_only(hall: Hall) -> None:
    hall.add("a", "1", ready=False)
    hall.add("b", "2")
    hall.turns(1)
    hall.scheduler.fail("model", ErrorInfo("offline", {"model": "m"}))
    assert hall.last_words("a").error == ErrorInfo("offline", {"model": "m"})
    assert hall.statuses("b") == ["queued", "running"]


def test_errands_take_turns_with_jobs_and_wait_until_they_can_run(hall: Hall) -> None:
    hall.add("a")
    blocked, free = Load(hall, allowed=False), [Load(hall), Load(hall)]
    for errand in (blocked, *free):
        hall.scheduler.send(errand)
    hall.turns(3)
    assert hall.order() == "LaLaa"
    blocked.allowed = True
    hall.turns(1)
    assert hall.order() == "LaLaaLa"


def test_the_runs_that_ended_first_are_freed_first() -> None:
    hall = Hall(held_runs=2)
    for name in "abcd":
        hall.add(name, length=1)
        hall.turns(1)
    assert [name for name, work in hall.works.items() if work.freed] == ["a", "b"]
    hall.add("e", play=True)
    hall.turns(1)
    assert [name for name, work in hall.works.items() if work.freed] == ["a", "b", "c"]


def test_the_oldest_ended_runs_are_freed_where_all_hold_too_many_bytes() -> None:
    hall = Hall(held_bytes=100)
    hall.add("live", held=30)
    hall.turns(1)
    for name, held in (("a", 30), ("b", 30), ("c", 30), ("d", 10)):
        hall.add(name, name, length=1, held=held)
        while not hall.works[name].stop_reason:
            hall.turns(1)
    freed = [name for name, work in hall.works.items() if work.freed]
    assert freed == ["a"], "30 + 30 + 30 + 10 are within the limit once a is gone"


def test_a_run_and_its_branches_count_each_for_what_it_holds() -> None:
    hall = Hall(held_bytes=100)
    for name, held in (("root", 40), ("first", 35), ("second", 25)):
        hall.add(name, held=held, length=1)
        hall.turns(1)
    assert not any(work.freed for work in hall.works.values()), "40 + 35 + 25 are within the limit"
    hall.add("third", held=1, length=1)
    hall.turns(1)
    assert [name for name, work in hall.works.items() if work.freed] == ["root"]
    hall.add("fourth", held=38, length=1)
    hall.turns(1)
    assert [name for name, work in hall.works.items() if work.freed] == ["root"], "what is freed counts no more: 35 + 25 + 1 + 38"
    hall.add("fifth", held=2)
    hall.turns(1)
    hall.scheduler.steer("fifth", "stop")
    assert [name for name, work in hall.works.items() if work.freed] == ["root", "first"]


def test_for_want_of_bytes_neither_a_live_run_nor_the_newest_is_freed() -> None:
    hall = Hall(held_bytes=100)
    for name in ("live", "other"):
        hall.add(name, name, held=500)
    hall.turns(2)
    for name in "abc":
        hall.add(name, name, length=1, held=500)
        while not hall.works[name].stop_reason:
            hall.turns(1)
    assert [name for name, work in hall.works.items() if work.freed] == ["a", "b"]
    for name in ("live", "other"):
        hall.scheduler.steer(name, "stop")
    assert [name for name, work in hall.works.items() if not work.freed] == ["other"]


def test_a_run_that_is_being_asked_is_not_freed_for_its_bytes() -> None:
    hall = Hall(held_bytes=100)
    hall.add("a", length=1, held=80)
    hall.turns(1)
    hall.add("b", held=80)
    hall.turns(1)
    seen: list[bool] = []

    def question() -> None:
        hall.scheduler.steer("b", "stop")
        seen.append(hall.works["a"].freed)

    hall.scheduler.ask("a", question)
    hall.turns(1)
    assert seen == [False]


def test_the_worker_sleeps_until_it_is_needed_and_stops_when_told() -> None:
    said: list[Message] = []
    scheduler = Scheduler(said.append)
    worker = threading.Thread(target=scheduler.run)
    worker.start()
    answered = threading.Event()
    scheduler.ask("nobody", answered.set)
    assert answered.wait(2.0)
    scheduler.close()
    worker.join(2.0)
    assert not worker.is_alive()
