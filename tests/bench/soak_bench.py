"""Whether memory stays flat while one visitor has five questions answered, one after the other. Knows the pages' buttons.

Runs that have ended are kept on purpose, up to a number: by the server (here a small one) and by the page (assets/components/live/live.js,
KEPT_STORES). Runs of the same length come first and fill that. What grows after it has been forgotten somewhere.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import CDPSession, sync_playwright

from tests.bench.browser_bench import TOKENS, open_desk
from tests.bench.report import Figure
from tests.browser.desk import Desk
from tests.browser.driver import AppServer, launch, settle
from tests.browser.scales import Weight, weigh

FILLING, RUNS = 3, 5
FEW = {"OPENBOOK_HELD_RUNS": "1", "OPENBOOK_KEPT_RUNS": "2", "OPENBOOK_LEASE_S": "600", "OPENBOOK_OFFLINE": "1"}
REST_MS = 2000


@dataclass(frozen=True, slots=True)
class Sizes:
    """After one run, in bytes: used JavaScript heap of the page after a collection, resident memory of the two processes."""

    page: int
    processes: Weight


def heap_bytes(session: CDPSession) -> int:
    session.send("HeapProfiler.collectGarbage")
    metrics = {entry["name"]: entry["value"] for entry in session.send("Performance.getMetrics")["metrics"]}
    return int(metrics["JSHeapUsedSize"])


def after_one(desk: Desk, app: AppServer, session: CDPSession, before: str) -> tuple[Sizes, str]:
    """Sizes after one more run, and its id. `before`: the id of the last one."""
    desk.press("shell.play")
    run = desk.wait(lambda run: run["id"] != before and run["status"] == "ended", 300)
    assert run["generated"] == TOKENS, f"the answer ended after {run['generated']} tokens: {run['stop_reason']}"
    settle(desk.page)
    desk.page.wait_for_timeout(REST_MS)
    return Sizes(heap_bytes(session), weigh(app)), run["id"]


def told(name: str, sizes: list[int]) -> Figure:
    """Growth from the second of the five runs to the last; all readings, those of the filling runs too, are told beside it."""
    growth = 100 * (sizes[-1] / sizes[FILLING + 1] - 1)
    filling, course = (" → ".join(f"{size / 1e6:.1f}" for size in part) for part in (sizes[:FILLING], sizes[FILLING:]))
    return Figure(f"soak_{name}", growth, "%", f"run 2 of {RUNS}; MB after each: {course}; before, filling: {filling}", None, "<= 5")


def soak() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        app = AppServer(Path(folder) / "app.log", env=FEW).start()
        chromium = launch(playwright)
        try:
            desk, visitor = open_desk(chromium, app)
            session = visitor.context.new_cdp_session(desk.page)
            for domain in ("HeapProfiler", "Performance"):
                session.send(f"{domain}.enable")
            sizes, last = [], ""
            for _ in range(FILLING + RUNS):
                size, last = after_one(desk, app, session, last)
                sizes.append(size)
        finally:
            chromium.close()
            app.stop()
    yield told("page", [size.page for size in sizes])
    yield told("app", [size.processes.app for size in sizes])
    yield told("engine", [size.processes.engine for size in sizes])
