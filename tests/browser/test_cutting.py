"""The ladder of merges and the three stages of a prompt, by themselves on a page without a server: what they say for known input."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import pytest
from playwright.sync_api import Browser, Page

from engine.findings import Merge, WordCut
from ui import i18n
from ui.components import mount

# Mounts one component; keys that reach the document are counted, because there they would step the run.
MOUNT = """async ({html, css, script, data}) => {
  document.body.innerHTML = `<style>${css}</style><div id="host">${html}</div>`;
  window.heard = 0;
  document.onkeydown = () => { window.heard += 1; };
  const module = await import(URL.createObjectURL(new Blob([script], { type: "text/javascript" })));
  module.default({ parentElement: document.getElementById("host"), data, setStateValue() {}, setTriggerValue() {} });
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
}"""
HOSTILE = "</span><script>window.hurt = 1</script> $5 _a_\n\u202eend"
NI = "你".encode()
WORD = WordCut(
    raw=b" " + NI,
    start=(b" ", NI[:1], NI[1:2], NI[2:]),
    merges=(Merge(41, NI[:1], NI[1:2], (b" ", NI[:2], NI[2:])), Merge(1233, NI[:2], NI[2:], (b" ", NI))),
    ids=(7, 8_000),
)


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context()
    yield context.new_page()
    context.close()


def show(page: Page, name: str, **data: Any) -> None:
    html = (mount.ASSETS / name / f"{name}.html").read_text(encoding="utf-8")
    given = mount.live_data(None, "", None, (), {}, **data) | {"labels": i18n.labels("en", name)}
    page.evaluate(MOUNT, {"html": html, "css": mount.style(name), "script": mount.script(name), "data": given})


def show_word(page: Page, word: WordCut = WORD) -> None:
    show(page, "merges", word=msgspec.to_builtins(word), rules=48_900)


def part(raw: bytes, role: str, special: bool = False) -> Mapping[str, object]:
    return {"raw": base64.b64encode(raw).decode(), "role": role, "special": special}


def rungs(page: Page) -> list[list[str]]:
    """The cells of every rung that is in sight, top to bottom."""
    read = """() => [...document.querySelectorAll('.ladder > :not(.later)')].map(
      (node) => [node.style.getPropertyValue('--row'), node.className, node.innerText])"""
    rows: dict[str, list[str]] = {}
    for row, name, text in page.evaluate(read):
        rows.setdefault(row, []).extend([] if name == "rule" else [text.replace("\n", " ")])
    return list(rows.values())


WHOLE = [["·", "E4", "BD", "A0"], ["·", "E4 BD", "A0"], ["·", "你"], ["· 7", "你 8000"]]


def test_the_ladder_stands_whole_with_its_rules(page: Page) -> None:
    show_word(page)
    assert rungs(page) == WHOLE
    rules = [rule.replace("\u00a0", " ") for rule in page.locator(".rule").all_inner_texts()]
    assert rules == ["single bytes", "rule no. 42 of 48,900", "rule no. 1,234 of 48,900", "tokens and their ids"]
    assert page.locator(".cell.new").all_inner_texts() == ["E4 BD", "你"]
    assert page.locator(".cell.pair").all_inner_texts() == ["E4", "BD", "E4 BD", "A0"]
    told = page.locator(".told li").all_text_contents()
    assert told[1] == "E4 + BD → E4 BD (rule no. 42 of 48,900)"
    assert told[-1] == "tokens and their ids: · (7), 你 (8000)"


def test_cells_stand_above_what_they_became(page: Page) -> None:
    show_word(page)
    boxes = [cell.bounding_box() for cell in page.locator(".cell").all()]
    first, last = boxes[1:4], boxes[-1]
    assert abs(first[0]["x"] - last["x"]) < 1
    assert abs(first[2]["x"] + first[2]["width"] - last["x"] - last["width"]) < 1


def test_steps_by_keyboard_and_the_page_hears_nothing(page: Page) -> None:
    show_word(page)
    slider = page.get_by_role("slider")
    for key, shown in (("ArrowLeft", 3), ("Home", 1), ("ArrowRight", 2), ("End", 4)):
        slider.press(key)
        assert rungs(page) == WHOLE[:shown]
        assert slider.get_attribute("aria-valuetext") == page.locator(".says").inner_text()
    page.get_by_role("button", name="To the beginning").press("Enter")
    assert rungs(page) == WHOLE[:1]
    page.get_by_role("button", name="One rule on").press("Space")
    assert rungs(page) == WHOLE[:2]
    page.get_by_role("button", name="One rule back").click()
    assert rungs(page) == WHOLE[:1]
    assert page.evaluate("window.heard") == 0


def test_it_plays_to_the_end_and_rests(page: Page) -> None:
    page.clock.install()
    show_word(page)
    page.get_by_role("button", name="Play").click()
    assert rungs(page) == WHOLE[:1]
    page.clock.run_for(1_000)
    assert rungs(page) == WHOLE[:2]
    page.clock.run_for(5_000)
    assert rungs(page) == WHOLE
    assert page.get_by_role("button", name="Play").count() == 1


def test_a_word_without_rules_is_two_rungs(page: Page) -> None:
    show_word(page, WordCut(b"the", (b"the",), (), (5,), whole=True))
    assert rungs(page) == [["the"], ["the 5"]]
    assert page.locator(".rule").first.inner_text() == i18n.text("en", "components.merges_whole")


def test_three_stages_are_literal(page: Page) -> None:
    parts = [part(b"<|im_start|>", "template", True), part(b"user\n", "template"), part(HOSTILE.encode() + NI[:2], "prompt")]
    show(page, "wrapping", parts=parts, tokens=[{"id": 1, "role": "template"}, {"id": 99, "role": "prompt"}], total=200)
    assert page.evaluate("window.hurt") is None
    typed = page.locator(".typed").text_content()
    assert typed == HOSTILE.replace("\n", "↵\n").replace("\u202e", "U+202E") + "E4 BD"
    assert page.locator(".whole").text_content() == "<|im_start|>user↵\n" + typed
    assert page.locator(".ids span").all_inner_texts() == ["1", "99"]
    assert page.locator(".more").inner_text() == "… and 198 more"
    assert page.locator(".name").all_inner_texts()[1] == "② What the model receives"


def test_raw_mode_says_that_nothing_was_added(page: Page) -> None:
    show(page, "wrapping", parts=[part(b"hi", "prompt")], tokens=[{"id": 1, "role": "prompt"}], total=1)
    assert page.locator(".name").all_inner_texts()[1] == "② What the model receives: nothing added"
    assert page.locator(".whole").text_content() == page.locator(".typed").text_content() == "hi"
