"""What the app keeps of a run and its branches: nothing lost, nothing twice, wanted together."""

from __future__ import annotations

import asyncio

import pytest

from engine import codec
from engine.errors import TooManyRuns
from engine.serve.book import LIVE_BRANCHES, Book
from engine.serve.protocol import Branched, Glanced, Prefilled, Stepped
from engine.trace import Origin
from tests.hall import Clock
from tests.ledger import branch, command, end, tell, written
from tests.samples import INFO, PREFILL, step, token


@pytest.fixture
def clock() -> Clock:
    return Clock(0.0)


@pytest.fixture
def book(clock: Clock) -> Book:
    return Book(kept_runs=4, lease_s=6.0, clock=clock)


@pytest.mark.parametrize("index", [0, 1, 3, 5])
def test_a_branch_begins_with_all_that_was_written_before_it(book: Book, index: int) -> None:
    left = written(book, "r", 5)
    entry = branch(book, left, "b", index)
    tell(book, Stepped("r", step(6)))
    view = book.view("b")
    assert view is not None
    assert (view.tokens, view.model) == (left.tokens, INFO)
    assert len(view.generated) == index
    assert view.prefill is (PREFILL if index else None)
    assert [one.index for one in view.steps] == list(range(1, index))
    assert view.origin == Origin("r", index, left.snapshot().generated[index])
    assert entry.command.stem is None, "it would keep the steps of a record that has left"
    found = Origin("r", index, token(3 + index), 0.25)
    own = Prefilled("b", PREFILL) if index == 0 else Stepped("b", step(index))
    for message in (Branched("b", found), own, Stepped("b", step(index + 1))):
        tell(book, message)
    view = book.view("b")
    assert view is not None
    assert view.origin == found
    assert [one.index for one in view.steps] == list(range(1, index + 2)), "nothing lost, nothing twice"
    assert len(left.snapshot().steps) == 6


def test_a_family_stands_in_the_order_in_which_it_was_made(book: Book) -> None:
    root = written(book, "root", 3)
    first = branch(book, root, "first", 2)
    tell(book, Branched("first", Origin("root", 2, token(5))))
    tell(book, Stepped("first", step(2)))
    branch(book, first, "second", 1)
    book.add(command("stranger"), "key")
    end(book, "root")  # the book itself now has it last
    for run_id in ("root", "first", "second"):
        assert [view.run_id for view in book.family(run_id)] == ["root", "first", "second"]
    assert [view.run_id for view in book.family("stranger")] == ["stranger"]
    assert book.family("nobody") == ()


def test_what_has_left_the_book_is_absent_from_its_family(book: Book) -> None:
    root = written(book, "root", 3)
    first = branch(book, root, "first", 2)
    branch(book, first, "second", 1)
    end(book, "root")
    for name in "ab":
        book.add(command(name), "key")
    assert [view.run_id for view in book.family("first")] == ["first", "second"]
    assert book.family("root") == ()
    with pytest.raises(TooManyRuns):
        branch(book, first, "third", 1)


def test_one_branch_that_is_wanted_keeps_its_whole_family(book: Book, clock: Clock) -> None:
    root = written(book, "root", 3)
    branch(book, root, "first", 2)
    branch(book, root, "second", 2)
    book.add(command("stranger"), "key")
    for now in (5.0, 10.0, 15.0):
        clock.now = now
        book.touch("second")
        assert set(book.unwanted()) <= {"stranger"}
    clock.now = 21.5
    assert sorted(book.unwanted()) == ["first", "root", "second"]
    assert book.unwanted() == []


def test_an_ended_branch_keeps_its_family_too(book: Book, clock: Clock) -> None:
    root = written(book, "root", 3)
    branch(book, root, "first", 2)
    end(book, "first")
    clock.now = 5.0
    book.touch("first")
    clock.now = 10.0
    assert book.unwanted() == []
    clock.now = 12.0
    assert sorted(book.unwanted()) == ["first", "root"]


def test_the_oldest_branches_that_nobody_watches_make_room(clock: Clock) -> None:
    book = Book(kept_runs=100, lease_s=6.0, clock=clock)
    root = written(book, "root", 3)
    made = [branch(book, root, str(number), 2) for number in range(LIVE_BRANCHES - 1)]
    assert book.crowded_out(made[-1], root) == []
    made += [branch(book, root, str(number), 2) for number in range(LIVE_BRANCHES - 1, LIVE_BRANCHES + 2)]
    assert book.crowded_out(made[-1], root) == ["0", "1", "2"], "quick clicks count at once; what was left stays"
    assert book.crowded_out(made[-1], made[0]) == ["root", "1", "2"]
    clock.now = 1.0
    book.touch("1")  # by a page whose channel is closed
    assert book.crowded_out(made[-1], root) == ["0", "2", "3"]
    for name in ("0", "2", "3"):
        end(book, name)
    assert book.crowded_out(made[-1], root) == []


def test_neither_what_is_watched_nor_what_is_on_the_screen_makes_room(book: Book) -> None:
    book = Book(kept_runs=100, lease_s=6.0, clock=Clock(0.0))
    root = written(book, "root", 3)
    made = [branch(book, root, str(number), 2) for number in range(LIVE_BRANCHES + 1)]
    stranger = written(book, "stranger", 3)

    async def watch() -> None:
        watchers = [book.watch(str(number)) for number in range(LIVE_BRANCHES - 1)]
        assert book.crowded_out(made[-1], root) == [str(LIVE_BRANCHES - 1)], "one is free to go, where two had better"
        assert book.crowded_out(made[-1], made[-2]) == ["root"]
        book.unwatch(watchers[3])
        assert set(book.crowded_out(made[-1], root)) == {"3", str(LIVE_BRANCHES - 1)}

    asyncio.run(watch())
    assert book.crowded_out(stranger, stranger) == []


def test_a_glance_is_passed_on_and_not_kept(book: Book) -> None:
    written(book, "r", 2)
    before = book.view("r")

    async def watch() -> list[str]:
        watcher = book.watch("r")
        book.take(watcher)
        tell(book, Glanced("r", 2, b"\0\0\x80?"))
        return book.take(watcher)

    assert asyncio.run(watch()) == [codec.dump(Glanced("r", 2, b"\0\0\x80?")).decode()]
    assert book.view("r") is before
    end(book, "r")
    tell(book, Glanced("r", 2, b""))
