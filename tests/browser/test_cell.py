"""One cell of the notes: its two vectors by themselves, and opened in a real run while it plays."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.alone import MOUNT
from tests.browser.desk import Desk
from tests.browser.driver import Visitor, settle
from ui import i18n
from ui.components import mount


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1000, "height": 900}, reduced_motion="reduce")
    yield context.new_page()
    context.close()


def test_a_cell_s_vectors_are_drawn_and_read_out_as_they_are(page: Page) -> None:
    numbers = np.random.default_rng(0).normal(size=(2, 3, 16)).astype("<f4")
    numbers[0, 1, 5], numbers[1, 2, 0] = -7.25, 4.5
    html = (mount.ASSETS / "cell" / "cell.html").read_text(encoding="utf-8")
    words = {key: entry["en"] for key, entry in i18n.table("components").items()}
    data = {"run_id": None, "path": "", "cursor": None, "labels": words, "name": "Layer 1, position 2", "heads": 3, "width": 16}
    data["numbers"] = base64.b64encode(numbers.tobytes()).decode()
    assets = {"name": "cell", "html": html, "css": mount.style("cell"), "script": mount.script("cell")}
    page.evaluate(MOUNT, assets | {"data": data, "store": {}})
    rows = page.locator(".row")
    expect(rows).to_have_count(6)
    for row, (head, part) in enumerate((head, part) for head in range(3) for part in range(2)):
        vector = numbers[part, head].astype(float)
        said = rows.nth(row).inner_text().replace("−", "-")
        assert f"{'value' if part else 'key'} · KV head {head}" in said
        for name, value in (("min", vector.min()), ("max", vector.max()), ("norm", np.linalg.norm(vector))):
            found = re.search(rf"{name} (-?[\d.]+)", said)
            assert found is not None, said
            assert float(found[1]) == pytest.approx(value, rel=1e-3)
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    expect(page.locator(".readout")).to_have_text("key · KV head 1, number 5 of 16 (counted from 0): −7.25")
    box = rows.nth(5).locator("canvas").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 2, box["y"] + 4)
    expect(page.locator(".readout")).to_have_text("value · KV head 2, number 0 of 16 (counted from 0): 4.5")
    signs = "canvas => [...canvas.getContext('2d').getImageData(2, 0, 1, canvas.height).data].filter((_, at) => at % 4 === 3)"
    column = rows.nth(5).locator("canvas").evaluate(signs)
    assert all(column[2 : len(column) // 2]), "above zero: the bar that reaches the edge stands on the line"
    assert not any(column[len(column) // 2 + 1 :])


def test_a_cell_opens_while_the_run_plays_and_keeps_its_picture(open_page: Callable[..., Visitor]) -> None:
    desk = Desk(open_page("/").page)
    desk.longest(400)
    desk.write("Tell me a long story about an orange that rolled off a table.")
    desk.go("decode")
    desk.press("shell.play")
    desk.until_steps(3)
    desk.page.locator(".notes canvas.cells").click(position={"x": 40, "y": 60})
    rows = desk.page.locator(".cell .rows .row")
    expect(rows).to_have_count(6)  # SmolLM2: key and value of three KV heads
    run = desk.run()
    assert run is not None
    assert (run["status"], run["stop_reason"]) == ("running", None)
    said = rows.first.locator("xpath=..").get_attribute("aria-label")
    assert said
    desk.until_steps(run["steps"] + 5)
    desk.press("shell.pause")
    paused = desk.until_status("paused")
    assert paused["kv_tokens"] == paused["tokens"] + paused["generated"] - 1
    settle(desk.page)
    assert rows.first.locator("xpath=..").get_attribute("aria-label") == said
    expect(desk.page.locator(".notes .lit")).to_contain_text("went to the very first column")
    desk.speak("zh")
    expect(rows).to_have_count(6)
    expect(desk.page.locator(".notes .lit")).to_contain_text("最开头那列占")
    desk.press("shell.step")
    stepped = desk.wait(lambda seen: seen["steps"] > paused["steps"])
    assert stepped["steps"] == paused["steps"] + 1
    desk.press("cells.close")
    expect(rows).to_have_count(0)
    desk.press("shell.stop")
    desk.until_status("ended")


def test_escape_closes_the_opened_cell_wherever_the_focus_is(open_page: Callable[..., Visitor]) -> None:
    desk = Desk(open_page("/").page)
    desk.longest(6)
    desk.press("shell.play")
    desk.until_status("ended")
    desk.go("decode")
    rows, panel = desk.page.locator(".cell .rows .row"), desk.page.locator(".st-key-opened_cell")
    for leave in (False, True):
        desk.page.locator(".notes canvas.cells").click(position={"x": 40, "y": 60})  # the grid has the focus now
        expect(rows).to_have_count(6)
        settle(desk.page)
        if leave:
            panel.click(position={"x": 4, "y": 4})
        desk.page.keyboard.press("Escape")
        expect(panel).to_have_count(0)
        expect(desk.page.locator(".notes .spot.opened")).to_be_hidden()
