"""Share links in a real browser: what one context has, a fresh one opens; hostile links run nothing and break nothing."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import quote, urlencode, urlsplit

import pytest
from playwright.sync_api import Page, expect

from tests.browser.desk import Desk
from tests.browser.driver import Visitor, settle

LOCALES = {"en": "en-US", "zh": "zh-CN"}
OTHER = {"en": "zh", "zh": "en"}
LITERAL = "</span><script>window.pwned=1</script> 小猫🙂 $5 & 100% _a_ :red[x]\n?q=2#end"
IMAGE = "<img src=x onerror=window.pwned=1>"


def links(desk: Desk) -> list[str]:
    """Opens the share popover and gives the addresses in it, as a reader copies them."""
    desk.button("shell.share").click()
    shown = desk.page.locator('[data-testid="stPopoverBody"] code')
    expect(shown.first).to_be_visible()
    found = [text.strip() for text in shown.all_inner_texts()]
    desk.page.keyboard.press("Escape")
    return found


def place(link: str) -> str:
    """The link as open_page takes it: without its origin."""
    parts = urlsplit(link)
    return f"{parts.path}?{parts.query}"


def field(desk: Desk) -> str:
    return desk.page.get_by_role("textbox", name=desk.words("home.own")).input_value()


def number(page: Page, name: str) -> str:
    return page.get_by_role("spinbutton", name=name).input_value()


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_fresh_browser_opens_the_same_state(open_page: Callable[..., Visitor], language: str) -> None:
    owner = Desk(open_page("/", locale=LOCALES[language]).page, language)
    owner.longest(5)
    owner.ask(LITERAL)
    ran = owner.until_status("ended", 120)
    owner.go("prefill")
    owner.page.locator(".st-key-head_3 button").first.click()
    settle(owner.page)
    expect(owner.page.locator(".st-key-head_3 button").first).to_have_attribute("data-testid", "stBaseButton-primary")
    watch, again = links(owner)
    own = set(urlsplit(owner.page.url).query.replace("=", "&").split("&"))
    assert {"run", "key", "lang"} <= own
    assert "seed" not in own, "the owner's own address has what it always had"
    friend = Desk(open_page(place(again), locale=LOCALES[OTHER[language]]).page, language)  # the link knows the language
    expect(friend.page.get_by_role("heading", name=friend.words("prefill.title"))).to_be_visible()
    expect(friend.button("shell.empty_own")).to_be_visible()
    assert friend.run() is None, "nothing begins by itself"
    friend.go("home")
    assert field(friend) == LITERAL
    friend.page.get_by_text(friend.words("shell.settings"), exact=True).click()
    assert number(friend.page, friend.words("shell.max_new")) == "5"
    friend.go("prefill")
    friend.press("shell.empty_own")
    same = friend.until_status("ended", 120)
    assert same["ids"] == ran["ids"]
    expect(friend.page.locator(".st-key-head_3 button").first).to_have_attribute("data-testid", "stBaseButton-primary")
    follower = Desk(open_page(place(watch), locale=LOCALES[OTHER[language]]).page, OTHER[language])  # whoever watches speaks their own
    assert follower.run_id() == ran["id"]
    expect(follower.page.get_by_text(follower.words("shell.follower"))).to_be_visible()
    for desk in (owner, friend, follower):
        assert desk.page.evaluate("window.pwned") is None


HOSTILE = {"temp": "-1", "max_new": "1e9", "lang": "xx", "model": "../../etc", "prompt": "<script>window.pwned=1</script>", "seed": "NaN"}


@pytest.mark.parametrize("page_name", ["", "tokenize", "prefill", "decode", "detokenize", "marks", "records"])
@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_hostile_link_runs_nothing_and_leaves_no_complaint(open_page: Callable[..., Visitor], page_name: str, language: str) -> None:
    query = urlencode({**HOSTILE, "q": LITERAL + IMAGE, "system": IMAGE, "layer": "1e9", "head": "-1", "key": IMAGE}, quote_via=quote)
    visitor = open_page(f"/{page_name}?{query}", locale=LOCALES[language])
    desk = Desk(visitor.page, language)
    expect(desk.page.get_by_role("link", name=desk.words("shell.nav_home"), exact=True)).to_be_visible()
    assert desk.page.evaluate("window.pwned") is None
    assert desk.page.locator('img[src="x"]').count() == 0
    assert urlsplit(desk.page.url).query == f"lang={language}"
    assert desk.page.locator('[data-testid="stException"]').count() == 0
    if page_name == "":
        assert field(desk) == LITERAL + IMAGE, "shown as it stands"
        desk.page.get_by_text(desk.words("shell.settings"), exact=True).click()
        assert number(desk.page, desk.words("shell.max_new")) == "2048"
        assert desk.page.get_by_role("slider", name=desk.words("shell.temperature")).input_value() == "0"


def test_before_the_first_run_there_is_a_link_too(open_page: Callable[..., Visitor]) -> None:
    desk = Desk(open_page("/").page)
    desk.write("why?")
    (again,) = links(desk)
    assert urlsplit(again).query == "lang=en&q=why%3F&model=smollm2-135m"
