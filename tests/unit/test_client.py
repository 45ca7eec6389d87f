"""The app's client without a process: streams, leases, and who may steer."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from engine import codec
from engine.errors import (
    EngineUnavailable,
    InvalidSetting,
    LoneSurrogate,
    NotYours,
    RunFreed,
    RunUnknown,
)
from engine.serve import client as client_module
from engine.serve.client import EngineClient, EngineStatus
from engine.serve.protocol import (
    Message,
    StatusChanged,
    Steer,
    Stepped,
    Submit,
    read_command,
)
from engine.serve.watcher import FRAMES_WAITING
from engine.settings import Settings
from engine.trace import RunSettings, RunStatus, StopReason
from tests.samples import step

ROOT = Path(__file__).resolve().parents[2]


async def read(frames: AsyncIterator[str], count: int) -> list[str]:
    return [await asyncio.wait_for(anext(frames), 2.0) for _ in range(count)]


@pytest.fixture
def posted(monkeypatch: pytest.MonkeyPatch) -> list[Message]:
    """What clients send; no process is started."""
    messages: list[Message] = []

    class FakeKeeper:
        number = 0

        def __init__(self, settings: Settings, receive: Callable[..., None], lost: Callable[..., list[bytes]]) -> None:
            self.receive, self.lost = receive, lost

        def start(self) -> None: ...

        def close(self) -> None: ...

        def status(self) -> EngineStatus:
            return EngineStatus("ready", 1, self.number)

        def post(self, message: bytes, sent: Callable[[int], None] | None = None) -> None:
            messages.append(read_command(message))
            if sent:
                sent(self.number)

    monkeypatch.setattr(client_module, "Keeper", FakeKeeper)
    return messages


@pytest.fixture
def client(posted: list[Message], tmp_path: Path) -> Iterator[EngineClient]:
    made = EngineClient(Settings(home=tmp_path, lease_s=0.2))
    made.start()
    yield made
    made.close()


def hear(client: EngineClient, message: Message, more: bytes = b"") -> None:
    client._keeper.receive(codec.dump(message), lambda: more)


def submit(client: EngineClient, **changes: object) -> tuple[str, str]:
    ticket = client.submit("why?", RunSettings(max_new_tokens=9), **{"model": "m", "session": "s"} | changes)
    return ticket.run_id, ticket.key


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
    cancelled = Steer(run_id, "cancel")

    async def watch() -> None:
        frames = client.stream(run_id)
        await read(frames, 1)
        await asyncio.sleep(0.5)
        assert cancelled not in posted
        await frames.aclose()
        assert cancelled not in posted
        await asyncio.sleep(0.5)

    asyncio.run(watch())
    assert posted.count(cancelled) == 1


def test_a_run_that_has_ended_is_told_to_let_go_of_its_memory(client: EngineClient, posted: list[Message]) -> None:
    run_id, _ = submit(client)
    hear(client, StatusChanged(run_id, RunStatus.ENDED, StopReason.EOS))

    async def wait() -> None:
        await asyncio.sleep(0.5)

    asyncio.run(wait())
    assert posted.count(Steer(run_id, "cancel")) == 1
    view = client.view(run_id)
    assert view is not None
    assert view.stop_reason is StopReason.EOS


def test_streaming_an_unknown_run_says_so(client: EngineClient) -> None:
    async def watch() -> None:
        await anext(client.stream("nobody"))

    with pytest.raises(RunUnknown):
        asyncio.run(watch())


# steering


def test_only_the_key_steers(client: EngineClient, posted: list[Message]) -> None:
    run_id, key = submit(client)
    other_id, other_key = submit(client)
    assert len({run_id, key, other_id, other_key}) == 4
    assert min(len(run_id), len(key)) >= 22, "128 random bits"
    for wrong in (None, "", other_key, run_id, key + "x", "钥匙", "\ud800"):
        assert not client.can_steer(run_id, wrong)
        with pytest.raises(NotYours):
            client.steer(run_id, wrong, "stop")
    assert client.can_steer(run_id, key)
    assert not client.can_steer("nobody", key)
    with pytest.raises(RunUnknown):
        client.steer("nobody", key, "stop")
    client.steer(run_id, key, "play", 0.5)
    assert [message for message in posted if isinstance(message, Steer)] == [Steer(run_id, "play", 0.5)]


def test_an_ended_run_can_only_be_cancelled(client: EngineClient, posted: list[Message]) -> None:
    run_id, key = submit(client)
    hear(client, StatusChanged(run_id, RunStatus.ENDED, StopReason.EOS))
    for action in ("play", "pause", "step", "stop", "cancel"):
        client.steer(run_id, key, action)
    assert [message for message in posted if isinstance(message, Steer)] == [Steer(run_id, "cancel")]


def test_what_cannot_be_sent_is_refused_at_the_border(client: EngineClient, posted: list[Message]) -> None:
    with pytest.raises(LoneSurrogate) as caught:
        client.submit("ab\ud800", RunSettings(), model="m", session="s")
    assert caught.value.params == {"position": 2}
    with pytest.raises(LoneSurrogate):
        client.submit("ab", RunSettings(system_prompt="\udfff"), model="m", session="s")
    for pace_s in (-1.0, float("nan"), float("inf")):
        with pytest.raises(InvalidSetting):
            submit(client, pace_s=pace_s)
    with pytest.raises(LoneSurrogate):
        client.load_model("\ud800")
    with pytest.raises(TypeError):
        client.submit("ab", RunSettings(seed=np.int64(3)), model="m", session="s")
    with pytest.raises(TypeError):
        client.attention(submit(client)[0], np.int64(1), None)
    assert [type(message) for message in posted] == [Submit]
    assert len(client._book._entries) == 1


def test_a_message_that_cannot_be_read_ends_its_run(client: EngineClient, posted: list[Message]) -> None:
    run_id, _ = submit(client)
    hear(client, Stepped(run_id, step(1)))
    broken = codec.dump(Stepped(run_id, step(2))).replace(b'"busy_s":0.011', b'"busy_s":null')
    client._keeper.receive(broken, lambda: b"")
    view = client.view(run_id)
    assert view is not None
    assert view.error is not None
    assert (view.status, view.error.code, len(view.steps)) == (RunStatus.ENDED, "internal", 1)
    assert posted[-1] == Steer(run_id, "cancel")


def test_a_run_of_a_dead_engine_has_no_live_memory(client: EngineClient) -> None:
    run_id, _ = submit(client)
    client._keeper.lost(0, -9)
    client._keeper.number = 1
    with pytest.raises(RunFreed):
        client.attention(run_id, 0, None)
    with pytest.raises(RunUnknown):
        client.cell("nobody", 0, 0)


def test_a_closed_client_answers_at_once(client: EngineClient) -> None:
    client.close()
    with pytest.raises(EngineUnavailable):
        client.terms("m")


def test_the_client_leaves_torch_out() -> None:
    code = "import sys, engine.serve.client; print(sorted({'torch', 'transformers', 'streamlit'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
