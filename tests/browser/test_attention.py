"""The attention map in a real browser: every cell its own, its true number on request, and picks by mouse and by keyboard."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import numpy as np
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from engine.trace import Token
from tests.browser.desk import Desk
from tests.browser.driver import Visitor, settle
from ui import i18n, weights
from ui.components import mount

LOCALES = {"en": "en-US", "zh": "zh-CN"}
REPEATED = ["the", " cat", " sat", " on", " the", " mat", " the", " cat", "1e1", "2024-01-01", "</b><i>", "\n", ""]
MOUNT = """async ({html, css, script, data}) => {
  document.body.innerHTML = `<style>:root { --st-background-color: #fbf8f1; --st-text-color: #1f2a44; }</style>
    <style>${css}</style><div id="host" style="width: 640px">${html}</div>`;
  window.picks = [];
  const module = await import(URL.createObjectURL(new Blob([script], { type: "text/javascript" })));
  const setTriggerValue = (name, value) => window.picks.push([name, value]);
  module.default({ parentElement: document.getElementById("host"), data, setTriggerValue });
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
}"""
# The colours at the middle of every cell, row by row, as [red, green, blue, alpha].
CELLS = """count => {
  const canvas = document.querySelector(".cells"), pen = canvas.getContext("2d"), size = canvas.width / count;
  const at = (index) => Math.floor((index + 0.4) * size);
  const pixel = (row, column) => [...pen.getImageData(at(column), at(row), 1, 1).data];
  return Array.from({length: count}, (_, row) => Array.from({length: count}, (_, column) => pixel(row, column)));
}"""


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(device_scale_factor=2)
    yield context.new_page()
    context.close()


def tokens_of(texts: list[str]) -> list[Token]:
    kinds = ("template", "prompt", "generated")
    return [Token(id, text.encode() or b"\xe4\xbd", text, kinds[min(id // 3, 2)], id) for id, text in enumerate(texts)]


def causal(count: int) -> np.ndarray:
    rows = np.tril(np.random.default_rng(3).random((count, count), dtype=np.float32) ** 2 + 0.01)
    return rows / rows.sum(1, keepdims=True)


def show(page: Page, rows: np.ndarray, texts: list[str], language: str = "en", **data: Any) -> dict[str, str]:
    """Mount the component alone; gives its words."""
    words = i18n.labels(language, "attention_map")
    name = "attention_map"
    first = weights.first_row(rows)
    given = {
        "run_id": None,
        "path": "",
        "cursor": None,
        "labels": words,
        "name": "layer 1",
        "tokens": msgspec.to_builtins(tokens_of(texts)[first:]),
    }
    given |= {"first": first, "triangle": base64.b64encode(weights.packed(rows)).decode(), "window": None, "first_shown": True}
    html = (mount.ASSETS / name / f"{name}.html").read_text(encoding="utf-8")
    page.evaluate(
        MOUNT,
        {"html": html, "css": mount.style(name), "script": mount.script(name), "data": given | {"query": None, "key_at": None} | data},
    )
    return words


def told_weight(weight: float) -> str:
    return "<0.001" if weight < 0.0005 else f"{weight:.3f}"


def cells_of(page: Page, count: int) -> np.ndarray:
    """[rows, columns, 4]: the colour drawn for every pair of positions."""
    return np.array(page.evaluate(CELLS, count))


def point(page: Page, row: int, column: int, count: int) -> None:
    box = page.locator(".cells").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + (column + 0.5) * box["width"] / count, box["y"] + (row + 0.5) * box["height"] / count)


def test_every_pair_has_its_own_cell_whatever_the_tokens_are_called(page: Page) -> None:
    count = len(REPEATED)
    rows = causal(count)
    show(page, rows, REPEATED)
    drawn = cells_of(page, count)
    assert drawn.shape == (count, count, 4)
    below = np.tril(np.ones((count, count), bool))
    assert (drawn[..., 3] == np.where(below, 255, 0)).all(), "a cell for every token that can be seen, nothing above the diagonal"
    order = np.argsort(rows[below])
    darkness = -drawn[below].astype(int) @ [0.2126, 0.7152, 0.0722, 0]
    assert (np.diff(darkness[order]) >= -1e-9).all(), "more weight is more ink"
    assert len(np.unique(drawn[below], axis=0)) > len(order) / 2, "and different weights are different colours"


def test_the_readout_says_both_tokens_both_positions_and_the_true_weight(page: Page) -> None:
    count = len(REPEATED)
    rows = causal(count)
    words = show(page, rows, REPEATED)
    readout = page.locator(".readout")
    expect(readout).to_have_text(words["attention_map_hint"])
    for row, column in ((7, 1), (7, 6), (6, 4), (12, 11), (10, 8)):
        point(page, row, column, count)
        names = [(REPEATED[at].replace(" ", "·").replace("\n", "↵") or "E4 BD") for at in (row, column)]
        told = words["attention_map_cell"].format(query=names[0], q=row, key=names[1], k=column, weight=f"{rows[row, column]:.3f}")
        expect(readout).to_have_text(told)
    point(page, 2, 5, count)
    expect(readout).to_have_text(words["attention_map_later"].format(query="·sat", q=2, key="·mat", k=5))


def test_a_window_is_hatched_and_said(page: Page) -> None:
    count, window = 12, 4
    rows = causal(count)
    far = np.tril(np.ones((count, count), bool), -window)
    rows[far] = 0
    texts = [f"w{at}" for at in range(count)]
    words = show(page, rows, texts, window=window)
    drawn = cells_of(page, count)
    near = np.tril(np.ones((count, count), bool)) & ~far
    assert (drawn[near][:, 3] == 255).all()
    assert len(np.unique(drawn[near], axis=0)) > 20
    wash = drawn[far]
    assert not (wash[:, 3] == 255).all(), "no cell stands there, only lines"
    point(page, 9, 2, count)
    expect(page.locator(".readout")).to_have_text(words["attention_map_outside"].format(query="w9", q=9, key="w2", k=2, n=window))
    expect(page.locator(".ob-legend")).to_contain_text(words["attention_map_window"].format(n=window))


def test_the_first_column_is_left_blank_but_its_number_is_not_lost(page: Page) -> None:
    rows = causal(9)
    words = show(page, rows, REPEATED[:9], first_shown=False)
    drawn = cells_of(page, 9)
    assert not drawn[:, 0, 3].any()
    assert (drawn[1:, 1, 3] == 255).all()
    point(page, 5, 0, 9)
    told = words["attention_map_unshown"].format(query="·mat", q=5, key="the", k=0, weight=f"{rows[5, 0]:.3f}")
    expect(page.locator(".readout")).to_have_text(told)


@pytest.mark.parametrize("language", i18n.LANGUAGES)
def test_the_keyboard_walks_over_the_cells_and_picks(page: Page, language: str) -> None:
    count = len(REPEATED)
    rows = causal(count)
    words = show(page, rows, REPEATED, language, query=7, key_at=2)
    heard: list[str] = []
    page.expose_function("hear", lambda key: heard.append(key))
    page.evaluate("() => document.body.onkeydown = (event) => window.hear(event.key)")
    grid = page.get_by_role("application", name=re.compile(re.escape(words["attention_map_name"].format(name="layer 1", n=count)[:20])))
    page.keyboard.press("Tab")
    expect(grid).to_be_focused()
    readout = page.locator(".readout")
    steps = [
        ("ArrowRight", 7, 3),
        ("ArrowDown", 8, 3),
        ("End", 8, 8),
        ("ArrowRight", 8, 8),
        ("ArrowUp", 7, 7),
        ("Home", 7, 0),
        ("PageUp", 0, 0),
    ]
    for key, row, column in steps:
        page.keyboard.press(key)
        names = [(REPEATED[at].replace(" ", "·") or "E4 BD") for at in (row, column)]
        weight = f"{rows[row, column]:.3f}"
        expect(readout).to_have_text(words["attention_map_cell"].format(query=names[0], q=row, key=names[1], k=column, weight=weight))
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert page.evaluate("window.picks") == [["picked", {"query": 1, "key": 0}]]
    page.keyboard.press("Escape")
    expect(readout).to_have_text(re.compile(re.escape(f"{rows[7, 2]:.3f}")))
    assert heard == ["Tab"], "these keys belong to the map, not to the page"


def test_clicks_pick_a_cell_a_row_and_nothing_that_comes_later(page: Page) -> None:
    count = len(REPEATED)
    show(page, causal(count), REPEATED)
    for row, column in ((6, 4), (3, 9)):
        point(page, row, column, count)
        page.mouse.down()
        page.mouse.up()
    labels = page.locator("canvas.rows").bounding_box()
    cells = page.locator(".cells").bounding_box()
    assert labels is not None
    assert cells is not None
    page.mouse.click(labels["x"] + 5, cells["y"] + 8.5 * cells["height"] / count)
    picks = [value for _, value in page.evaluate("window.picks")]
    assert picks == [{"query": 6, "key": 4}, {"query": 3, "key": None}, {"query": 8, "key": None}]


def test_a_screen_reader_is_told_the_strongest_links_of_the_picked_row(page: Page) -> None:
    rows = causal(9)
    words = show(page, rows, REPEATED[:9], query=8)
    names = [text.replace(" ", "·") for text in REPEATED]
    best = np.argsort(-rows[8])[:5]
    links = " | ".join(words["attention_map_link"].format(key=names[at], k=at, weight=f"{rows[8, at]:.3f}") for at in best)
    expect(page.locator(".summary")).to_have_text(words["attention_map_reads"].format(query="1e1", q=8, links=links))


def test_the_largest_map_is_drawn_at_once_and_shows_the_newest_rows(page: Page) -> None:
    rows = causal(400)[-weights.MOST_DRAWN :]
    words = show(page, rows, [f"w{at}" for at in range(400)])
    drawn = cells_of(page, weights.MOST_DRAWN)
    inside = np.tril(np.ones(drawn.shape[:2], bool), -2)
    assert (drawn[inside][:, 3] == 255).all()
    point(page, 255, 100, 256)
    told = words["attention_map_cell"].format(query="w399", q=399, key="w244", k=244, weight=told_weight(rows[255, 244]))
    expect(page.locator(".readout")).to_have_text(told)


def open_map(open_page: Callable[..., Visitor], language: str, question: str = "the cat sat on the mat the cat") -> tuple[Desk, Locator]:
    """A finished run on the prefill page."""
    desk = Desk(open_page("/", locale=LOCALES[language]).page, language)
    desk.longest(4)
    desk.ask(question)
    desk.until_status("ended")
    expect(desk.button("shell.stop")).to_be_disabled(timeout=30_000)  # the page knows of the end: no rerun of it is under way
    desk.go("prefill")
    picture = desk.page.locator(".attention")
    expect(picture.locator(".cells")).to_be_visible(timeout=30_000)
    return desk, picture


@pytest.mark.parametrize("language", i18n.LANGUAGES)
def test_a_pick_in_the_map_is_shown_in_strip_and_map(open_page: Callable[..., Visitor], language: str) -> None:
    desk, picture = open_map(open_page, language)
    expect(picture.locator(".axis.query")).to_have_text(desk.words("components.attention_map_query"))
    expect(picture.locator(".axis.key")).to_have_text(desk.words("components.attention_map_key"))
    run = desk.run()
    assert run is not None
    cells = picture.locator(".cells")
    cells.scroll_into_view_if_needed()
    box = cells.bounding_box()
    assert box is not None
    size = box["width"] / run["tokens"]
    cells.click(position={"x": 3.5 * size, "y": 20.5 * size})
    strip = desk.page.locator(".strip.pick")
    expect(strip.locator(".chip").nth(20)).to_have_class(re.compile("reader"))
    expect(strip.locator(".chip").nth(3)).to_have_class(re.compile("target"))
    settle(desk.page)
    picture.locator(".grid").focus()
    for key in ("ArrowDown", "ArrowRight", "Enter"):
        desk.page.keyboard.press(key)
    expect(strip.locator(".chip.reader")).to_have_count(1)
    assert desk.run() == run, "the arrow keys moved the map's cell, not the run"


@pytest.mark.parametrize("language", i18n.LANGUAGES)
def test_a_pick_in_the_strip_marks_the_row(open_page: Callable[..., Visitor], language: str) -> None:
    desk, picture = open_map(open_page, language)
    chips = desk.page.locator(".strip.pick .chip")
    chips.nth(12).click()
    expect(chips.nth(12)).to_have_class(re.compile("reader"))
    token = chips.nth(12).inner_text().split("\n")[0]
    expect(picture.locator(".readout")).to_contain_text(token.replace("▸", "").strip())
    expect(picture.locator(".readout")).to_contain_text("12")
    summary = picture.locator(".summary")
    expect(summary).to_contain_text(re.compile(r"12"))


def test_another_head_is_another_picture_in_the_same_place(open_page: Callable[..., Visitor]) -> None:
    desk, picture = open_map(open_page, "en")
    cells = picture.locator(".cells")
    before, name = cells.evaluate("canvas => canvas.toDataURL()"), picture.locator(".grid").get_attribute("aria-label")
    place = cells.bounding_box()
    desk.page.get_by_role("button", name="4", exact=True).click()
    expect(picture.locator(".grid")).to_have_attribute("aria-label", re.compile(desk.words("attention.head_n").format(head=4)))
    assert name != picture.locator(".grid").get_attribute("aria-label")
    assert cells.evaluate("canvas => canvas.toDataURL()") != before
    after = cells.bounding_box()
    assert place is not None
    assert after is not None
    assert (after["width"], after["height"]) == (place["width"], place["height"])
