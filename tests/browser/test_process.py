"""Processes: a cold server on a deep link, the engine killed in mid-answer, the app stopped, closed browsers, sessions side by side."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from playwright.sync_api import Browser, expect

from tests.browser.desk import Desk
from tests.browser.driver import AppServer, Visitor, visit


@pytest.fixture
def own_app(smollm2_dir: Path, tmp_path: Path) -> Iterator[AppServer]:
    """An app of this test's own, which it may hurt."""
    server = AppServer(tmp_path / "app.log")
    yield server
    if server.process is not None and server.process.poll() is None:
        server.stop()


def test_cold_deep_link_shows_the_right_page_and_menu(browser: Browser, own_app: AppServer) -> None:
    own_app.start()
    visitor = visit(browser, own_app.url + "/decode", locale="zh-CN")
    desk = Desk(visitor.page, "zh")
    expect(desk.page.get_by_role("heading", name=desk.words("decode.title"))).to_be_visible()
    for page in ("home", "tokenize", "prefill", "decode", "detokenize"):
        expect(desk.page.get_by_role("link", name=desk.words(f"shell.nav_{page}"), exact=True)).to_be_visible()
    desk.press("shell.play")
    desk.until_steps(2)
    visitor.close()
    assert not visitor.complaints


def test_engine_killed_in_mid_answer(browser: Browser, own_app: AppServer) -> None:
    """Both sessions are told, keep what was written, and the next run works."""
    own_app.start()
    visitors = [visit(browser, own_app.url), visit(browser, own_app.url)]
    desks = [Desk(visitor.page) for visitor in visitors]
    for desk in desks:
        desk.longest(400)
        desk.press("shell.play")
    written = [desk.until_steps(5)["ids"] for desk in desks]
    (engine,) = own_app.engines()
    engine.kill()
    killed_at = time.perf_counter()
    for desk, ids in zip(desks, written, strict=True):
        ended = desk.until_status("ended", timeout_s=15)
        assert ended["stop_reason"] == "error"
        assert ended["error"]["code"] == "engine_lost"
        assert ended["ids"][: len(ids)] == ids
        expect(desk.page.get_by_text(desk.words("stops.error"), exact=False).first).to_be_visible()
    desks[0].press("shell.play")
    again = desks[0].until_steps(2)
    assert again["ids"][:3] == written[0][:3], "greedy: the same question gives the same beginning"
    assert time.perf_counter() - killed_at < 60
    (new_engine,) = own_app.engines()
    assert new_engine.pid != engine.pid
    for visitor in visitors:
        visitor.close()


def test_sigterm_to_the_app_leaves_no_process(browser: Browser, own_app: AppServer) -> None:
    own_app.start()
    visitor = visit(browser, own_app.url)
    desk = Desk(visitor.page)
    desk.longest(400)
    desk.press("shell.play")
    desk.until_steps(3)
    (engine,) = own_app.engines()
    assert own_app.stop() == []
    assert not psutil.pid_exists(engine.pid)
    visitor.close()


def test_two_sessions_share_fairly_and_a_closed_one_frees_its_turn(open_page: Callable[..., Visitor], app: AppServer) -> None:
    visitors = [open_page("/"), open_page("/")]
    desks = [Desk(visitor.page) for visitor in visitors]
    questions = ["Why is the sky blue?", "Tell me about oranges."]
    for desk, question in zip(desks, questions, strict=True):
        desk.longest(600)
        desk.ask(question)
    begun = [desk.until_steps(5)["steps"] for desk in desks]
    time.sleep(6)
    progress = [after["steps"] - before for after, before in zip((desk.wait(bool) for desk in desks), begun, strict=True)]
    assert 0.6 < progress[0] / progress[1] < 1.7, f"turns are not shared fairly: {progress}"
    visitors[0].close()
    time.sleep(10)
    before = desks[1].wait(bool)
    time.sleep(4)
    after = desks[1].wait(bool)
    waited = desks[1].page.evaluate(
        "n => window.__openbook.runs[new URLSearchParams(location.search).get('run')].steps.slice(n).map(s => s.gap_s)", before["steps"]
    )
    assert after["steps"] > before["steps"]
    assert max(waited) < 0.02, f"somebody else still takes turns: {waited}"
