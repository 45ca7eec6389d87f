"""Switching the language changes words and nothing else: no choice is lost, on whichever page it is looked at next."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.browser.desk import Desk
from tests.browser.driver import Visitor

LOCALES = {"en": "en-US", "zh": "zh-CN"}


@pytest.mark.parametrize(("first", "second"), [("en", "zh"), ("zh", "en")])
@pytest.mark.parametrize("speed", ["speed_real", "speed_half"])
def test_choices_survive_language_and_page(open_page: Callable[..., Visitor], first: str, second: str, speed: str) -> None:
    desk = Desk(open_page("/", locale=LOCALES[first]).page, first)
    desk.longest(6)
    if speed != "speed_real":
        desk.choose("shell.speed", f"shell.{speed}")
    desk.speak(second)
    desk.go("decode")
    box = desk.page.get_by_role("combobox", name=desk.words("shell.speed"))
    expect(box).to_have_value(desk.words(f"shell.{speed}"))
    desk.press("shell.play")
    ended = desk.until_status("ended")
    assert ended["error"] is None, "the device is still the one that was chosen"
    assert ended["generated"] == 6
    desk.speak(first)
    desk.go("home")
    expect(desk.page.get_by_role("combobox", name=desk.words("shell.speed"))).to_have_value(desk.words(f"shell.{speed}"))
