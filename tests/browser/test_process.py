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


def steps_in(desks: list[Desk], seconds: float) -> list[int]:
    """How many steps each desk's run makes meanwhile."""
    begun = [desk.wait(bool)["steps"] for desk in desks]
    time.sleep(seconds)
    return [desk.wait(bool)["steps"] - before for desk, before in zip(desks, begun, strict=True)]


def test_two_sessions_share_fairly_and_a_closed_one_frees_its_turn(open_page: Callable[..., Visitor]) -> None:
    """Each gets about half of what one alone gets; within 10 s of closing one, the other has all of it again."""
    visitors = [open_page("/"), open_page("/")]
    desks = [Desk(visitor.page) for visitor in visitors]
    for desk in desks:
        desk.longest(1500)
    desks[0].ask("Tell me a very long story about the sky.")
    desks[0].until_steps(5)
    (alone,) = steps_in(desks[:1], 4)
    desks[1].ask("Tell me a very long story about oranges.")
    desks[1].until_steps(5)
    shares = [steps / alone for steps in steps_in(desks, 4)]
    assert all(0.15 < share < 0.9 for share in shares), f"shares of the speed alone: {shares}"
    assert 0.6 < shares[0] / shares[1] < 1.7, f"turns are not shared fairly: {shares}"
    visitors[0].close()
    time.sleep(10)
    before = desks[1].wait(bool)["steps"]
    desks[1].until_steps(before + 20)
    waited = desks[1].page.evaluate(
        "n => window.__openbook.runs[new URLSearchParams(location.search).get('run')].steps.slice(n).map(s => s.gap_s)", before
    )
    assert sorted(waited)[len(waited) // 2] < 0.01, f"somebody else still takes turns: {waited}"


def test_two_sessions_get_their_own_right_answers(open_page: Callable[..., Visitor], smollm2_dir: Path) -> None:
    """Side by side, each page shows exactly the greedy answer that its question gets alone."""
    questions = ("What is the capital of France?", "What is the capital of Italy?")

    def ids_of(desk: Desk) -> list[int]:
        return desk.until_status("ended")["ids"]

    alone = []
    for question in questions:
        desk = Desk(open_page("/").page)
        desk.longest(16)
        desk.ask(question)
        alone.append(ids_of(desk))
    desks = [Desk(open_page("/").page) for _ in questions]
    for desk in desks:
        desk.longest(16)
        desk.write(questions[desks.index(desk)])
    for desk in desks:
        desk.press("home.ask")
    assert [ids_of(desk) for desk in desks] == alone
    assert alone[0] != alone[1]
