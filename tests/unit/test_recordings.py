"""A record in the app's book: all of it at once, ended, bounded, and nothing can be asked of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import replace

import msgspec
import pytest

from engine import codec
from engine.errors import NotRecorded, TooManyRuns
from engine.serve.book import RECORDINGS_SHARE, WEIGHT_KEPT, Book
from engine.serve.client import EngineClient
from engine.serve.protocol import Snapshot, StatusChanged, Submit
from engine.settings import Settings
from engine.trace import RunStatus, StopReason
from tests.hall import Clock
from tests.hostile_files import GOOD
from tests.ledger import command, end, written

RECORD = codec.load_record(GOOD)


class Silent:
    """A keeper whose engine must hear nothing."""

    number = 0

    def post(self, message: bytes, sent: object = None) -> None:
        raise AssertionError(f"the engine was told {message!r}")

    def close(self) -> None:
        pass


@pytest.fixture
def client() -> EngineClient:
    """One that was never started: there is no engine process."""
    client = EngineClient(Settings.from_env())
    client._keeper = Silent()  # type: ignore[assignment]
    return client


def test_a_recording_is_a_run_that_has_ended(client: EngineClient) -> None:
    run_id, key = client.file_record(RECORD, session="s")
    view = client.view(run_id)
    assert view is not None
    assert (view.status, view.recording, view.stop_reason) == (RunStatus.ENDED, True, RECORD.stop_reason)
    assert (view.prompt, view.settings, view.model, view.created) == (RECORD.prompt, RECORD.settings, RECORD.model, RECORD.created)
    assert (view.tokens, view.prefill, view.steps) == (RECORD.tokens, RECORD.prefill, RECORD.steps)
    assert client.can_steer(run_id, key)
    assert not client.can_steer(run_id, "another")
    other, _ = client.file_record(RECORD, session="s")
    assert other != run_id, "each time a run of its own"


def test_what_the_browser_gets_is_what_was_recorded(client: EngineClient) -> None:
    run_id, _ = client.file_record(RECORD, session="s")

    async def first_frame() -> str:
        async with aclosing(client.stream(run_id)) as frames:  # type: ignore[type-var]
            return await anext(frames)

    snapshot = msgspec.json.decode(asyncio.run(first_frame()), type=Snapshot)
    assert (snapshot.tokens, snapshot.prefill, snapshot.steps) == (RECORD.tokens, RECORD.prefill, RECORD.steps)


LOOKS: dict[str, Callable[[EngineClient, str], object]] = {
    "attention": lambda client, run: client.attention(run, 0),
    "links": lambda client, run: client.links(run, 1, 0),
    "lens": lambda client, run: client.lens(run),
    "cell": lambda client, run: client.cell(run, 0, 0),
    "stages": lambda client, run: client.stages(run, 0),
}


@pytest.mark.parametrize("look", LOOKS)
def test_a_look_into_what_is_not_there_is_refused_at_once(client: EngineClient, look: str) -> None:
    run_id, _ = client.file_record(RECORD, session="s")
    with pytest.raises(NotRecorded):
        LOOKS[look](client, run_id)


def test_nobody_branches_or_steers_a_recording(client: EngineClient) -> None:
    run_id, key = client.file_record(RECORD, session="s")
    with pytest.raises(NotRecorded):
        client.branch(run_id, key, 1, 5, session="s")
    assert client.family(run_id) == (client.view(run_id),), "nothing has happened"
    for action in ("play", "pause", "step", "stop"):
        client.steer(run_id, key, action)
    view = client.view(run_id)
    assert view is not None
    assert view.stop_reason == RECORD.stop_reason


def test_nobody_tells_the_engine_that_it_is_unwatched() -> None:
    clock = Clock(0.0)
    book = Book(kept_runs=4, lease_s=6.0, clock=clock)
    book.add(command("r"), "key", record=RECORD)
    clock.now = 100.0
    assert book.unwanted() == []
    book.lose(0, -9)
    book.apply(StatusChanged("r", RunStatus.RUNNING))
    view = book.view("r")
    assert view is not None
    assert (view.status, view.error) == (RunStatus.ENDED, None)


def test_recordings_are_bounded_like_other_runs_and_drop_no_live_one() -> None:
    book = Book(kept_runs=4, lease_s=6.0)
    book.add(command("live"), "key")
    for name in "abc":
        book.add(command(name), "key", record=RECORD)
    assert [bool(book.view(name)) for name in ("live", "a", "b", "c")] == [True, False, True, True]
    for name in ("d", "e", "f"):
        book.add(command(name), "key")
    assert [bool(book.view(name)) for name in ("live", "d", "e", "f", "b", "c")] == [True, True, True, True, False, False]
    with pytest.raises(TooManyRuns):
        book.add(command("g"), "key", record=RECORD)
    end(book, "d")


def brought_by(session: str, run_id: str) -> Submit:
    return msgspec.structs.replace(command(run_id), session=session)


def test_one_readers_files_push_out_their_own_and_never_more_than_a_share_of_the_others() -> None:
    book = Book(kept_runs=8, lease_s=6.0)
    for name in "abcd":
        book.add(command(name), "key")
        end(book, name)
    book.add(brought_by("other", "theirs"), "key", record=RECORD)
    for number in range(20):
        book.add(brought_by("s", f"r{number}"), "key", record=RECORD)
    assert all(book.view(name) for name in ("a", "b", "c", "d", "theirs")), "half of the room is theirs"
    assert [number for number in range(20) if book.view(f"r{number}")] == [17, 18, 19]


def test_a_long_question_without_an_answer_weighs_as_much_as_it_holds() -> None:
    question = tuple(replace(RECORD.tokens[0], position=at) for at in range(60_000))
    silent = replace(RECORD, tokens=question, prefill=None, steps=())
    book = Book(kept_runs=256, lease_s=6.0)
    book.add(command("ended"), "key")
    end(book, "ended")
    for number in range(20):
        entry = book.add(brought_by(f"s{number}", f"r{number}"), "key", record=silent)
        assert entry.weight == 60_000
    kept = [number for number in range(20) if book.view(f"r{number}")]
    assert len(kept) * 60_000 <= WEIGHT_KEPT * RECORDINGS_SHARE
    assert kept == list(range(14, 20)), "the oldest files leave first"
    assert book.view("ended") is not None


def test_candidates_weigh_too() -> None:
    book = Book(kept_runs=8, lease_s=6.0)
    candidates = sum(len(trace.candidates) for trace in (RECORD.prefill, *RECORD.steps) if trace is not None)
    assert candidates > 100
    assert book.add(command("r"), "key", record=RECORD).weight == len(RECORD.tokens) + len(RECORD.generated) + candidates
    assert written(book, "live", 2).weight == 3 + 1 + 2


def test_an_unfinished_record_counts_as_stopped() -> None:
    book = Book(kept_runs=3, lease_s=6.0)
    view = book.add(command("r"), "key", record=replace(RECORD, stop_reason=None)).snapshot()
    assert (view.status, view.stop_reason) == (RunStatus.ENDED, StopReason.STOPPED)
