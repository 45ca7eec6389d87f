"""From `streamlit run` with cached weights to a page that answers a click, in a real browser. Knows the Play button."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from tests.bench.report import Figure
from tests.browser.desk import Desk
from tests.browser.driver import AppServer, launch, visit

ROUNDS = 3


def cold_start_s(browser: Browser, log: Path) -> tuple[float, float]:
    """Seconds until a click on Play shows in the run's state, and until the first answer token is drawn."""
    began = time.perf_counter()
    app = AppServer(log).start()
    visitor = visit(browser, app.url)
    try:
        desk = Desk(visitor.page)
        desk.press("shell.play")
        desk.wait(lambda run: run["status"] in {"queued", "running"})
        answered_s = time.perf_counter() - began
        desk.wait(lambda run: bool(run["pictures"]))
        return answered_s, time.perf_counter() - began
    finally:
        visitor.close()
        app.stop()


def start() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = launch(playwright)
        times = [cold_start_s(browser, Path(folder) / f"app{number}.log") for number in range(ROUNDS)]
        browser.close()
    answered = statistics.median(answered_s for answered_s, _ in times)
    first = statistics.median(first_s for _, first_s in times)
    yield Figure("start_to_answered_click", answered, "s", f"first answer token drawn after {first:.1f} s", None, "<= 10")
