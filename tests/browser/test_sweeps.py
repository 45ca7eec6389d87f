"""A sweep of eight lengths on the real SmolLM2: its progress is seen, it is cancelled in the middle of a long reading, its curve is that of
the file. Its readings are slowed down as far as a test needs: a fast machine would be done before anybody looks."""

from __future__ import annotations

import csv
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from engine.measure.fit import fit
from engine.sweep import lengths_until
from tests.browser.desk import Desk
from tests.browser.driver import AppServer, Visitor, settle
from tests.dawdle import Pace
from ui import i18n
from ui.sections.growth import span

CANCELLED_S = 2.0
LONG_S = 600.0  # for the whole of it on a busy machine
SEEN_S, ENDLESS_S = 0.003, 0.1  # of each of 150 parts: a reading of half a second can be seen, one of 15 s has to be cancelled

Open = Callable[..., Visitor]


@pytest.fixture(scope="module")
def pace(tmp_path_factory: pytest.TempPathFactory) -> Pace:
    made = Pace(tmp_path_factory.mktemp("pace") / "seconds")
    made.set(SEEN_S)
    return made


@pytest.fixture(scope="module")
def app(smollm2_dir: Path, tmp_path_factory: pytest.TempPathFactory, pace: Pace) -> Iterator[AppServer]:
    server = AppServer(tmp_path_factory.mktemp("app") / "app.log", pace.env).start()
    yield server
    assert not server.stop(), "processes were left behind"
    assert "Traceback" not in server.text(), server.text()


def begin(visitor: Visitor, language: str, until: int) -> Desk:
    desk = Desk(visitor.page, language)
    desk.button("sweeps.begin").wait_for()
    slider = visitor.page.get_by_role("slider", name=desk.words("sweeps.until"))
    slider.focus()
    slider.press("Home")
    for _ in range((256, 512, 1024, 2048, 4096).index(until)):
        slider.press("ArrowRight")
    settle(visitor.page)
    desk.press("sweeps.begin")
    desk.button("sweeps.cancel").wait_for()
    return desk


def told(page: Page) -> str:
    bar = page.get_by_test_id("stProgress").first
    return bar.inner_text() if bar.is_visible() else ""


def until_told(page: Page, words: str, timeout_s: float = LONG_S) -> None:
    deadline = time.monotonic() + timeout_s
    while words not in told(page):
        assert time.monotonic() < deadline, told(page)
        page.wait_for_timeout(30)


def rows_of(page: Page, desk: Desk, folder: Path) -> dict[int, list[float]]:
    """The file that the page hands out: length → seconds."""
    with page.expect_download() as handed:
        desk.press("sweeps.csv")
    file = folder / "sweep.csv"
    handed.value.save_as(file)
    found: dict[int, list[float]] = {}
    for line in csv.DictReader(file.read_text().splitlines()):
        found.setdefault(int(line["tokens"]), []).append(float(line["seconds"]))
    return found


def test_eight_lengths_are_measured_and_the_curve_is_that_of_the_points(open_page: Open, tmp_path: Path) -> None:
    visitor = open_page("/sweeps")
    page, seen = visitor.page, set()
    desk = begin(visitor, "en", 1024)
    while desk.button("sweeps.cancel").is_visible():
        seen.add(told(page))
        page.wait_for_timeout(100)
    settle(page)
    lengths = lengths_until(1024)
    named = [at for at, length in enumerate(lengths, 1) if any(f"Length {at} of 8: reading {length:,} tokens" in words for words in seen)]
    assert len(named) >= 4, seen  # on the busiest machine some beats come too late
    points = rows_of(page, desk, tmp_path)
    assert tuple(points) == lengths
    found = fit(list(points), [median(values) for values in points.values()])
    assert found is not None
    parts = {name: span(getattr(found, f"{name}_s")) for name in ("constant", "linear", "quadratic")}
    page.get_by_text(i18n.text("en", "sweeps.fit_ttft", **parts), exact=False).wait_for()
    weights = np.array([1 / median(values) for values in points.values()])
    powers = np.stack([np.array(lengths, float) ** power for power in range(3)], axis=1) * weights[:, None]
    free = np.linalg.lstsq(powers, np.ones(8), rcond=None)[0]
    if (free >= 0).all():  # then no part was held at zero, and the plain least squares says the same
        assert (found.constant_s, found.linear_s, found.quadratic_s) == pytest.approx(free, rel=1e-3)
    sweep_id = parse_qs(urlsplit(page.url).query)["ttft"][0]
    desk.go("home")
    desk.speak("zh")
    desk.go("sweeps")
    assert parse_qs(urlsplit(page.url).query)["ttft"] == [sweep_id]
    page.get_by_text(desk.words("sweeps.axis_curve"), exact=True).wait_for()
    page.reload()
    settle(page)
    page.get_by_text(desk.words("sweeps.csv")).wait_for()
    assert rows_of(page, desk, tmp_path) == points, "a reload finds it"


@pytest.mark.parametrize("language", ["zh"])
def test_it_is_cancelled_in_the_middle_of_a_long_reading(open_page: Open, tmp_path: Path, language: str, pace: Pace) -> None:
    visitor = open_page("/sweeps", locale="zh-CN")
    page = visitor.page
    desk = begin(visitor, language, 4096)
    until_told(page, "4,096")
    pace.set(ENDLESS_S)
    page.wait_for_timeout(1000)  # a reading that had nearly ended has ended, and the next one has been told
    number = next(
        n
        for n in (1, 2, 3)
        if i18n.text(language, "sweeps.now_ttft", at="8", of="8", length="4,096", number=str(n), most="3") in told(page)
    )
    got = 7 if number == 1 else 8
    asked_at = time.monotonic()
    desk.press("sweeps.cancel")
    page.get_by_text(i18n.text(language, "sweeps.cut", got=str(got), asked="8")).wait_for()
    took_s = time.monotonic() - asked_at
    assert took_s <= CANCELLED_S, took_s
    rows = rows_of(page, desk, tmp_path)
    assert tuple(rows) == lengths_until(4096)[:got]
    assert len(rows.get(4096, [])) == number - 1, "the reading that was under way counts for nothing"
    desk.button("sweeps.begin").click()
    desk.button("sweeps.cancel").click()
    expect(desk.button("sweeps.begin")).to_be_enabled()
    expect(desk.button("sweeps.cancel")).to_have_count(0)
    pace.set(SEEN_S)
