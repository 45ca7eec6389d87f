"""What the app keeps of runs, models and questions, without any process."""

from __future__ import annotations

import numpy as np
import pytest

from engine.errors import EngineLost, EngineUnavailable, ErrorInfo, OutOfRange, RemoteError, TooManyRuns
from engine.serve.book import Book
from engine.serve.protocol import (
    Answered,
    LoadModel,
    ModelFailed,
    ModelFreed,
    ModelProgress,
    ModelReady,
    Prefilled,
    StatusChanged,
    Stepped,
    Tokenized,
)
from engine.serve.questions import Questions
from engine.serve.stock import NAMES_KEPT, ModelStatus, Stock
from engine.trace import RunStatus, StopReason
from tests.hall import Clock
from tests.ledger import command, end, tell
from tests.samples import INFO, PREFILL, step, token


@pytest.fixture
def clock() -> Clock:
    return Clock(0.0)


@pytest.fixture
def book(clock: Clock) -> Book:
    return Book(kept_runs=4, lease_s=6.0, clock=clock)


def test_a_view_is_frozen_and_grows_with_the_run(book: Book) -> None:
    book.add(command("r"), "key")
    before = book.view("r")
    tell(book, StatusChanged("r", RunStatus.RUNNING))
    tell(book, Tokenized("r", INFO, (token(0), token(1), token(2))))
    tell(book, Prefilled("r", PREFILL))
    for index in (1, 2):
        tell(book, Stepped("r", step(index)))
    end(book, "r")
    tell(book, Stepped("r", step(3)))  # after the end: dropped
    view = book.view("r")
    assert before is not None
    assert view is not None
    assert (before.status, before.steps, before.model) == (RunStatus.QUEUED, (), None)
    assert (view.status, view.stop_reason, view.model, view.prefill) == (RunStatus.ENDED, StopReason.LENGTH, INFO, PREFILL)
    assert [one.index for one in view.steps] == [1, 2]
    assert [one.position for one in view.generated] == [3, 4, 5]
    assert book.view("r") is view, "nothing new, nothing made"
    assert book.view("other") is None
    tell(book, Stepped("other", step(1)))


def test_a_run_that_does_not_play_is_paused_from_the_start(book: Book) -> None:
    assert book.add(command("r", play=False), "key").snapshot().status is RunStatus.PAUSED


def test_the_book_is_bounded_and_never_drops_a_live_run(book: Book) -> None:
    for name in "abcd":
        book.add(command(name), "key")
    with pytest.raises(TooManyRuns):
        book.add(command("e"), "key")
    end(book, "c")
    end(book, "b")
    book.add(command("e"), "key")
    assert book.view("c") is None, "it ended first"
    assert all(book.view(name) for name in "abde")


def test_only_the_runs_of_the_dead_process_are_lost(book: Book) -> None:
    for name, link in (("a", 0), ("b", 0), ("c", None), ("d", 1)):
        book.add(command(name), "key").link = link
    tell(book, Stepped("a", step(1)))
    end(book, "b")
    book.lose(0, -9)
    states = {name: (view.status, view.error) for name in "abcd" if (view := book.view(name))}
    assert states == {
        "a": (RunStatus.ENDED, ErrorInfo("engine_lost", {"exit_code": -9})),
        "b": (RunStatus.ENDED, None),
        "c": (RunStatus.QUEUED, None),
        "d": (RunStatus.QUEUED, None),
    }
    assert book.find("a").snapshot().steps == (step(1),), "what was written stays"


def test_a_lease_ends_unless_renewed_and_each_run_is_named_once(book: Book, clock: Clock) -> None:
    book.add(command("a"), "key")
    book.add(command("b"), "key")
    clock.now = 5.0
    book.touch("b")
    assert book.unwanted() == []
    clock.now = 6.5
    assert book.unwanted() == ["a"]
    assert book.unwanted() == []
    clock.now = 11.5
    assert book.unwanted() == ["b"]


def test_a_models_states() -> None:
    stock = Stock()
    assert stock.get("m", "cpu") == ModelStatus("absent")
    stock.expect("m", "cpu")
    assert stock.get("m", "cpu").state == "loading"
    stock.apply(ModelProgress("m", "cpu", "download", 5, 10))
    assert stock.get("m", "cpu") == ModelStatus("loading", "download", 5, 10)
    stock.apply(ModelReady("m", "cpu", INFO))
    stock.expect("m", "cpu")
    assert stock.get("m", "cpu") == ModelStatus("ready", info=INFO), "asking again does not make it less ready"
    assert stock.get("m", "auto").state == "absent"
    stock.apply(ModelFreed("m", "cpu"))
    assert stock.get("m", "cpu").state == "absent"


def test_what_was_loaded_is_loaded_again_unless_it_ends_every_engine() -> None:
    stock = Stock()
    stock.apply(ModelReady("good", "cpu", INFO))
    stock.expect("bad", "cpu")
    stock.apply(ModelFailed("none", "cpu", ErrorInfo("offline")))
    assert stock.lose(-9) == [LoadModel("good", "cpu"), LoadModel("bad", "cpu")]
    stock.apply(ModelReady("good", "cpu", INFO))
    assert stock.lose(-9) == [LoadModel("good", "cpu")]
    assert stock.get("bad", "cpu").error == EngineLost(exit_code=-9).info
    stock.expect("bad", "cpu")
    assert LoadModel("bad", "cpu") in stock.lose(-9), "it may be tried again"


def test_hostile_names_do_not_fill_the_memory() -> None:
    stock = Stock()
    stock.apply(ModelReady("good", "cpu", INFO))
    for number in range(10 * NAMES_KEPT):
        stock.apply(ModelFailed(f"../{number}", "cpu", ErrorInfo("model_not_found")))
    known = [number for number in range(10 * NAMES_KEPT) if stock.get(f"../{number}", "cpu").state == "failed"]
    assert known == list(range(9 * NAMES_KEPT + 1, 10 * NAMES_KEPT))
    assert stock.get("good", "cpu").state == "ready"


def test_every_waiter_hears_something() -> None:
    questions, array = Questions(), np.arange(6, dtype=np.float32).reshape(2, 3)
    with questions.expecting("1") as answer:
        questions.answer(Answered("1", dtype="float32", dims=(2, 3)), array.tobytes())
        np.testing.assert_array_equal(answer(1.0), array)
    with questions.expecting("2") as answer:
        questions.answer(Answered("2", OutOfRange(field="layer", value=9, count=3).info), b"")
        with pytest.raises(OutOfRange) as caught:
            answer(1.0)
    assert caught.value.params == {"field": "layer", "value": 9, "count": 3}
    with questions.expecting("3") as answer, pytest.raises(EngineUnavailable):
        answer(0.01)
    questions.answer(Answered("3", text="too late"), b"")
    with questions.expecting("4") as answer:
        questions.fail(EngineLost(exit_code=-9).info)
        with pytest.raises(EngineLost):
            answer(1.0)
    with questions.expecting("5") as answer:
        questions.answer(Answered("5", ErrorInfo("of_tomorrow")), b"")
        with pytest.raises(RemoteError) as unknown:
            answer(1.0)
    assert unknown.value.code == "of_tomorrow"
