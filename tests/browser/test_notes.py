"""The notes by themselves: which cell a pointer or a key means, and what a step costs to draw."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.alone import COLUMN, inked, model, packed, show_notes, told, write


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1000, "height": 900}, reduced_motion="reduce")
    yield context.new_page()
    context.close()


@pytest.mark.parametrize(("tokens", "longest"), [(2040, 8), (100, 40), (333, 1)])
def test_a_click_means_the_cell_under_it(page: Page, tokens: int, longest: int) -> None:
    """position = floor(x / cell), layer = floor(y / row): the picture's own proportions, also where it is wider than its frame."""
    layers = 48
    show_notes(page, tokens, info=model(layers), longest=longest)
    cells = page.locator("canvas.cells")
    box = cells.bounding_box()
    assert box is not None
    columns = tokens + longest - 1
    cell, row = box["width"] / columns, box["height"] / layers
    assert cell >= 2
    for position in {0, 1, tokens // 3, tokens // 2 + 1, tokens - 2, tokens - 1, columns - 1}:
        layer = position % layers
        x = (position + 0.5) * cell
        page.locator(".scroll").evaluate("(box, x) => { box.scrollLeft = x - box.clientWidth / 2; }", x)
        now = cells.bounding_box()
        assert now is not None
        page.mouse.click(now["x"] + x, now["y"] + (layer + 0.5) * row)
        assert told(page)[-1] == ["opened", {"run": None, "layer": layer, "position": position}]


# For every pixel of the columns that are written: the position that a click there means, and the columns that end left of it.
EVERY_PIXEL = """() => {
  const [cells, sheet] = [document.querySelector('.cells'), document.querySelector('.sheet')];
  const box = cells.getBoundingClientRect();
  const row = cells.getContext('2d').getImageData(0, 1, Math.floor(box.width), 1).data;
  const found = [];
  for (let x = 0, ended = 0; ended < 90; x += 1) {
    sheet.onclick({ clientX: box.left + x + 0.5, clientY: box.top + 1 });
    found.push([window.told.at(-1)[1].position, ended]);
    if (row[4 * x + 3] === 0) ended += 1;
  }
  return found;
}"""


def test_every_pixel_belongs_to_the_column_that_is_painted_there(page: Page) -> None:
    """Columns begin at whole pixels; with a mean width that is none, the pointer must follow the picture, not the mean."""
    show_notes(page, 90, longest=31)
    wide = page.evaluate("() => parseFloat(document.querySelector('canvas.cells').style.width)")
    assert (wide / 120) % 1 > 0.01, "a width that tests nothing"
    found = page.evaluate(EVERY_PIXEL)
    assert len(found) > 90 * 5
    assert all(position == ended for position, ended in found)


def test_keys_walk_from_cell_to_cell_and_open_one(page: Page) -> None:
    show_notes(page, 20)
    write(page, 3)
    sheet, readout = page.locator(".sheet"), page.locator(".readout")
    page.keyboard.press("Tab")
    expect(sheet).to_be_focused()
    expect(readout).to_contain_text("position 22")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(readout).to_contain_text("Layer 2 · w1 (position 1, question)")
    page.keyboard.press("Enter")
    page.keyboard.press("End")
    page.keyboard.press("ArrowRight")
    expect(readout).to_contain_text("still blank")
    page.keyboard.press("Space")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Space")
    blank = ["opened", {"run": None, "layer": 2, "position": 23}]
    first = ["opened", {"run": None, "layer": 2, "position": 1}]
    assert told(page) == [first, blank, blank], "one column beyond what is written, and no further"
    page.keyboard.press("Escape")
    expect(readout).to_have_class(re.compile("hint"))
    expect(sheet).to_have_attribute("aria-label", re.compile(f"4 layers by 23 tokens, {23 * COLUMN:,} bytes"))


def test_nothing_is_opened_on_the_way_to_another_page(page: Page) -> None:
    show_notes(page, 20)
    page.evaluate("() => { window.__openbook.way = { path: '/elsewhere', until: Infinity }; }")
    page.locator("canvas.cells").click(position={"x": 5, "y": 5})
    assert told(page) == []


def test_without_a_hand_for_it_no_cell_opens(page: Page) -> None:
    show_notes(page, 20, opens=False)
    page.locator("canvas.cells").click(position={"x": 5, "y": 5})
    assert told(page) == []
    assert page.locator(".sheet").get_attribute("tabindex") is None
    assert page.locator(".grid").get_attribute("role") == "img"
    assert not page.locator(".lit").is_visible()
    assert not page.locator(".reads").is_visible()


@pytest.mark.parametrize(("tokens", "windows"), [(2000, None), (2000, 512), (60, None)])
def test_a_step_repaints_the_same_few_columns_however_long_the_text(page: Page, tokens: int, windows: int | None) -> None:
    layers = 48
    spans = (None,) * layers if windows is None else tuple(None if at % 6 == 5 else windows for at in range(layers))
    show_notes(page, tokens, info=model(layers, spans), longest=48, status="running", windows=list(spans))
    page.evaluate("() => { window.__openbook.inked = []; }")
    write(page, 40, layers)
    steps = inked(page)
    assert len(steps) == 40
    assert not any(each["full"] for each in steps)
    assert {each["columns"] for each in steps} == {2 if windows is None else 3}, "the new one, the one before, the one that is forgotten"


def test_opening_a_cell_and_a_new_light_leave_what_is_painted(page: Page) -> None:
    show_notes(page, 500)
    page.evaluate("() => { window.__openbook.inked = []; }")
    page.evaluate("() => window.mount({ opened: { layer: 1, position: 7 } })")
    page.evaluate("weights => window.mount({ glance: { index: 0, weights } })", packed([0.002] * 500))
    assert [each["columns"] for each in inked(page)] == [0, 0]
    assert page.locator(".spot.opened").is_visible()
    page.set_viewport_size({"width": 700, "height": 900})
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert inked(page)[-1]["columns"] >= 500, "another width is another picture"
