"""Another head or layer of a long question's map, in the real app: until it is drawn, what is sent, and whether the page stays at hand.

Knows the page's buttons.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from playwright.sync_api import Browser, Locator, Page, WebSocket, expect, sync_playwright

from tests.bench.report import Figure
from tests.browser.desk import Desk
from tests.browser.driver import AppServer, launch, settle, visit

SENTENCE = "The cat put the orange on the table, but it rolled off. "  # 13 tokens of SmolLM2, and 36 of the template
TOKENS, LONG_TOKENS = 1024, 4096
HEADS = (4, 7, 0, 8, 2)
LAYERS = 5  # steps on the slider
PAGES = ("tokenize", "decode", "detokenize")
MOST_S, MOST_LONG_S, MOST_BYTES = 1.5, 3.0, 2 * 1024**2
BREATH_MS = 500  # between two picks, as a reader who looks at the picture
TIMEOUT_S = 300.0
# Notes on the page's clock when the next click or key comes.
NOTE = """kind => {
  window.askedAt = Infinity;
  window.addEventListener(kind, () => { window.askedAt = performance.now(); }, {capture: true, once: true});
}"""
# When the newest picture of the map with this name was drawn, on the page's clock; null while there is none.
DRAWN = "name => window.__openbook?.maps?.filter(map => map.name === name && map.t > window.askedAt).at(-1)?.t ?? null"
# When a heading of this text stood on the page; asked once a frame.
HEADED = """title => {
  const heads = [...document.querySelectorAll("h1")].filter((head) => head.checkVisibility() && head.textContent.includes(title));
  return heads.length ? performance.now() : null;
}"""


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


class Reader:
    """A reader of one long question's map, with the clock of the page."""

    def __init__(self, browser: Browser, app: AppServer, tokens: int) -> None:
        """A run whose prompt has `tokens` tokens or a few more, on the prefill page."""
        self.desk = desk = Desk(visit(browser, app.url).page)
        self.page, self.wire = desk.page, Wire(desk.page)
        desk.longest(1)
        desk.ask(SENTENCE * (tokens // 13))
        run = desk.until_status("ended", TIMEOUT_S)
        assert tokens * 0.98 <= run["tokens"] <= tokens * 1.1, f"the question has {run['tokens']} tokens"
        expect(desk.button("shell.stop")).to_be_disabled(timeout=1000 * TIMEOUT_S)
        desk.page.reload()  # a page whose sockets are all counted
        settle(desk.page, TIMEOUT_S)
        self.open_map()
        self.layer = int(self.slider().input_value())

    def open_map(self) -> None:
        self.desk.go("prefill")
        expect(self.page.locator(".attention .cells")).to_be_visible(timeout=1000 * TIMEOUT_S)
        settle(self.page, TIMEOUT_S)

    def slider(self) -> Locator:
        return self.page.locator(f'input[type="range"][aria-label="{self.desk.words("attention.layer")}"]')

    def timed(self, kind: str, act: Callable[[], None], until: str, what: str) -> float:
        """Seconds from the event of this kind, as the page hears it, until what is waited for."""
        settle(self.page, TIMEOUT_S)
        self.page.wait_for_timeout(BREATH_MS)
        self.page.evaluate(NOTE, kind)
        self.wire.begin()
        act()
        done = self.page.wait_for_function(until, arg=what, timeout=1000 * TIMEOUT_S).json_value()
        seconds = (done - self.page.evaluate("window.askedAt")) / 1000
        settle(self.page, TIMEOUT_S)
        return seconds

    def name(self, head: int) -> str:
        words = self.desk.words
        layer = words("attention.layer_n").format(layer=self.layer)
        return words("attention.map_note").format(layer=layer, head=words("attention.head_n").format(head=head))

    def another_head(self, head: int) -> tuple[float, int]:
        """Seconds from the click to the new picture, and the bytes that came for it and with it."""
        button = self.page.get_by_role("button", name=str(head), exact=True)
        button.scroll_into_view_if_needed()
        return self.timed("click", button.click, DRAWN, self.name(head)), self.wire.received

    def next_layer(self, head: int) -> tuple[float, int]:
        """The same from an arrow key on the slider."""
        self.slider().focus()
        self.layer += 1
        return self.timed("keydown", lambda: self.page.keyboard.press("ArrowRight"), DRAWN, self.name(head)), self.wire.received

    def another_page(self, page: str) -> float:
        """Seconds from the click on a page's link to the heading of that page; afterwards the map is there again."""
        link = self.page.get_by_role("link", name=self.desk.words(f"shell.nav_{page}"), exact=True)
        seconds = self.timed("click", link.click, HEADED, self.desk.words(f"{page}.title"))
        self.open_map()
        return seconds


def told(name: str, seconds: list[float], most_s: float, tokens: int) -> Iterator[Figure]:
    against = f"{most_s} s at {tokens:,} tokens"
    yield Figure(name, statistics.median(seconds), "s", against, None, f"<= {most_s}")
    yield Figure(f"{name}_worst", max(seconds), "s", against, None, f"<= {most_s}")


def attention_map() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        app = AppServer(Path(folder) / "app.log", env={"OPENBOOK_LEASE_S": "600"}).start()
        chromium = launch(playwright)
        try:
            reader = Reader(chromium, app, TOKENS)
            heads = [reader.another_head(head) for head in HEADS]
            layers = [reader.next_layer(HEADS[-1]) for _ in range(LAYERS)]
            reader.page.context.close()
            reader = Reader(chromium, app, LONG_TOKENS)
            long_heads = [reader.another_head(head)[0] for head in HEADS]
            pages = [reader.another_page(page) for page in PAGES]
        finally:
            chromium.close()
            app.stop()
    sizes = [size for _, size in heads + layers]
    assert min(sizes) > 50_000, f"a map of 256 tokens cannot weigh {min(sizes)} bytes"
    yield from told("map_redraw", [seconds for seconds, _ in heads], MOST_S, TOKENS)
    yield from told("map_layer", [seconds for seconds, _ in layers], MOST_S, TOKENS)
    yield Figure("map_bytes", max(sizes), "bytes", "2 MiB at most for one pick", None, f"<= {MOST_BYTES}")
    yield from told("map_long_redraw", long_heads, MOST_LONG_S, LONG_TOKENS)
    yield from told("map_long_page", pages, MOST_LONG_S, LONG_TOKENS)
