"""A random user on the real app: nothing breaks, nothing is lost, and memory comes back.

One minute of it by itself; OPENBOOK_TEST_MINUTES=10 makes it ten. What failed with one seed is tried again with OPENBOOK_TEST_SEED.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.browser import scales
from tests.browser.desk import Desk
from tests.browser.driver import AppServer, settle, visit
from tests.browser.monkey import PATIENCE_S, Monkey
from ui.navigation import PAGES

MINUTES = float(os.environ.get("OPENBOOK_TEST_MINUTES") or 1)
SEED = int(os.environ.get("OPENBOOK_TEST_SEED") or 4)
WARM_UP_S = 20.0
MOST_GROWTH = 0.05


@pytest.fixture
def frugal_app(smollm2_dir: Path, tmp_path: Path) -> Iterator[AppServer]:
    server = AppServer(tmp_path / "app.log", env=scales.FRUGAL).start()
    yield server
    assert not server.stop(), "processes were left behind"


def warm_up(browser: Browser, app: AppServer) -> None:
    """Every page in both languages with all its boxes open: what is made once, on first use, is there then."""
    for language, locale in (("en", "en-US"), ("zh", "zh-CN")):
        visitor = visit(browser, app.url, locale=locale)
        desk = Desk(visitor.page, language)
        desk.longest(8)
        desk.press("shell.play")
        desk.until_status("ended", 300)  # the model may still be on its way
        for spec in PAGES:
            desk.go(spec.key)
            for box in desk.page.locator("summary").all():
                box.click()
                settle(desk.page, PATIENCE_S)
        visitor.close()
        assert not visitor.complaints, visitor.complaints


def live(seed: int, seconds: float, browser: Browser, app: AppServer, diary: Path) -> Monkey:
    """A random user comes, lives for so long, and leaves; whatever must not be seen was not seen."""
    monkey = Monkey(seed, browser, app.url, diary)
    try:
        monkey.live(seconds)
        if not monkey.faults:
            monkey.stand_still()
    finally:
        monkey.visitor.close()
    assert not monkey.faults, monkey.report()
    assert "Traceback" not in app.text(), f"{app.text()[app.text().index('Traceback') :][:4000]}\n{monkey.report()}"
    return monkey


def test_a_random_user(browser: Browser, frugal_app: AppServer, tmp_path: Path) -> None:
    diary = tmp_path / "diary.jsonl"
    warm_up(browser, frugal_app)
    live(SEED + 1_000_000, WARM_UP_S, browser, frugal_app, diary)
    before, plain = scales.at_rest(browser, frugal_app)
    monkey = live(SEED, MINUTES * 60, browser, frugal_app, diary)
    after, again = scales.at_rest(browser, frugal_app)
    growth = after.growth_since(before)
    print(f"{len(monkey.deeds)} deeds, {len(monkey.misses)} missed; before {before}, after {after}; growth {growth}")
    assert again == plain, "a plain question gets the answer that it got before"
    assert len(monkey.misses) <= len(monkey.deeds) / 10, monkey.misses
    assert len({deed.path for deed in monkey.deeds}) >= 3, "this user has seen hardly anything"
    assert max(growth.values()) <= MOST_GROWTH, f"{growth}\n{monkey.report()}"
