"""The main job in a real browser: ask, play, pause in mid-way, change page and language, resume, stop; nothing lost, nothing doubled."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.browser.desk import Desk
from tests.browser.driver import Visitor

PAGES = ("home", "tokenize", "prefill", "decode", "detokenize")
OTHER = {"en": "zh", "zh": "en"}
LOCALES = {"en": "en-US", "zh": "zh-CN"}


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
    desk.ask("</span><script>alert(1)</script> $5 and $6 _a_ :red[x] <|im_end|> 你好🤗地來👨‍👩‍👧‍👦")
    desk.page.on("dialog", lambda dialog: pytest.fail(f"a script ran: {dialog.message}"))
    desk.until_status("ended")
    for page in PAGES:
        desk.go(page)
        desk.until_status("ended")
        assert "\ufffd" not in desk.page.locator("body").inner_text()
