"""What the app's processes weigh at rest. Knows resident memory and how to empty the app's bounded stores; asserts nothing.

Runs that have ended are kept on purpose, up to a number. So that two readings can be compared, that many short runs are made before each:
then the stores hold the same small things both times, and what is left over has grown.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass

import psutil
from playwright.sync_api import Browser

from tests.browser.desk import Desk
from tests.browser.driver import AppServer, visit

KEPT_RUNS, HELD_RUNS, SESSION_S = 6, 3, 2
# A server whose stores are small. A visitor who has left is forgotten soon; a run that nobody watches ends by its ordinary lease.
FRUGAL = {
    "OPENBOOK_KEPT_RUNS": str(KEPT_RUNS),
    "OPENBOOK_HELD_RUNS": str(HELD_RUNS),
    "OPENBOOK_OFFLINE": "1",
    "STREAMLIT_SERVER_DISCONNECTED_SESSION_TTL": str(SESSION_S),
}
READINGS, APART_S = 5, 0.3


@dataclass(frozen=True, slots=True)
class Weight:
    """Resident memory, in bytes."""

    app: int
    engine: int

    def growth_since(self, before: Weight) -> dict[str, float]:
        """Of each process, as a share of what it was."""
        return {"app": self.app / before.app - 1, "engine": self.engine / before.engine - 1}


def resident(process: psutil.Process) -> int:
    """Median of a few readings."""
    readings = []
    for _ in range(READINGS):
        readings.append(process.memory_info().rss)
        time.sleep(APART_S)
    return int(statistics.median(readings))


def weigh(app: AppServer) -> Weight:
    assert app.process is not None
    (engine,) = app.engines()
    return Weight(resident(psutil.Process(app.process.pid)), resident(engine))


def answer_short(desk: Desk, times: int) -> list[int]:
    """The same short question again and again, each answered to its end; gives the ids of the last answer."""
    seen: set[str] = set()
    ids: list[int] = []
    for _ in range(times):
        desk.press("shell.play")
        ended = desk.wait(lambda run: run["id"] not in seen and run["status"] == "ended", 120)
        assert ended["error"] is None, ended["error"]
        seen.add(ended["id"])
        ids = ended["ids"]
    return ids


def at_rest(browser: Browser, app: AppServer) -> tuple[Weight, list[int]]:
    """A new visitor asks short questions until nothing older is kept; then the scales are read. Gives also the ids of the answer."""
    visitor = visit(browser, app.url)
    desk = Desk(visitor.page)
    desk.longest(8)
    ids = answer_short(desk, KEPT_RUNS + 1)
    visitor.close()
    time.sleep(SESSION_S + 1)
    weight = weigh(app)
    assert not visitor.complaints, visitor.complaints
    return weight, ids
