"""The mark sheet in a real browser: charts that play along with the engine, follow theme and language; a race that asks nobody."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Locator, WebSocket, expect

from tests.browser.desk import Desk
from tests.browser.driver import Visitor, settle
from ui import i18n, plotly_script

TOKENS = 24
STORE = "window.__openbook.runs[new URLSearchParams(location.search).get('run')]"
TRACE = "(plot, name) => plot.data?.find(trace => trace.name === name)?.y ?? null"
INK = "plot => getComputedStyle(plot.querySelector('.xtick text, .ytick text')).fill"


def plot(desk: Desk, number: int = 0) -> Locator:
    return desk.page.locator(".charts .plot").nth(number)


def until(desk: Desk, number: int, name: str, what: Callable[[list[Any]], bool]) -> list[Any]:
    """The values of a chart's line or bars, once they are as wanted."""
    for _ in range(1200):
        seen = plot(desk, number).evaluate(TRACE, name)
        if seen is not None and what(seen):
            return seen
        desk.page.wait_for_timeout(50)
    raise AssertionError(f"the chart did not come to that: {seen}")


def test_the_charts_play_along_and_rest_on_the_run_s_own_numbers(open_page: Callable[..., Visitor]) -> None:
    visitor = open_page("/", height=2600)
    desk, asked = Desk(visitor.page), []
    visitor.page.on("request", lambda request: asked.append(request.url) if "plotly" in request.url and "/plotly/" in request.url else None)
    desk.longest(TOKENS)
    desk.choose("shell.speed", "shell.speed_slow")
    desk.go("marks")
    desk.press("shell.play")
    until(desk, 0, "work", lambda bars: 0 < len(bars) < TOKENS - 1)
    desk.choose("shell.speed", "shell.speed_real")
    desk.until_status("ended")
    bars = until(desk, 0, "work", lambda bars: len(bars) == TOKENS - 1)
    waits = plot(desk).evaluate(TRACE, "wait")
    tpot = plot(desk).evaluate(TRACE, desk.words("components.charts_tpot"))
    known = desk.page.evaluate(f"(() => {{ const {{ itl, itlSum, steps }} = {STORE}; return [itl, itlSum.at(-1) / steps.length]; }})()")
    assert [bar + wait for bar, wait in zip(bars, waits, strict=True)] == pytest.approx([itl * 1000 for itl in known[0]])
    assert tpot[-1] == pytest.approx(known[1] * 1000)
    assert len(until(desk, 1, "measured", lambda points: len(points) == TOKENS)) == TOKENS
    expect(desk.page.locator(".charts .says").nth(1)).to_have_text(i18n.text("en", "components.charts_notes_equal", n=TOKENS))
    assert until(desk, 2, "weights", bool)[0] > 0
    assert len(asked) == 1
    assert asked[0].endswith(plotly_script.path()), "from this server, nowhere else"
    steps_back(desk)
    before = plot(desk).evaluate(INK)
    desk.page.get_by_test_id("stMainMenu").locator("button").first.click()
    desk.page.get_by_role("menuitemradio", name="Dark").click()
    desk.page.keyboard.press("Escape")
    expect(plot(desk).locator(".xtick text").first).not_to_have_css("fill", before)
    desk.speak("zh")
    expect(desk.page.locator(".charts summary").first).to_have_text(i18n.text("zh", "components.charts_table"))
    assert len(until(desk, 0, "work", bool)) == TOKENS - 2, "the cursor stays where it was"


def steps_back(desk: Desk) -> None:
    """One token back: bars and points go with the other pictures."""
    desk.press("shell.back")
    settle(desk.page)
    until(desk, 0, "work", lambda bars: len(bars) == TOKENS - 2)
    until(desk, 1, "measured", lambda points: len(points) == TOKENS - 1)


def test_the_race_asks_nobody(open_page: Callable[..., Visitor]) -> None:
    visitor = open_page("/", height=2600)
    page, said = visitor.page, []

    def hear(socket: WebSocket) -> None:
        socket.on("framesent", lambda payload: said.append(socket.url))

    page.on("websocket", hear)
    page.reload()
    desk = Desk(page)
    desk.longest(8)
    desk.press("shell.play")
    desk.until_status("ended")
    desk.go("marks")
    page.get_by_role("button", name=i18n.text("en", "pace.preset", n=20), exact=True).click()
    settle(page)
    expect(page.locator(".pace .chosen .times")).to_contain_text("20.0 ms")
    page.wait_for_timeout(1500)  # what the click had to say has been said
    before = len(said)
    page.locator(".pace .go").click()
    expect(page.locator(".pace .over")).to_have_text(i18n.text("en", "components.pace_over"), timeout=60_000)
    assert len(said) == before
    written = desk.answer_in_store()
    for side in ("measured", "chosen"):
        assert page.locator(f".pace .{side} .text").inner_text().strip() == written.strip()
