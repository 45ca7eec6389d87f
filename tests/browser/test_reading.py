"""The picture of the reading by itself: it moves to the measured times, all columns of a layer together, and obeys mouse and keys."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from engine.trace import PrefillTrace, Token
from tests.browser.test_parts import show
from tests.samples import INFO, PREFILL, SHAPE
from ui import i18n

LAYER_S = (0.010, 0.020, 0.030, 0.015)
REST_S = 0.005
MODEL = replace(INFO, shape=replace(SHAPE, num_hidden_layers=4, layer_windows=(None,) * 4))
LAST = len(LAYER_S) + 1  # all layers, and the first token read off
WORDS = {key: entry["en"] for key, entry in i18n.table("components").items()}

# The colours of one layer's row at the middle of each column; rows counted from below, as the layers are.
ROW = """([layer, layers, columns]) => {
  const canvas = document.querySelector('.sheet canvas');
  const pen = canvas.getContext('2d');
  const density = canvas.width / parseFloat(canvas.style.width);
  const [left, cell, y] = [36, 40, 24 + (layers - 1 - layer) * 20 + 8];
  const colour = (x) => [...pen.getImageData(x * density, y * density, 1, 1).data].join();
  return Array.from({ length: columns }, (_, at) => colour(left + (at + 0.5) * cell));
}"""

# Whether anything is painted at the two given distances from the left, in a layer's row.
OPAQUE = """([inside, beyond, layer, layers]) => {
  const canvas = document.querySelector('.sheet canvas');
  const density = canvas.width / parseFloat(canvas.style.width);
  const y = 24 + (layers - 1 - layer) * 20 + 8;
  return [inside, beyond].map((x) => canvas.getContext('2d').getImageData(x * density, y * density, 1, 1).data[3] > 0);
}"""


def tokens(count: int) -> tuple[Token, ...]:
    kinds = ["template"] * (count // 2) + ["prompt"] * (count - count // 2)
    return tuple(Token(at, b" a", " a", kind, at) for at, kind in enumerate(kinds))


def trace(count: int, **changes: Any) -> PrefillTrace:
    first = Token(9, b"<b>&amp;</b>", "<b>&amp;</b>", "generated", count)
    read = replace(PREFILL, prompt_tokens=count, prefill_s=sum(LAYER_S) + REST_S, layer_s=LAYER_S, first=first)
    return replace(read, **changes)


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1200, "height": 800})
    yield context.new_page()
    context.close()


@pytest.fixture
def still_page(browser: Browser) -> Iterator[Page]:
    """A reader who wants no motion."""
    context = browser.new_context(viewport={"width": 1200, "height": 800}, reduced_motion="reduce")
    yield context.new_page()
    context.close()


def reading(page: Page, count: int = 8, read: PrefillTrace | None = None) -> None:
    show(page, "reading", trace(count) if read is None else read, run={"model": MODEL, "tokens": tokens(count)})


def stage(page: Page) -> int:
    return int(page.locator(".sheet").get_attribute("aria-valuenow") or -1)


def clock(page: Page) -> str:
    return page.locator(".clock b").inner_text()


def test_it_plays_by_itself_once_and_ends_full(page: Page) -> None:
    reading(page)
    assert WORDS["reading_pause"] in page.locator(".go").inner_text()
    page.get_by_role("button", name=WORDS["reading_real"]).click()
    page.wait_for_function(f"document.querySelector('.sheet').getAttribute('aria-valuenow') === '{LAST}'")
    assert clock(page) == "80.0 ms"
    assert WORDS["reading_play"] in page.locator(".go").inner_text()
    page.evaluate("window.__openbook.idle.revision += 1, window.__openbook.wake()")
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert clock(page) == "80.0 ms", "news of the run do not start it again"
    assert WORDS["reading_play"] in page.locator(".go").inner_text()


def test_without_motion_the_sheet_is_full_at_once(still_page: Page) -> None:
    reading(still_page)
    assert stage(still_page) == LAST
    assert clock(still_page) == "80.0 ms"
    assert WORDS["reading_play"] in still_page.locator(".go").inner_text()


def test_one_sentence_says_what_was_measured(still_page: Page) -> None:
    reading(still_page)
    facts = {"n": "8", "layers": 4, "total": "80.0 ms", "least": "10.0 ms", "most": "30.0 ms", "rest": "5.0 ms"}
    assert still_page.locator(".says").inner_text() == WORDS["reading_says"].format(**facts)
    sheet = still_page.get_by_role("slider", name=WORDS["reading_name"])
    done = WORDS["reading_value"].format(done=4, layers=4, time="80.0 ms")
    assert sheet.get_attribute("aria-valuetext") == f"{done} {WORDS['reading_first'].format(text='<b>&amp;…')}", "literally"
    described = sheet.get_attribute("aria-describedby")
    assert still_page.locator(f"#{described}").inner_text() == WORDS["reading_says"].format(**facts)


def test_keys_go_layer_by_layer_and_stay_inside(still_page: Page) -> None:
    reading(still_page)
    still_page.evaluate("() => { document.onkeydown = (event) => (window.heard = [...(window.heard ?? []), event.key]); }")
    sheet = still_page.locator(".sheet")
    sheet.focus()
    seen = []
    for key in ("Home", "ArrowUp", "ArrowRight", "ArrowUp", "ArrowDown", "ArrowLeft", "End", "ArrowUp"):
        still_page.keyboard.press(key)
        seen.append((stage(still_page), clock(still_page)))
    first, second, third, last = (1, "10.0 ms"), (2, "30.0 ms"), (3, "60.0 ms"), (LAST, "80.0 ms")
    assert seen == [(0, "0.0 ms"), first, second, third, second, first, last, last]
    still_page.keyboard.press("Space")
    assert WORDS["reading_pause"] in still_page.locator(".go").inner_text(), "asked for, it plays even so"
    still_page.keyboard.press("Space")
    assert WORDS["reading_pause"] not in still_page.locator(".go").inner_text()
    assert still_page.evaluate("window.heard") is None, "the page's own Space and arrows play the run"
    sheet.evaluate("node => node.blur()")
    still_page.keyboard.press("ArrowRight")
    assert still_page.evaluate("window.heard") == ["ArrowRight"]


def test_all_columns_of_a_layer_move_together(still_page: Page) -> None:
    reading(still_page)
    still_page.locator(".sheet").focus()

    def row(layer: int) -> list[str]:
        return still_page.evaluate(ROW, [layer, len(LAYER_S), 8])

    still_page.keyboard.press("End")
    full = row(0)
    assert len(set(full[:4])) == len(set(full[4:])) == 1
    assert full[0] != full[4], "template and prompt are told apart"
    still_page.keyboard.press("Home")
    blank = row(0)
    assert all(was != now for was, now in zip(full[4:], blank[4:], strict=True))
    for layer in range(len(LAYER_S)):
        still_page.keyboard.press("ArrowUp")
        assert [row(at) for at in range(len(LAYER_S))] == [full] * (layer + 1) + [blank] * (len(LAYER_S) - 1 - layer)


def test_a_click_on_a_row_shows_the_sheet_after_it(still_page: Page) -> None:
    reading(still_page)
    still_page.locator(".sheet").click(position={"x": 60, "y": 24 + 20 * 2 + 10})  # the second row from below
    assert (stage(still_page), clock(still_page)) == (2, "30.0 ms")
    still_page.locator(".sheet").click(position={"x": 60, "y": 10})
    assert stage(still_page) == LAST


def test_speeds_are_told_as_factors(still_page: Page) -> None:
    reading(still_page)
    pace = still_page.locator(".pace")
    for button, words in (
        (WORDS["reading_in"].format(n=6), WORDS["reading_pace_slow"].format(n=75)),
        (WORDS["reading_in"].format(n=20), WORDS["reading_pace_slow"].format(n=250)),
        (WORDS["reading_real"], WORDS["reading_pace_real"]),
    ):
        chosen = still_page.get_by_role("button", name=button)
        chosen.click()
        assert chosen.get_attribute("aria-pressed") == "true"
        assert pace.inner_text() == words
    reading(still_page, read=trace(8, prefill_s=60.0, layer_s=(12.0, 12.0, 12.0, 12.0)))
    assert pace.inner_text() == WORDS["reading_pace_fast"].format(n=10)


def test_thousands_of_tokens_are_thinned_and_it_is_said(still_page: Page) -> None:
    reading(still_page, count=4096)
    per = -(-4096 * 2 // (1200 - 36 - 150 - 16))  # two pixels a column; 16: the empty page's own margin
    assert WORDS["reading_thinned"].format(n=per) in still_page.locator(".says").inner_text()
    last = 1200 - 16 - 150  # where the columns end; beside it the layers' times have their room
    edge = still_page.evaluate(OPAQUE, [last - 2, last + 4, 3, 4])
    assert edge == [True, False], "all columns are drawn, and end where they should"
    assert stage(still_page) == LAST


def test_an_uneven_layer_is_not_left_unexplained(still_page: Page) -> None:
    reading(still_page, read=trace(8, prefill_s=0.5, layer_s=(0.010, 0.011, 0.3, 0.012)))
    assert WORDS["reading_uneven"] in still_page.locator(".says").inner_text()
    reading(still_page)
    assert WORDS["reading_uneven"] not in still_page.locator(".says").inner_text()


def test_without_layer_times_nothing_is_replayed(page: Page) -> None:
    reading(page, read=trace(8, layer_s=()))
    words = WORDS["reading_untimed"].format(n="8", layers=4, total="80.0 ms")
    assert page.locator(".says").inner_text() == words
    assert not page.locator(".go").is_visible()
    assert page.get_by_role("img", name=words).count() == 1, "the picture's alternative text says the same"
    assert clock(page) == "80.0 ms"


def test_before_the_reading_the_sheet_waits(page: Page) -> None:
    show(page, "reading", None, run={"model": MODEL, "tokens": tokens(8)})
    assert page.locator(".says").inner_text() == WORDS["reading_waiting"].format(n="8")
    assert not page.locator(".go").is_visible()
    rows = [page.evaluate(ROW, [layer, 4, 8]) for layer in range(4)]
    assert rows == [rows[0]] * 4, "blank"
