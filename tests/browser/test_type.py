"""Type: Latin letters and quotation marks come from a Latin font in English; in Chinese the marks are as wide as a character."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.browser.desk import Desk
from tests.browser.driver import Visitor

# Widths of a pair of quotation marks and of one Chinese character, in the page's own text and in its headings, in ems.
WIDTHS = """() => {
  const pen = document.createElement("canvas").getContext("2d");
  const family = (selector) => getComputedStyle(document.querySelector(selector)).fontFamily;
  const wide = (selector, text) => ((pen.font = `100px ${family(selector)}`), pen.measureText(text).width / 100);
  return ["[data-testid=stSidebar] p", "h1"].map((selector) => [wide(selector, "“”") / 2, wide(selector, "中")]);
}"""
LATIN_READY = """() => {
  const there = [...document.fonts].filter((font) => font.status === "loaded").map((font) => font.family);
  return there.includes("Source Sans") && there.includes("Source Serif");
}"""
FETCH = """() => {
  const load = (name) => document.fonts.load(`16px "${name}"`, "“").catch(() => null);
  return Promise.all(["Chinese Marks", "Chinese Marks Serif"].map(load)).then(() => null);
}"""
MARKS = "() => [...document.fonts].filter((font) => font.family.startsWith('Chinese Marks')).map((font) => font.status)"
MARKS_THERE = f"() => {{ const all = ({MARKS})(); return all.length === 2 && !all.includes('loading'); }}"


def latin(desk: Desk) -> bool:
    return all(mark < 0.6 for mark, _ in desk.page.evaluate(WIDTHS))


@pytest.mark.parametrize("begun", ["en-US", "zh-CN"])
def test_quotation_marks_are_of_the_readers_language(open_page: Callable[..., Visitor], begun: str) -> None:
    desk = Desk(open_page("/prefill", locale=begun).page, begun[:2])
    if begun == "zh-CN":
        desk.page.wait_for_function(MARKS_THERE)
        wide_in_chinese(desk)
        desk.speak("en")
    desk.page.wait_for_function(f"() => !({MARKS})().length")
    desk.page.wait_for_function(LATIN_READY)
    assert latin(desk)
    desk.speak("zh")
    desk.page.wait_for_function(MARKS_THERE)
    wide_in_chinese(desk)


def wide_in_chinese(desk: Desk) -> None:
    desk.page.evaluate(FETCH)
    for status, (mark, character) in zip(desk.page.evaluate(MARKS), desk.page.evaluate(WIDTHS), strict=True):
        assert status != "loaded" or mark == pytest.approx(character, abs=0.02), "where this computer has a Chinese font"
