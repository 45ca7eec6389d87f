"""The four meters in a real browser, fed with the traces of real runs, against figures from the raw stamps that an onlooker wrote down."""

from __future__ import annotations

import dataclasses
import re
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from playwright.sync_api import Browser, Locator, Page

from engine import RunSettings, load_model
from engine.serve.protocol import Snapshot
from engine.trace import RunStatus
from tests.browser.chain import show
from tests.stamps import Book, Hall, wall_for
from ui import i18n

OPEN = RunSettings(max_new_tokens=8, ignore_eos=True)
NOTHING = "—"


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1000, "height": 900})
    yield context.new_page()
    context.close()


@pytest.fixture
def hall(tiny_dir: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> Iterator[Hall]:
    model = load_model(str(tiny_dir("llama")), device="cpu", dtype="float32")
    with wall_for(model, monkeypatch) as wall:
        yield Hall(model, wall)


def mounted(page: Page, hall: Hall, name: str, cursor: int | None = None) -> Locator:
    kept = hall.record(name)
    said = Snapshot(
        name,
        RunStatus.ENDED,
        kept.model,
        kept.tokens,
        kept.prefill,
        kept.steps,
        kept.stop_reason,
        None,
        kept.settings.max_new_tokens,
        kept.origin,
    )
    fallback = msgspec.to_builtins(said) | {"run_id": None}
    return show(page, "meters", fallback=fallback, cursor=cursor, windows=None, layer_token_bytes=None)


def value(root: Locator, meter: str, place: str = ".value") -> str:
    return root.locator(f".{meter} {place}").inner_text().strip()


def seconds(text: str) -> list[float]:
    """All times in a text, in seconds."""
    units = {i18n.text("en", "components.live_s").split()[-1]: 1.0, i18n.text("en", "components.live_ms").split()[-1]: 0.001}
    return [float(number) * units[unit] for number, unit in re.findall(r"([\d.]+)\s(ms|s)\b", text)]


def near(expected: float) -> object:
    """As close as three digits can say."""
    return pytest.approx(expected, rel=0.006)


def up_to(book: Book, tokens: int) -> Book:
    return Book(book.asked_at, book.ids_at[:tokens], book.held)


def check(root: Locator, book: Book) -> None:
    assert seconds(value(root, "ttft")) == [near(book.ttft_s)]
    parts = root.locator(".ttft .more span").all_inner_texts()
    assert sum(seconds(" ".join(parts))) == near(book.ttft_s)
    if book.tpot_s is None:
        assert value(root, "tpot") == NOTHING
        assert value(root, "speed") == NOTHING
        assert i18n.text("en", "components.meters_two") in value(root, "tpot", ".more")
    else:
        assert seconds(value(root, "tpot")) == [near(book.tpot_s)]
        assert float(value(root, "speed").split()[0]) == pytest.approx(1 / book.tpot_s, abs=0.051)
    overall = re.findall(r"[\d.]+", value(root, "speed", ".more"))
    assert float(overall[-1]) == pytest.approx(book.overall_per_s, abs=0.051)


def test_one_token_has_a_first_wait_and_nothing_per_token(page: Page, hall: Hall) -> None:
    hall.submit("a", dataclasses.replace(OPEN, max_new_tokens=1))
    hall.turns()
    check(mounted(page, hall, "a"), hall.books["a"])


@pytest.mark.parametrize("cursor", [None, 0, 1, 4])
def test_pauses_count_nowhere_and_waiting_is_told_apart(page: Page, hall: Hall, cursor: int | None) -> None:
    hall.submit("a", OPEN, "one")
    hall.submit("b", OPEN, "two")
    hall.turns(8)
    hall.steer("a", "pause")
    hall.wall.now += 3600
    hall.turns(3)
    hall.steer("a", "play")
    hall.turns()
    book, kept = hall.books["a"], hall.record("a")
    tokens = len(book.ids_at) if cursor is None else cursor + 1
    root = mounted(page, hall, "a", cursor)
    check(root, up_to(book, tokens))
    if tokens > 2:
        waited_s = sum(step.waited_s for step in kept.steps[: tokens - 1]) / (tokens - 1)
        assert seconds(value(root, "tpot", ".more")) == [near(waited_s)]


@pytest.mark.parametrize("notes", [True, False], ids=["taken-over", "read-again"])
def test_a_branchs_thinking_time_and_second_reading_are_no_intervals(page: Page, hall: Hall, notes: bool) -> None:
    hall.submit("a", OPEN)
    hall.turns(7)
    hall.steer("a", "pause")
    hall.wall.now += 500
    hall.branch("a", "b", 3, 77, notes=notes)
    hall.turns()
    check(mounted(page, hall, "b"), hall.books["b"])


def test_percentiles_are_those_of_the_stamps(page: Page, hall: Hall) -> None:
    hall.submit("a", dataclasses.replace(OPEN, max_new_tokens=24))
    hall.turns()
    book = hall.books["a"]
    root = mounted(page, hall, "a")
    check(root, book)
    cuts = statistics.quantiles(book.itl_s, n=20, method="inclusive")
    assert seconds(value(root, "tpot", ".more")) == [near(cuts[9]), near(cuts[18])]
    at_twenty = mounted(page, hall, "a", cursor=19)
    assert seconds(value(at_twenty, "tpot", ".more")) == [], "19 steps are too few"
