"""Browser tier: one app on the real SmolLM2 for the whole session, one Chromium, fresh visitors for every test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.browser.driver import AppServer, Visitor, launch, visit

expect.set_options(timeout=30_000)  # of patience: a busy machine is no fault of a page


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        chromium = launch(playwright)
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def app(smollm2_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AppServer]:
    """The app on the real SmolLM2, shared by the tests that do not hurt it; no traceback may be in its log at the end."""
    server = AppServer(tmp_path_factory.mktemp("app") / "app.log").start()
    yield server
    assert not server.stop(), "processes were left behind"
    assert "Traceback" not in server.text(), server.text()


@pytest.fixture
def open_page(browser: Browser, app: AppServer) -> Iterator[Callable[..., Visitor]]:
    """open_page(path, **visit options) → Visitor; afterwards no visitor's console may have complained."""
    visitors: list[Visitor] = []

    def open_(path: str = "/", **options: str | int) -> Visitor:
        visitors.append(visit(browser, app.url + path, **options))
        return visitors[-1]

    yield open_
    complaints = [line for visitor in visitors for line in visitor.complaints]
    for visitor in visitors:
        visitor.close()
    assert not complaints, complaints


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """An empty page without a server, for one component by itself; no script of it may have failed."""
    context = browser.new_context(viewport={"width": 900, "height": 700})
    page, errors = context.new_page(), []
    page.on("pageerror", lambda error: errors.append(str(error)))
    yield page
    context.close()
    assert not errors
