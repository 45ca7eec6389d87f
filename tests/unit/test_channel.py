"""The live channel's door: who may listen to which run, what comes first, and that a failure in it is written down."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import tomllib
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient, WebSocketTestSession
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocketDisconnect

from engine.serve.client import EngineClient
from engine.settings import Settings
from engine.trace import RunSettings
from ui import channel, resources

HOST = "testserver"


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[EngineClient]:
    """A client whose process has not come up: its runs wait, and can be watched."""
    client = EngineClient(Settings(home=tmp_path))
    monkeypatch.setattr(resources, "engine", lambda: client)
    yield client
    client.close()


class Browser:
    """Opens the channel of a run as a page would, and on leaving waits until the server has noticed."""

    def __init__(self) -> None:
        self.app, self.noticed = Starlette(routes=channel.routes()), threading.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.app(scope, receive, send)
        self.noticed.set()

    @contextmanager
    def open(self, run_id: str, origin: str | None = None) -> Iterator[WebSocketTestSession]:
        client = TestClient(self, base_url=f"http://{HOST}")
        with client.websocket_connect(channel.path_of(run_id), headers={} if origin is None else {"origin": origin}) as socket:
            yield socket
            socket.close()
            assert self.noticed.wait(5), "the server goes on sending to nobody"


@pytest.fixture
def browser() -> Browser:
    return Browser()


def submit(engine: EngineClient) -> str:
    return engine.submit("Why?", RunSettings(max_new_tokens=7), model="smollm2-135m", session="s").run_id


def closing_code(browser: Browser, run_id: str, origin: str | None) -> int:
    with browser.open(run_id, origin) as socket, pytest.raises(WebSocketDisconnect) as closed:
        socket.receive_text()
    return closed.value.code


def test_a_run_that_nobody_knows_is_said_to_be_unknown(engine: EngineClient, browser: Browser) -> None:
    assert closing_code(browser, "A" * 22, f"http://{HOST}") == channel.CLOSE_UNKNOWN_RUN == 4404


@pytest.mark.parametrize("origin", ["http://elsewhere.example", f"http://{HOST}:81", "null", f"http://{HOST}.elsewhere.example"])
def test_a_foreign_page_hears_nothing(engine: EngineClient, browser: Browser, origin: str) -> None:
    assert closing_code(browser, submit(engine), origin) == channel.CLOSE_FOREIGN_ORIGIN == 4403


@pytest.mark.parametrize("origin", [f"http://{HOST}", f"https://{HOST}", f"http://{HOST.upper()}", None])
def test_a_page_of_this_server_gets_the_whole_run_first(engine: EngineClient, browser: Browser, origin: str | None) -> None:
    run_id = submit(engine)
    with browser.open(run_id, origin) as socket:
        first = json.loads(socket.receive_text())
    assert (first["type"], first["run_id"], first["status"], first["max_new_tokens"]) == ("snapshot", run_id, "queued", 7)
    assert (first["tokens"], first["prefill"], first["steps"]) == ([], None, [])


def hear_everything(socket: WebSocketTestSession) -> None:
    while True:
        assert socket.receive_text() == "{}"


class Broken:
    """A client whose stream breaks after its first frame, or goes on for ever."""

    def __init__(self, failure: Exception | None) -> None:
        self.failure = failure

    def view(self, run_id: str) -> object:
        return object()

    async def stream(self, run_id: str) -> AsyncIterator[str]:
        yield "{}"
        if self.failure is not None:
            raise self.failure
        await asyncio.Event().wait()


def test_a_failure_inside_the_channel_is_written_down(
    monkeypatch: pytest.MonkeyPatch, browser: Browser, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(resources, "engine", lambda: Broken(ValueError("a frame that cannot be made")))
    with browser.open("B" * 22) as socket, pytest.raises(WebSocketDisconnect):
        hear_everything(socket)
    (record,) = [record for record in caplog.records if record.name == "ui.channel"]
    assert record.levelno == logging.ERROR
    assert record.exc_info is not None
    assert "a frame that cannot be made" in str(record.exc_info[1])


def test_a_browser_that_hangs_up_is_no_failure(monkeypatch: pytest.MonkeyPatch, browser: Browser, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(resources, "engine", lambda: Broken(None))
    with browser.open("C" * 22) as socket:
        assert socket.receive_text() == "{}"
    assert not [record for record in caplog.records if record.name == "ui.channel"]


def test_only_this_computer_is_served_unless_somebody_says_otherwise() -> None:
    config = tomllib.loads((Path(__file__).resolve().parents[2] / ".streamlit" / "config.toml").read_text(encoding="utf-8"))
    assert config["server"]["address"] == "127.0.0.1"
