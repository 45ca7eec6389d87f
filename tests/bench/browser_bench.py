"""A run as seen through Chromium on the same cores, against the same engine with the page closed. Knows the pages' buttons."""

from __future__ import annotations

import itertools
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, sync_playwright

from tests.bench.report import Figure
from tests.browser.desk import Desk
from tests.browser.driver import AppServer, Visitor, launch, visit

QUESTION = "Tell me a long story about an orange that rolled off a table."
TOKENS = 200
SETTLED = 20  # steps left out at the beginning: the page is still being drawn, or closed
ROUNDS = 3
TALL = 5000  # px: the whole decode page is on the screen; what is off it rests while a run plays
# What has to have drawn a token before it counts as pictured: all that moves on the decode page.
LIVE = {"answer", "timeline", "notes", "candidates", "step", "token_strip", "meters"}
# Pictures that do not stand on the screen whole.
HIDDEN = """() => {
  const hidden = [];
  const walk = (root) => {
    for (const node of root.querySelectorAll('*')) {
      if (node.shadowRoot) walk(node.shadowRoot);
      if (node.matches('.ob') && node.getBoundingClientRect().bottom > innerHeight) hidden.push(node.className);
    }
  };
  walk(document);
  return hidden;
}"""


def open_desk(browser: Browser, app: AppServer) -> tuple[Desk, Visitor]:
    """A new session on the decode page, its question written, that has not pressed Play yet."""
    visitor = visit(browser, app.url, height=TALL)
    desk = Desk(visitor.page)
    desk.longest(TOKENS)
    desk.write(QUESTION)
    desk.go("decode")
    return desk, visitor


def begin(browser: Browser, app: AppServer) -> tuple[Desk, Visitor]:
    """A new session on the decode page that has just pressed Play."""
    desk, visitor = open_desk(browser, app)
    desk.press("shell.play")
    desk.wait(lambda run: run["prefilled"])
    return desk, visitor


def rate(run: dict[str, Any]) -> float:
    """The engine's own steps per second, from its own stamps."""
    at_s = run["at_s"]
    return (len(at_s) - 1 - SETTLED) / (at_s[-1] - at_s[SETTLED])


def watched(browser: Browser, app: AppServer) -> dict[str, Any]:
    desk, visitor = begin(browser, app)
    run = desk.until_status("ended", 300)
    assert run["generated"] == TOKENS, f"the answer ended after {run['generated']} tokens: {run['stop_reason']}"
    assert not (hidden := desk.page.evaluate(HIDDEN)), f"off the screen: {hidden}"
    visitor.close()
    return run


def unwatched(browser: Browser, app: AppServer) -> dict[str, Any]:
    """Play, close the page, come back when it is over."""
    desk, visitor = begin(browser, app)
    address = desk.page.url
    visitor.close()
    until = visit(browser, app.url + "/static-nothing")  # an idle page: the browser itself stays up, as in the other case
    until.page.goto("about:blank")
    until.page.wait_for_timeout(1000 * TOKENS / 8)
    until.page.goto(address)
    run = Desk(until.page).until_status("ended", 300)
    until.close()
    return run


def late_s(run: dict[str, Any]) -> float:
    """By how much the longest wait for a picture exceeds the engine's own wait for that token."""
    pictures, at_s = run["pictures"], run["at_s"]
    gaps = [(b["t"] - a["t"]) / 1000 for a, b in itertools.pairwise(pictures)]
    own = [b - a for a, b in itertools.pairwise(at_s)]
    return max(gap - mine for gap, mine in zip(gaps, own, strict=True))


def browser() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        app = AppServer(Path(folder) / "app.log", env={"OPENBOOK_LEASE_S": "600"}).start()
        chromium = launch(playwright)
        try:
            watched(chromium, app)
            pairs = [(watched(chromium, app), unwatched(chromium, app)) for _ in range(ROUNDS)]
        finally:
            chromium.close()
            app.stop()
    runs = [run for run, _ in pairs]
    ratio = statistics.median(rate(seen) / rate(alone) for seen, alone in pairs)
    bare = statistics.median(rate(alone) for _, alone in pairs)
    yield Figure("browser_steps", statistics.median(map(rate, runs)), "steps/s", f"page closed {bare:.1f} steps/s", ratio, ">= 0.85")
    pictures = min(len({picture["t"] for picture in run["pictures"] if set(picture["drawn"]) >= LIVE}) for run in runs)
    yield Figure("browser_pictures", pictures, "pictures", f"{TOKENS} tokens", pictures / TOKENS, ">= 1.0")
    yield Figure("browser_gap", max(map(late_s, runs)), "s", "the engine's own gap for that token", None, "<= 0.25")
