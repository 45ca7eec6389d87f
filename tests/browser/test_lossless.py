"""In the middle of playing at full speed: step back, another language, other pages, a reload. Nothing is lost, nothing is doubled."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.desk import Desk
from tests.browser.driver import AppServer, Visitor, settle
from tests.browser.survey import FAULTS

QUESTION = "Tell me a very long story about the sky."
LONGEST = 1500  # no machine is through before the test has looked
PAGES = ("home", "tokenize", "prefill", "decode", "detokenize")


@pytest.fixture(scope="module")
def app(smollm2_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AppServer]:
    """As the other tests' app, but for its patience: a page opened anew on a busy machine is away for longer than the usual lease."""
    server = AppServer(tmp_path_factory.mktemp("patient") / "app.log", env={"OPENBOOK_LEASE_S": "600"}).start()
    yield server
    assert not server.stop(), "processes were left behind"
    assert "Traceback" not in server.text(), server.text()


def playing(open_page: Callable[..., Visitor]) -> tuple[Desk, dict[str, Any]]:
    """A visitor on the decode page whose run plays at full speed, and what the page knows of it."""
    desk = Desk(open_page("/").page)
    desk.longest(LONGEST)
    desk.write(QUESTION)
    desk.go("decode")
    desk.press("shell.play")
    return desk, desk.until_steps(10)


def still_playing(desk: Desk, before: dict[str, Any]) -> dict[str, Any]:
    """The same run has gone on from where it was, and goes on."""
    now = desk.until_steps(before["steps"] + 3)
    assert (now["id"], now["status"]) == (before["id"], "running")
    assert now["ids"][: len(before["ids"])] == before["ids"]
    return now


def nothing_lost(desk: Desk, before: dict[str, Any]) -> None:
    """Stop. What the page was told step by step is whole, goes on from `before`, and is what the server tells a page opened anew."""
    desk.press("shell.stop")
    ended = desk.until_status("ended")
    assert ended["stop_reason"] == "stopped"
    assert ended["ids"][: len(before["ids"])] == before["ids"]
    assert all(earlier < later for earlier, later in itertools.pairwise(ended["at_s"])), "each token has its own moment"
    assert ended["kv_tokens"] == ended["tokens"] + ended["generated"] - 1
    assert desk.page.evaluate(FAULTS) == [], "steps are there once each and in order, and so are their positions and notes"
    told = desk.answer_in_store()
    desk.page.reload()
    settle(desk.page)
    again = desk.until_status("ended")
    assert (again["ids"], again["at_s"]) == (ended["ids"], ended["at_s"])
    assert desk.page.evaluate(FAULTS) == []
    assert desk.answer_in_store() == told


def test_step_back(open_page: Callable[..., Visitor]) -> None:
    desk, _ = playing(open_page)
    expect(desk.button("shell.back")).to_be_enabled(timeout=15_000)
    desk.press("shell.back")
    paused = desk.until_status("paused")
    desk.press("shell.back")
    settle(desk.page)
    for _ in range(2):  # over what is there already, up to the newest token again
        desk.press("shell.step")
        settle(desk.page)
    assert desk.until_status("paused")["ids"] == paused["ids"], "looking back and forth computes nothing"
    desk.press("shell.resume")
    nothing_lost(desk, still_playing(desk, paused))


def test_language(open_page: Callable[..., Visitor]) -> None:
    desk, before = playing(open_page)
    for language in ("zh", "en"):
        desk.speak(language)
        before = still_playing(desk, before)
        expect(desk.page.get_by_role("heading", name=desk.words("decode.title"))).to_be_visible()
    nothing_lost(desk, before)


def test_pages(open_page: Callable[..., Visitor]) -> None:
    desk, before = playing(open_page)
    for page in PAGES:
        desk.go(page)
        before = still_playing(desk, before)
    nothing_lost(desk, before)


def test_reload(open_page: Callable[..., Visitor]) -> None:
    """A new session finds the run by its id and steers it with its key."""
    desk, before = playing(open_page)
    for _ in range(2):
        desk.page.reload()
        settle(desk.page)
        before = still_playing(desk, before)
    expect(desk.button("shell.pause")).to_be_enabled()
    nothing_lost(desk, before)
