"""Branches as the app asks for them, without a process: what is sent and in which order, what is refused, and that a refusal changes
nothing."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from engine.errors import EngineError, InvalidSetting, LoneSurrogate, NotYours, OutOfRange, RunUnknown, TooManyRuns, Unwatched
from engine.serve.book import LIVE_BRANCHES
from engine.serve.client import EngineClient
from engine.serve.protocol import Branched, Message, Prefilled, StatusChanged, Steer, Stepped, Submit, Tokenized
from engine.settings import Settings
from engine.trace import Origin, RunSettings, RunStatus, StopReason
from tests.exam import until
from tests.samples import INFO, PREFILL, step, token
from tests.solo import hear, pretend

VOCABULARY = INFO.shape.vocab_size


@pytest.fixture
def posted(monkeypatch: pytest.MonkeyPatch) -> list[Message]:
    return pretend(monkeypatch)


@pytest.fixture
def client(posted: list[Message], tmp_path: Path) -> Iterator[EngineClient]:
    made = EngineClient(Settings(home=tmp_path, lease_s=600.0, kept_runs=20))
    made.start()
    yield made
    made.close()


def written(client: EngineClient, steps: int = 4, **settings: object) -> tuple[str, str]:
    """A run that is going on and has written one token and so many more."""
    ticket = client.submit("why?", RunSettings(max_new_tokens=9, **settings), model="m", device="cpu", session="s", pace_s=0.5)
    hear(client, StatusChanged(ticket.run_id, RunStatus.RUNNING))
    hear(client, Tokenized(ticket.run_id, INFO, (token(0), token(1), token(2))))
    hear(client, Prefilled(ticket.run_id, PREFILL))
    for index in range(1, steps + 1):
        hear(client, Stepped(ticket.run_id, step(index)))
    return ticket.run_id, ticket.key


def test_a_branch_is_a_run_of_its_own_with_the_same_key(client: EngineClient, posted: list[Message]) -> None:
    run_id, key = written(client, power_cut_at=3, seed=5)
    before = time.perf_counter()
    ticket = client.branch(run_id, key, 2, 7, session="other", pace_s=0.1)
    assert ticket.key == key
    assert ticket.run_id != run_id
    assert client.can_steer(ticket.run_id, key)
    pause, command = posted[-2:]
    assert pause == Steer(run_id, "pause")
    assert isinstance(command, Submit)
    assert (command.run_id, command.session, command.model, command.device, command.prompt) == (ticket.run_id, "other", "m", "cpu", "why?")
    assert (command.play, command.pace_s) == (True, 0.1)
    assert command.settings == RunSettings(max_new_tokens=9, seed=5), "the power is back"
    assert command.submitted_at is not None
    assert before <= command.submitted_at <= time.perf_counter()
    stem = command.stem
    assert stem is not None
    assert (stem.run_id, stem.index, stem.token_id, len(stem.steps)) == (run_id, 2, 7, 2)


def test_where_steps_still_come_in_each_run_keeps_its_own(client: EngineClient) -> None:
    """The engine writes two more while the click is on its way."""
    run_id, key = written(client)
    branch = client.branch(run_id, key, 3, 7, session="s").run_id

    async def read(frames: AsyncIterator[str], count: int) -> list[dict]:
        return [json.loads(await asyncio.wait_for(anext(frames), 2.0)) for _ in range(count)]

    async def watch() -> tuple[list[dict], list[dict], list[dict]]:
        early, parent = client.stream(branch), client.stream(run_id)
        first, theirs = await read(early, 1), await read(parent, 1)
        for index in (5, 6):
            hear(client, Stepped(run_id, step(index)))
        hear(client, Branched(branch, Origin(run_id, 3, token(6), 0.5)))
        hear(client, Stepped(branch, step(3)))
        hear(client, StatusChanged(run_id, RunStatus.PAUSED))
        late = client.stream(branch)
        second = await read(late, 1)
        hear(client, Stepped(branch, step(4)))
        return first + await read(early, 3), second + await read(late, 1), theirs + await read(parent, 3)

    first, second, theirs = asyncio.run(watch())
    assert [one["type"] for one in first] == ["snapshot", "branched", "stepped", "stepped"]
    assert ([one["index"] for one in first[0]["steps"]], first[0]["origin"]["reread_s"]) == ([1, 2], None)
    assert (first[1]["origin"]["reread_s"], [one["step"]["index"] for one in first[2:]]) == (0.5, [3, 4])
    assert ([one["index"] for one in second[0]["steps"]], second[0]["origin"]["reread_s"]) == ([1, 2, 3], 0.5)
    assert second[1]["step"]["index"] == 4
    assert [one["index"] for one in theirs[0]["steps"]] == [1, 2, 3, 4]
    assert [one["type"] for one in theirs[1:]] == ["stepped", "stepped", "status"]


def test_a_run_that_has_ended_is_left_as_it_is(client: EngineClient, posted: list[Message]) -> None:
    run_id, key = written(client)
    hear(client, StatusChanged(run_id, RunStatus.ENDED, StopReason.LENGTH))
    client.branch(run_id, key, 0, 7, session="s")
    assert [message for message in posted if isinstance(message, Steer)] == []
    client.branch(run_id, key, 4, VOCABULARY - 1, session="s", play=False)
    view = client.view(run_id)
    assert view is not None
    assert (view.status, view.stop_reason, len(view.steps)) == (RunStatus.ENDED, StopReason.LENGTH, 4)


@pytest.mark.parametrize(
    ("changes", "error", "field"),
    [
        ({"index": -1}, OutOfRange, "index"),
        ({"index": 5}, OutOfRange, "index"),
        ({"index": 2**40}, OutOfRange, "index"),
        ({"index": 1.0}, InvalidSetting, "index"),
        ({"index": True}, InvalidSetting, "index"),
        ({"token_id": -1}, OutOfRange, "token_id"),
        ({"token_id": VOCABULARY}, OutOfRange, "token_id"),
        ({"token_id": 2**60}, OutOfRange, "token_id"),
        ({"token_id": 2**200}, OutOfRange, "token_id"),
        ({"token_id": "7"}, InvalidSetting, "token_id"),
        ({"pace_s": -1.0}, InvalidSetting, "pace_s"),
        ({"pace_s": float("nan")}, InvalidSetting, "pace_s"),
        ({"session": "\ud800"}, LoneSurrogate, None),
        ({"key": None}, NotYours, None),
        ({"key": "x"}, NotYours, None),
        ({"run_id": "nobody"}, RunUnknown, None),
    ],
)
def test_a_refusal_leaves_everything_as_it_was(
    client: EngineClient, posted: list[Message], changes: dict[str, object], error: type[EngineError], field: str | None
) -> None:
    run_id, key = written(client)
    before, sent = client.view(run_id), len(posted)
    asked = {"run_id": run_id, "key": key, "index": 2, "token_id": 7, "session": "s"} | changes
    with pytest.raises(error) as caught:
        client.branch(**asked)
    assert caught.value.params.get("field") == field
    assert len(posted) == sent
    assert client.view(run_id) is before
    assert client.family(run_id) == (before,)


def test_no_branch_leaves_a_run_that_has_written_nothing(client: EngineClient) -> None:
    ticket = client.submit("why?", RunSettings(), model="m", session="s")
    with pytest.raises(OutOfRange):
        client.branch(ticket.run_id, ticket.key, 0, 0, session="s")
    run_id, key = written(client)
    branch = client.branch(run_id, key, 2, 7, session="s")
    with pytest.raises(OutOfRange):  # that token is still to come
        client.branch(branch.run_id, key, 2, 8, session="s")
    assert client.branch(branch.run_id, key, 1, 8, session="s")


def test_a_full_book_refuses_and_pauses_nobody(client: EngineClient, posted: list[Message]) -> None:
    run_id, key = written(client)
    for _ in range(19):
        client.submit("why?", RunSettings(), model="m", session="s")
    sent = len(posted)
    with pytest.raises(TooManyRuns):
        client.branch(run_id, key, 2, 7, session="s")
    assert len(posted) == sent


def test_a_family_is_wanted_together_and_given_up_together(posted: list[Message], tmp_path: Path) -> None:
    client = EngineClient(Settings(home=tmp_path, lease_s=0.3))
    client.start()
    try:
        run_id, key = written(client)
        branch = client.branch(run_id, key, 2, 7, session="s").run_id
        given_up = [Steer(run_id, "cancel", error=Unwatched().info), Steer(branch, "cancel", error=Unwatched().info)]

        async def watch() -> None:
            frames = client.stream(branch)
            await asyncio.wait_for(anext(frames), 2.0)
            await asyncio.sleep(1.0)
            assert not [one for one in given_up if one in posted]
            await frames.aclose()

        asyncio.run(watch())
        until(lambda: all(one in posted for one in given_up), 10.0)
        assert [view.run_id for view in client.family(branch)] == [run_id, branch]
    finally:
        client.close()


def test_not_too_many_branches_of_a_run_can_go_on(posted: list[Message], tmp_path: Path) -> None:
    """However quick the clicks are: no lease has to run out first."""
    client = EngineClient(Settings(home=tmp_path, lease_s=600.0))

    def stopped() -> list[Message]:
        return [message for message in posted if isinstance(message, Steer) and message.action == "stop"]

    run_id, key = written(client)
    made = [client.branch(run_id, key, 2, number, session="s").run_id for number in range(LIVE_BRANCHES - 1)]
    assert stopped() == []
    last = client.branch(run_id, key, 2, 70, session="s").run_id
    assert stopped() == [Steer(made[0], "stop", error=Unwatched().info)]
    hear(client, StatusChanged(made[0], RunStatus.ENDED, StopReason.STOPPED, Unwatched().info))
    client.branch(last, key, 1, 7, session="s")
    assert stopped()[1:] == [Steer(made[1], "stop", error=Unwatched().info)]
    live = [view.run_id for view in client.family(run_id) if view.status is not RunStatus.ENDED]
    assert len(live) == LIVE_BRANCHES + 1, "and one of these has been told to stop"
