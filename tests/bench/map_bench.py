"""Picking another head of a long question's map, in the real app: until it is drawn, and what is sent. Knows the page's buttons."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import Browser, Page, WebSocket, expect, sync_playwright

from tests.bench.report import Figure
from tests.browser.desk import Desk
from tests.browser.driver import AppServer, launch, settle, visit

SENTENCE = "The cat put the orange on the table, but it rolled off. "  # 13 tokens of SmolLM2, and 36 of the template
TOKENS = 1024
HEADS = (4, 7, 0, 8, 2)
MOST_S, MOST_BYTES = 1.5, 2 * 1024**2
TIMEOUT_S = 120.0
# When the newest picture of a map with this name was drawn, on the page's clock; null while there is none.
DRAWN = "name => window.__openbook?.maps?.filter(map => map.name.endsWith(name) && map.t > window.askedAt).at(-1)?.t ?? null"


class Wire:
    """Bytes that a page has received on its WebSockets since `begin`."""

    def __init__(self, page: Page) -> None:
        self.received = 0
        page.on("websocket", self._listen)

    def begin(self) -> None:
        self.received = 0

    def _listen(self, socket: WebSocket) -> None:
        socket.on("framereceived", self._count)

    def _count(self, frame: str | bytes) -> None:
        self.received += len(frame)


def read_long_question(browser: Browser, app: AppServer) -> tuple[Desk, Wire]:
    """A run whose prompt has TOKENS tokens or a few more, on the prefill page."""
    visitor = visit(browser, app.url)
    desk, wire = Desk(visitor.page), Wire(visitor.page)
    desk.longest(1)
    desk.ask(SENTENCE * (TOKENS // 13))
    run = desk.until_status("ended", TIMEOUT_S)
    assert TOKENS * 0.98 <= run["tokens"] <= TOKENS * 1.1, f"the question has {run['tokens']} tokens"
    expect(desk.button("shell.stop")).to_be_disabled(timeout=1000 * TIMEOUT_S)
    desk.page.reload()  # a page whose sockets are all counted
    settle(desk.page, TIMEOUT_S)
    desk.go("prefill")
    expect(desk.page.locator(".attention .cells")).to_be_visible(timeout=1000 * TIMEOUT_S)
    return desk, wire


def another_head(desk: Desk, wire: Wire, head: int) -> tuple[float, int]:
    """Seconds from the click to the new picture, and the bytes that came for it and with it."""
    page = desk.page
    settle(page, TIMEOUT_S)
    page.wait_for_timeout(500)
    button = page.get_by_role("button", name=str(head), exact=True)
    button.scroll_into_view_if_needed()
    page.evaluate("() => { window.askedAt = Infinity; window.addEventListener('click', () => { window.askedAt = performance.now(); }, "
                  "{capture: true, once: true}); }")  # fmt: skip
    wire.begin()
    button.click()
    name = desk.words("attention.head_n").format(head=head)
    drawn = page.wait_for_function(DRAWN, arg=name, timeout=1000 * TIMEOUT_S).json_value()
    asked = page.evaluate("window.askedAt")
    settle(page, TIMEOUT_S)
    return (drawn - asked) / 1000, wire.received


def attention_map() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        app = AppServer(Path(folder) / "app.log", env={"OPENBOOK_LEASE_S": "600"}).start()
        chromium = launch(playwright)
        try:
            desk, wire = read_long_question(chromium, app)
            picks = [another_head(desk, wire, head) for head in HEADS][1:]
        finally:
            chromium.close()
            app.stop()
    seconds, sizes = [pick[0] for pick in picks], [pick[1] for pick in picks]
    assert min(sizes) > 50_000, f"a map of 256 tokens cannot weigh {min(sizes)} bytes"
    yield Figure("map_redraw", statistics.median(seconds), "s", f"{MOST_S} s at {TOKENS:,} tokens", None, f"<= {MOST_S}")
    yield Figure("map_bytes", max(sizes), "bytes", "2 MiB at most for one pick", None, f"<= {MOST_BYTES}")
