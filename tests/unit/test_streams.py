"""The app's client without a process: what watchers get, and leases."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from engine import codec
from engine.errors import (
    ErrorInfo,
    RunUnknown,
)
from engine.serve.client import EngineClient
from engine.serve.protocol import Message, StatusChanged, Steer, Stepped
from engine.serve.watcher import FRAMES_WAITING
from engine.settings import Settings
from engine.trace import RunStatus, StopReason
from tests.exam import until
from tests.samples import step
from tests.solo import hear, pretend, submit


async def read(frames: AsyncIterator[str], count: int) -> list[str]:
    return [await asyncio.wait_for(anext(frames), 2.0) for _ in range(count)]


@pytest.fixture
def posted(monkeypatch: pytest.MonkeyPatch) -> list[Message]:
    return pretend(monkeypatch)


@pytest.fixture
def client(posted: list[Message], tmp_path: Path) -> Iterator[EngineClient]:
    made = EngineClient(Settings(home=tmp_path, lease_s=0.2))
    made.start()
    yield made
    made.close()


def test_each_watcher_gets_each_step_once_and_in_order_also_a_late_one(client: EngineClient) -> None:
    run_id, _ = submit(client)

    async def watch() -> tuple[list[str], list[str]]:
        early = client.stream(run_id)
        first = await read(early, 1)
        for index in (1, 2, 3):
            hear(client, Stepped(run_id, step(index)))
        late = client.stream(run_id)
        second = await read(late, 1)
        for index in (4, 5):
            hear(client, Stepped(run_id, step(index)))
        hear(client, StatusChanged(run_id, RunStatus.ENDED, StopReason.LENGTH))
        first, second = first + await read(early, 6), second + await read(late, 3)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.shield(asyncio.ensure_future(anext(late))), 0.05)  # open, and nothing twice
        client.close()
        return first, second

    first, second = asyncio.run(watch())
    kinds = [json.loads(frame)["type"] for frame in first]
    assert kinds == ["snapshot", *["stepped"] * 5, "status"]
    assert [json.loads(frame)["step"]["index"] for frame in first[1:6]] == [1, 2, 3, 4, 5]
    snapshot = json.loads(second[0])
    assert ([one["index"] for one in snapshot["steps"]], snapshot["max_new_tokens"]) == ([1, 2, 3], 9)
    assert all(mine is theirs for mine, theirs in zip(first[4:], second[1:], strict=True)), "encoded once for all"


def test_frames_are_the_engines_own_bytes(client: EngineClient) -> None:
    run_id, _ = submit(client)

    async def watch() -> str:
        frames = client.stream(run_id)
        await read(frames, 1)
        hear(client, Stepped(run_id, step(1)))
        return (await read(frames, 1))[0]

    assert asyncio.run(watch()) == codec.dump(Stepped(run_id, step(1))).decode()


def test_a_browser_that_falls_far_behind_gets_a_new_snapshot(client: EngineClient) -> None:
    run_id, _ = submit(client)

    async def watch() -> tuple[list[str], list[str]]:
        frames = client.stream(run_id)
        await read(frames, 1)
        for index in range(1, FRAMES_WAITING + 50):
            hear(client, Stepped(run_id, step(index)))
        again = await read(frames, 1)
        hear(client, Stepped(run_id, step(FRAMES_WAITING + 50)))
        return again, await read(frames, 1)

    again, following = asyncio.run(watch())
    assert len(json.loads(again[0])["steps"]) == FRAMES_WAITING + 49
    assert json.loads(following[0])["step"]["index"] == FRAMES_WAITING + 50


def test_an_open_stream_holds_the_lease_and_its_end_lets_it_run_out(client: EngineClient, posted: list[Message]) -> None:
    run_id, _ = submit(client)
    cancelled = Steer(run_id, "cancel", error=ErrorInfo("unwatched"))

    async def watch() -> None:
        frames = client.stream(run_id)
        await read(frames, 1)
        await asyncio.sleep(0.5)
        assert cancelled not in posted
        await frames.aclose()
        assert cancelled not in posted

    asyncio.run(watch())
    until(lambda: cancelled in posted, 10.0)
    assert posted.count(cancelled) == 1


def test_a_run_that_has_ended_is_told_to_let_go_of_its_memory(client: EngineClient, posted: list[Message]) -> None:
    run_id, _ = submit(client)
    hear(client, StatusChanged(run_id, RunStatus.ENDED, StopReason.EOS))
    until(lambda: Steer(run_id, "cancel", error=ErrorInfo("unwatched")) in posted, 10.0)
    assert posted.count(Steer(run_id, "cancel", error=ErrorInfo("unwatched"))) == 1
    view = client.view(run_id)
    assert view is not None
    assert view.stop_reason is StopReason.EOS


def test_streaming_an_unknown_run_says_so(client: EngineClient) -> None:
    async def watch() -> None:
        await anext(client.stream("nobody"))

    with pytest.raises(RunUnknown):
        asyncio.run(watch())
