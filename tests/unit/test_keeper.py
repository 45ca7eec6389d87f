"""When engine processes come and go: order of messages, restarts, patience. With processes that only pretend."""

from __future__ import annotations

import queue
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from engine.serve import keeper as keeper_module
from engine.serve.keeper import Garbled, Keeper
from engine.settings import Settings
from tests.exam import until


class FakeLink:
    """A process that lives until it is ended; `stillborn` ones never come up. All that were made are in `made`."""

    made: list[FakeLink]
    stillborn = False
    ended = False
    pid = 7

    def __init__(self, settings: Settings) -> None:
        self.sent: list[bytes] = []
        self.began_at = time.monotonic()
        self._inbox: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self.made.append(self)

    def open(self) -> None:
        if self.stillborn:
            raise EOFError

    def send(self, data: bytes) -> None:
        self.sent.append(data)

    def receive(self) -> bytes:
        data = self._inbox.get()
        if data is None:
            raise EOFError
        return data

    def put(self, data: bytes) -> None:
        self._inbox.put(data)

    def end(self) -> int:
        self.ended = True
        self._inbox.put(None)
        return -9


@pytest.fixture
def links(monkeypatch: pytest.MonkeyPatch) -> list[FakeLink]:
    made: list[FakeLink] = []
    monkeypatch.setattr(FakeLink, "made", made, raising=False)
    monkeypatch.setattr(keeper_module, "Link", FakeLink)
    return made


@pytest.fixture
def keeper(links: list[FakeLink], tmp_path: Path) -> Iterator[Keeper]:
    made = Keeper(Settings(home=tmp_path), lambda data, more: None, lambda number, code: [b"again after %d" % number])
    yield made
    made.close()


def until_ready(keeper: Keeper, number: int) -> None:
    for _ in range(1000):
        if keeper.number == number and keeper.status().state == "ready":
            return
        time.sleep(0.005)
    raise AssertionError(keeper.status())


def test_what_is_posted_early_waits_in_order_and_knows_its_process(keeper: Keeper, links: list[FakeLink]) -> None:
    went: list[int] = []
    keeper.post(b"1", went.append)
    keeper.post(b"2")
    assert (keeper.status().state, went) == ("starting", [])
    keeper.start()
    until_ready(keeper, 0)
    keeper.post(b"3", went.append)
    assert links[0].sent == [b"1", b"2", b"3"]
    assert went == [0, 0]


def test_a_dead_process_is_replaced_at_once_and_hears_first_what_it_must(keeper: Keeper, links: list[FakeLink]) -> None:
    keeper.start()
    until_ready(keeper, 0)
    died_at = time.monotonic()
    links[0].end()
    until_ready(keeper, 1)
    assert time.monotonic() - died_at < 0.9
    keeper.post(b"new")
    assert links[1].sent == [b"again after 0", b"new"]
    assert keeper.status().restarts == 1


def test_one_message_that_cannot_be_handled_costs_neither_thread_nor_process(
    links: list[FakeLink], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[bytes] = []

    def receive(data: bytes, more: object) -> None:
        heard.append(data)
        if data == b"bad":
            raise ZeroDivisionError("a message of ours")

    keeper = Keeper(Settings(home=tmp_path), receive, lambda number, code: [])
    keeper.start()
    until_ready(keeper, 0)
    for message in (b"bad", b"good"):
        links[0].put(message)
    until(lambda: heard == [b"bad", b"good"], 5.0)
    assert (keeper.status().state, len(links)) == ("ready", 1)
    assert "ZeroDivisionError: a message of ours" in caplog.text
    keeper.close()


def test_a_garbled_message_ends_its_process_and_the_next_one_comes(
    links: list[FakeLink], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def receive(data: bytes, more: object) -> None:
        raise Garbled

    def lost(number: int, exit_code: int) -> list[bytes]:
        raise LookupError("nor is this the end of the thread")

    keeper = Keeper(Settings(home=tmp_path), receive, lost)
    keeper.start()
    until_ready(keeper, 0)
    links[0].put(b"\xff")
    until_ready(keeper, 1)
    assert links[0].ended, "no engine is left behind that nobody listens to"
    assert "Garbled" in caplog.text
    assert "LookupError" in caplog.text
    keeper.close()


def test_processes_that_die_at_once_are_given_more_and_more_time(
    keeper: Keeper, links: list[FakeLink], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeLink, "stillborn", True)
    keeper.start()
    time.sleep(0.1)
    assert keeper.status().state == "restarting"
    until(lambda: len(links) >= 4, 30.0)
    waits = [later.began_at - sooner.began_at for sooner, later in pairwise(links)]
    assert all(wait >= least for wait, least in zip(waits, [0.0, 0.95, 1.95], strict=True)), waits
    closing_at = time.monotonic()
    keeper.close()
    assert time.monotonic() - closing_at < 2.0, "patience does not hold up the end"
    assert keeper.status().state == "closed"
    assert len(links) == 4
