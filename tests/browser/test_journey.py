"""The main job in a real browser: ask, play, pause in mid-way, change page and language, resume, stop; nothing lost, nothing doubled."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.desk import Desk
from tests.browser.driver import Visitor

PAGES = ("home", "tokenize", "prefill", "decode", "detokenize")
OTHER = {"en": "zh", "zh": "en"}
LOCALES = {"en": "en-US", "zh": "zh-CN"}
LITERAL = "</span><script>alert(1)</script> $5 and $6 _a_ :red[x] <|im_end|>"
# The colour of an element's text and the first ground behind it that is not transparent, through shadow roots.
COLOURS = """element => {
  const ground = (node) => {
    const colour = getComputedStyle(node).backgroundColor;
    return /, 0\\)$|transparent/.test(colour) ? ground(node.parentElement ?? node.getRootNode().host) : colour;
  };
  return [getComputedStyle(element).color, ground(element)];
}"""


@pytest.mark.parametrize("language", ["en", "zh"])
def test_journey(open_page: Callable[..., Visitor], language: str) -> None:
    desk = Desk(open_page("/", locale=LOCALES[language]).page, language)
    expect(desk.page.get_by_role("heading", name=desk.words("home.title"))).to_be_visible()
    desk.longest(60)
    desk.press("shell.play")
    desk.until_steps(3)
    desk.go("decode")
    desk.press("shell.pause")
    paused = desk.until_status("paused")
    assert 3 <= paused["steps"] < 59
    desk.go("prefill")
    desk.speak(OTHER[language])
    desk.go("tokenize")
    still = desk.until_status("paused")
    assert still["ids"] == paused["ids"], "changing page and language left the paused run alone"
    desk.press("shell.step")
    one_more = desk.wait(lambda run: run["steps"] == paused["steps"] + 1 and run["status"] == "paused")
    assert one_more["ids"][:-1] == paused["ids"]
    desk.go("decode")
    desk.press("shell.resume")
    desk.until_steps(one_more["steps"] + 3)
    desk.press("shell.stop")
    ended = desk.until_status("ended")
    assert ended["stop_reason"] == "stopped"
    assert ended["ids"][: len(one_more["ids"])] == one_more["ids"]
    assert ended["kv_tokens"] == ended["tokens"] + ended["generated"] - 1, "cache length is prompt + generated − 1"
    expect(desk.page.get_by_text(desk.words("stops.stopped"))).to_be_visible()
    desk.go("detokenize")


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_page_shows_the_run_and_speaks_one_language(open_page: Callable[..., Visitor], language: str) -> None:
    desk = Desk(open_page("/", locale=LOCALES[language]).page, language)
    desk.longest(12)
    desk.press("shell.play")
    ended = desk.until_status("ended")
    for page in PAGES:
        desk.go(page)
        assert desk.until_status("ended")["ids"] == ended["ids"]
        expect(desk.page.get_by_role("heading", name=desk.words(f"{page}.title"))).to_be_visible()
        expect(desk.page.get_by_role("heading", name=Desk(desk.page, OTHER[language]).words(f"{page}.title"))).to_have_count(0)
        shows_the_run(desk, page, ended)


def shows_the_run(desk: Desk, page: str, run: dict[str, Any]) -> None:
    """What a reader sees of the run on this page, in the components themselves."""
    seen, answer = desk.page.locator, desk.answer_in_store()
    if page in {"home", "decode"}:
        expect(seen(".answer .text")).to_have_text(answer, use_inner_text=True)
        expect(seen(".answer .question")).to_have_text(desk.words("home.example_1"))
        box = seen(".notes canvas.cells").bounding_box()
        assert box is not None
        assert box["width"] > 4 * run["kv_tokens"]
        assert box["height"] > 60
    if page == "tokenize":
        strip = seen(".strip").first  # further down there are others, of fixed sentences
        expect(strip.locator(".chip")).to_have_count(run["tokens"])
        assert "".join(strip.locator(".chip.prompt").all_inner_texts()) == desk.words("home.example_1").replace(" ", "·")
    if page == "prefill":
        expect(seen(".attention canvas.cells")).to_be_visible()
        expect(seen(".candidates .row.picked .word")).not_to_be_empty()
    if page == "decode":
        expect(seen(".strip .chip.generated")).to_have_count(run["generated"])
        expect(seen(".meters .ttft .value")).to_have_text(re.compile(r"\d"))
        expect(seen(".meters .tpot .value")).to_have_text(re.compile(r"\d"))
    if page == "detokenize":
        expect(seen(".rows .row")).to_have_count(run["generated"])
        expect(seen(".answer .text")).to_have_text(answer, use_inner_text=True)


def test_step_back_moves_the_pictures_and_not_the_run(open_page: Callable[..., Visitor]) -> None:
    desk = Desk(open_page("/").page)
    desk.longest(8)
    desk.press("shell.play")
    ended = desk.until_status("ended")
    desk.go("decode")
    answer = desk.page.locator(".answer .text")
    whole = answer.inner_text()
    desk.press("shell.back")
    expect(answer).not_to_have_text(whole)
    desk.press("shell.step")
    expect(answer).to_have_text(whole)
    assert desk.until_status("ended")["ids"] == ended["ids"]


def test_words_of_the_reader_are_shown_literally(open_page: Callable[..., Visitor]) -> None:
    desk = Desk(open_page("/").page)
    desk.longest(4)
    dialogs: list[str] = []
    desk.page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    desk.ask(LITERAL + " 你好🤗地來👨‍👩‍👧‍👦")
    desk.until_status("ended")
    for page in PAGES:
        desk.go(page)
        desk.until_status("ended")
        assert "\ufffd" not in desk.page.locator("body").inner_text()
        if page == "tokenize":
            chips = "".join(desk.page.locator(".strip .chip.prompt").all_inner_texts())
            assert chips.startswith(LITERAL.replace(" ", "·"))
        if page == "decode":
            expect(desk.page.locator(".answer .question")).to_have_text(LITERAL + " 你好🤗地來👨‍👩‍👧‍👦")
    assert not dialogs, f"a script ran: {dialogs}"


def test_a_step_brings_the_written_numbers_up_to_the_live_ones(open_page: Callable[..., Visitor]) -> None:
    desk = Desk(open_page("/").page)
    desk.longest(40)
    desk.press("shell.play")
    desk.until_steps(3)
    desk.go("decode")
    desk.press("shell.pause")
    tokens = desk.until_status("paused")["kv_tokens"]
    for _ in range(2):
        agree(desk, tokens)
        desk.press("shell.step")
        tokens = desk.wait(lambda run, before=tokens: run["kv_tokens"] > before)["kv_tokens"]
    agree(desk, tokens)
    desk.press("shell.stop")
    desk.until_status("ended")


def agree(desk: Desk, tokens: int) -> None:
    """The meters' live bytes and the sentence with the formula speak of the same tokens."""
    live = desk.page.locator(".meters .notes .check").inner_text()
    size = live.rpartition(": ")[2]
    expect(desk.page.get_by_text(f"× {tokens} = {size}.", exact=False)).to_be_visible(timeout=15_000)


def test_back_and_first_token_can_be_pressed_while_it_plays(open_page: Callable[..., Visitor]) -> None:
    desk = Desk(open_page("/").page)
    desk.longest(200)
    desk.choose("shell.speed", "shell.speed_slow")  # the page was last drawn when only the first token was there
    desk.press("shell.play")
    desk.until_steps(3)
    expect(desk.button("shell.back")).to_be_enabled(timeout=15_000)
    desk.press("shell.begin")
    paused = desk.until_status("paused")
    expect(desk.page.get_by_text("looking back at token 1")).to_be_visible()
    assert paused["generated"] > 1
    desk.press("shell.stop")
    desk.until_status("ended")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_answer_is_legible_in_light_and_dark(open_page: Callable[..., Visitor], scheme: str) -> None:
    desk = Desk(open_page("/", scheme=scheme).page)
    desk.longest(6)
    desk.press("shell.play")
    desk.until_status("ended")
    for place in (".answer .text", ".answer .question", ".answer .end"):
        colours = [[int(part) for part in re.findall(r"\d+", colour)[:3]] for colour in desk.page.locator(place).evaluate(COLOURS)]
        ink, paper = (luminance(*colour) for colour in colours)
        assert (paper < 0.1) is (scheme == "dark")
        assert (max(ink, paper) + 0.05) / (min(ink, paper) + 0.05) >= 4.5, (place, colours)


def luminance(*rgb: int) -> float:
    """WCAG 2 relative luminance."""
    red, green, blue = (value / 255 / 12.92 if value / 255 <= 0.04045 else ((value / 255 + 0.055) / 1.055) ** 2.4 for value in rgb)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
