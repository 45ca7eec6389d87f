"""A hand that is quicker than a picture: components take no clicks and no keys before they have drawn for the first time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from ui import i18n
from ui.components import mount

NAMES = sorted(path.parent.name for path in mount.ASSETS.glob("*/*.html"))
# Mounts one component and never lets it draw; gives the middle of everything that could be clicked.
MOUNT = """async ({html, css, script, data}) => {
  window.requestAnimationFrame = () => 1;
  document.body.innerHTML = `<style>${css}</style><button id="before">a</button><div id="host">${html}</div>`;
  const module = await import(URL.createObjectURL(new Blob([script], { type: "text/javascript" })));
  module.default({ parentElement: document.getElementById("host"), data, setStateValue() {}, setTriggerValue() {} });
  const boxes = [...document.querySelectorAll("#host *")].map((node) => node.getBoundingClientRect());
  return boxes.filter((box) => box.width && box.height).map((box) => [box.x + box.width / 2, box.y + box.height / 2]);
}"""


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1000, "height": 1600})
    yield context.new_page()
    context.close()


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_taken_before_the_first_picture(page: Page, name: str) -> None:
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    words = {key: entry["en"] for key, entry in i18n.table("components").items()}
    html = (mount.ASSETS / name / f"{name}.html").read_text(encoding="utf-8")
    given = {"html": html, "css": mount.style(name), "script": mount.script(name)}
    spots = page.evaluate(MOUNT, given | {"data": {"run_id": None, "path": "", "labels": words}})
    for x, y in spots:
        page.mouse.click(x, y)
    page.locator("#before").focus()
    for key in ("Tab", "Space", "ArrowRight", "Enter", "End", "Escape"):
        page.keyboard.press(key)
    assert errors == []
    assert page.evaluate("document.querySelector('#host .ob').inert")
