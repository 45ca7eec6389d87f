"""Links between tokens in a real browser: an example's ten heads open the map; two runs side by side answer a guess."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.desk import Desk
from tests.browser.driver import Visitor, settle
from ui import i18n

LOCALES = {"en": "en-US", "zh": "zh-CN"}
PATIENCE_MS = 60_000


def button(desk: Desk, key: str) -> Locator:
    """By the widget's own key; a button with a tooltip stands in the page twice, the first one is the real one."""
    return desk.page.locator(f".st-key-{key} button").first


def head_named(words: str) -> tuple[int, int]:
    """Layer and head of a button, in either language."""
    layer, head = re.findall(r"\d+", words)
    return int(layer), int(head)


def read_rolled(desk: Desk) -> None:
    """The first English example, read on the prefill page."""
    desk.longest(3)
    desk.press("shell.empty_button")
    first = desk.until_status("ended")["id"]
    button(desk, "link_rolled").click(timeout=PATIENCE_MS)
    desk.wait(lambda run: run["id"] != first and run["status"] == "ended")
    expect(desk.page.locator(".st-key-link_pairs")).to_be_visible(timeout=PATIENCE_MS)
    settle(desk.page)


@pytest.mark.parametrize("language", i18n.LANGUAGES)
def test_an_example_gives_ten_heads_that_open_the_map(open_page: Callable[..., Visitor], language: str) -> None:
    desk = Desk(open_page("/prefill", locale=LOCALES[language]).page, language)
    read_rolled(desk)
    boxes = [desk.page.get_by_role("combobox", name=desk.words(f"links.{name}")) for name in ("query", "key")]
    for box, shown in zip(boxes, ("10\u2002·it", "4\u2002·orange"), strict=True):
        expect(box).to_have_value(shown)
    rows = desk.page.locator(".st-key-link_heads [class*='st-key-link_head_']")
    expect(rows).to_have_count(10)
    weights = [float(text) for text in desk.page.locator(".st-key-link_heads").get_by_text(re.compile(r"^\d\.\d{3}$")).all_inner_texts()]
    assert len(weights) == 10
    assert weights == sorted(weights, reverse=True)
    layer, head = head_named(rows.first.inner_text())
    assert (layer, head) == (25, 2), "the strongest link from it to orange in SmolLM2, whatever the precision"
    assert weights[0] == pytest.approx(0.335, abs=0.02)
    rows.first.get_by_role("button").first.click()
    expect(rows.first.get_by_test_id("stBaseButton-primary").first).to_be_visible(timeout=PATIENCE_MS)
    settle(desk.page)
    expect(desk.page.locator(".st-key-layer input[type=range]")).to_have_value(str(layer))
    expect(desk.page.locator(f".st-key-head_{head}").get_by_test_id("stBaseButton-primary").first).to_be_visible()
    desk.speak({"en": "zh", "zh": "en"}[language])
    expect(rows.first.get_by_test_id("stBaseButton-primary").first).to_be_visible(timeout=PATIENCE_MS)
    assert head_named(rows.first.inner_text()) == (layer, head)


@pytest.mark.parametrize("language", i18n.LANGUAGES)
def test_a_pair_is_guessed_then_run_then_explained(open_page: Callable[..., Visitor], language: str) -> None:
    desk = Desk(open_page("/prefill", locale=LOCALES[language]).page, language)
    desk.longest(3)
    desk.press("shell.empty_button")
    current = desk.until_status("ended")["id"]
    card = desk.page.locator(".st-key-card_pair")
    expect(card.get_by_text(desk.words("pair.guess_same"))).to_be_visible(timeout=PATIENCE_MS)
    expect(button(desk, "pair_run")).to_have_count(0)
    card.get_by_text(desk.words("pair.guess_same")).click()
    button(desk, "pair_run").click(timeout=PATIENCE_MS)
    expect(card.get_by_text(desk.words("shell.predict_right"))).to_be_visible(timeout=PATIENCE_MS)
    expect(card.locator(".strip")).to_have_count(2)
    for word in ("·rolled", "·broke"):
        expect(card.get_by_role("code").filter(has_text=word)).to_be_visible()
    bars = card.get_by_text(re.compile(r"^\d\.\d{3}$"))
    rolled_orange, rolled_table, broke_orange, broke_table = (float(text) for text in bars.all_inner_texts())
    assert rolled_orange > rolled_table
    assert broke_table > broke_orange
    assert (desk.run() or {})["id"] == current, "the two do not become the current run"
    expect(card.get_by_text(desk.words("pair.why").partition("**")[2][:4])).to_be_visible()


def test_the_list_of_heads_and_the_map_lead_to_each_other(open_page: Callable[..., Visitor]) -> None:
    page = open_page("/prefill").page
    desk = Desk(page)
    desk.longest(2)
    desk.press("shell.play")
    desk.until_status("ended")
    page.get_by_role("button", name=desk.words("links.rolled_short")).click()
    for target in ("heads", "map"):
        page.locator(f'a[href="#{target}"]').first.click()
        page.wait_for_function(
            "name => { const top = document.getElementById(name).getBoundingClientRect().top; return top >= 0 && top < innerHeight / 2; }",
            arg=target,
        )
