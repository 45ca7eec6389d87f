"""The notes by themselves: what is lit and said of a step, how a column is written, what has left a window."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.alone import COLUMN, LAYERS, model, packed, show_notes, write
from ui import i18n


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1000, "height": 900}, reduced_motion="reduce")
    yield context.new_page()
    context.close()


LIT = """position => {
  const [cells, glow] = [document.querySelector('.cells'), document.querySelector('.glow')];
  if (glow.hidden) return 0;
  const count = 20 + 39;
  const x = Math.round((position + 0.5) * parseFloat(cells.style.width) / count);
  const pixels = glow.getContext('2d').getImageData(x, 0, 1, 24).data;
  let lit = 0;
  for (let at = 3; at < pixels.length; at += 4) lit += pixels[at] > 0;
  return lit;
}"""


def bars(page: Page, *positions: int) -> list[int]:
    """Height in pixels of the bars above these columns."""
    return [page.evaluate(LIT, position) for position in positions]


def test_columns_are_lit_by_the_root_of_their_weight_and_only_in_their_own_step(page: Page) -> None:
    weights = [0.5, *[0.0] * 18, 0.0]
    weights[4], weights[9], weights[14] = 0.32, 0.08, 0.02
    show_notes(page, 20, glance={"index": 0, "weights": packed(weights)})
    tall = bars(page, 4, 9, 14, 12)
    assert tall[0] == 21
    assert tall[1] == pytest.approx(tall[0] / 2, abs=1), "a quarter of the weight is half as high"
    assert tall[2] == pytest.approx(tall[0] / 4, abs=1)
    assert tall[3] == 1
    assert bars(page, 0) == [21 - 3], "the sink would be higher: its bar is broken"
    expect(page.locator(".lit")).to_contain_text("50% went to the very first column")
    write(page, 1)
    assert bars(page, 4, 0) == [0, 0], "that was the step before"
    expect(page.locator(".lit")).to_have_class(re.compile("stale"))
    page.evaluate("() => window.mount({ unlit: 'no queries' })")
    expect(page.locator(".lit")).to_have_text("no queries")
    expect(page.locator(".lit")).not_to_have_class(re.compile("stale"))


def test_live_light_comes_with_its_step_and_its_words_wait_for_the_next(page: Page) -> None:
    show_notes(page, 20, status="running", pace_s=0.667)
    write(page, 1)
    live = "weights => window.tell({ glance: { index: 1, weights: Float32Array.from(weights) } })"
    page.evaluate(live, [0.04] * 20 + [0.2])
    lit = page.locator(".lit")
    expect(lit).to_contain_text("4.0% went to the very first column")
    assert bars(page, 20) == [21]
    write(page, 1)
    assert bars(page, 20) == [0]
    expect(lit).to_contain_text("4.0% went to the very first column")
    expect(lit).to_have_class(re.compile("stale"))
    write(page, 1)
    expect(lit).to_contain_text("Every step reads all the notes")
    assert page.locator(".readout").inner_text() == i18n.text("en", "components.notes_hint")
    expect(lit).not_to_have_class(re.compile("stale"))


def test_bytes_read_are_the_weights_and_the_notes_with_the_step_s_own_column(page: Page) -> None:
    show_notes(page, 20, weights_read_bytes=256_000 * 4, windows=[None] * LAYERS)
    reads = page.locator(".reads")
    expect(reads).to_contain_text("Read in this pass: 1,000 KiB of weights")
    expect(reads).to_contain_text("once for all 20 tokens")
    write(page, 3)
    kib = (256_000 * 4 + 23 * COLUMN) / 1024
    expect(reads).to_contain_text(f"Read in this step: {kib:,.0f} KiB")
    expect(reads).to_contain_text(f"= weights 1,000 KiB + notes {23 * COLUMN / 1024:.1f} KiB")
    expect(reads.locator(".ob-tag")).to_have_text("computed")


FILLED = """([position, layers]) => {
  const canvas = document.querySelector('.cells');
  const x = Math.round((position + 0.5) * parseFloat(canvas.style.width) / 59);
  const row = parseFloat(canvas.style.height) / layers;
  const pixels = canvas.getContext('2d').getImageData(x, 0, 1, layers * row).data;
  let count = 0;
  for (let layer = 0; layer < layers; layer += 1) count += pixels[4 * Math.round((layer + 0.4) * row) + 3] === 255;
  return count;
}"""


def filled(page: Page, position: int, layers: int) -> int:
    """Layers in which this column has ink."""
    return page.evaluate(FILLED, [position, layers])


def test_a_column_is_written_layer_by_layer_where_there_is_time(browser: Browser) -> None:
    context = browser.new_context(viewport={"width": 1000, "height": 900})
    page = context.new_page()
    # A clock of its own: the test turns it, whatever the machine's speed.
    page.evaluate("() => { window.now = performance.now(); performance.now = () => window.now; }")
    show_notes(page, 20, info=model(48), status="running", pace_s=0.667)
    turn = "ms => { window.now += ms; return new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done))); }"
    write(page, 1, 48)
    assert filled(page, 20, 48) == 48, "right behind the one before: at once"
    page.evaluate(turn, 700)
    write(page, 1, 48)
    begun = filled(page, 21, 48)
    page.evaluate(turn, 200)
    half = filled(page, 21, 48)
    page.evaluate(turn, 300)
    assert begun < half < filled(page, 21, 48) == 48
    page.evaluate(turn, 700)
    write(page, 2, 48)
    assert filled(page, 22, 48) == 48, "the next token does not wait for the pen"
    context.close()


def test_what_has_left_a_window_is_paler_and_said_to_be_gone(page: Page) -> None:
    show_notes(page, 20, info=model(LAYERS, (8, 8, 8, None)), windows=[8, 8, 8, None])
    page.locator("canvas.cells").hover(position={"x": 5, "y": 5})
    expect(page.locator(".readout")).to_contain_text("dropped: it lies outside this layer's window of 8 tokens")
    alpha = "x => document.querySelector('.cells').getContext('2d').getImageData(x, 2, 1, 1).data[3]"
    cell = page.evaluate("() => parseFloat(document.querySelector('canvas.cells').style.width)") / 59
    assert page.evaluate(alpha, int(12.4 * cell)) < 128, "12 of 20 is the newest that is gone"
    assert page.evaluate(alpha, int(13.4 * cell)) == 255
    write(page, 1)
    assert page.evaluate(alpha, int(13.4 * cell)) < 128


def test_no_light_falls_on_what_a_layer_had_forgotten(page: Page) -> None:
    """20 tokens read, a window of 8: positions 12 to 19 were read there, all of them in the layer without one."""
    weights = packed([0.05] * 20)
    show_notes(page, 20, info=model(LAYERS, (8, 8, 8, None)), windows=[8, 8, 8, None], glance={"index": 0, "weights": weights})
    light = """([position, layer]) => {
      const [cells, glow] = [document.querySelector('.cells'), document.querySelector('.glow')];
      const [x, row] = [Math.round((position + 0.4) * parseFloat(cells.style.width) / 59), parseFloat(cells.style.height) / 4];
      return glow.getContext('2d').getImageData(x, 24 + Math.floor((layer + 0.5) * row), 1, 1).data[3] > 0;
    }"""
    lit = {at: [page.evaluate(light, [at, layer]) for layer in range(LAYERS)] for at in (0, 11, 12, 19)}
    assert lit == {0: [False] * 3 + [True], 11: [False] * 3 + [True], 12: [True] * 4, 19: [True] * 4}
