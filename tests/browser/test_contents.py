"""The row of links to the parts of the Decode page in a real browser: each leads to its part, by mouse and keyboard, without a rerun."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

from playwright.sync_api import Page, expect

from tests.browser.desk import Desk
from tests.browser.driver import Visitor
from ui.sections.contents import PARTS

# From now on: how often the page's script has run.
COUNT = """() => {
  window.runs = 0;
  const app = document.querySelector('[data-testid="stApp"]');
  new MutationObserver(() => { if (app.dataset.testScriptState === 'running') window.runs += 1; })
    .observe(app, { attributes: true, attributeFilter: ['data-test-script-state'] });
}"""


def ended(desk: Desk) -> Page:
    desk.longest(6)
    desk.press("shell.play")
    desk.until_status("ended")
    desk.go("decode")
    expect(desk.page.locator(".timeline .go")).to_be_enabled()
    return desk.page


def test_every_link_leads_to_its_part(open_page: Callable[..., Visitor]) -> None:
    page = ended(Desk(open_page("/").page))
    page.wait_for_timeout(1500)  # what the end of the run had to say has been said
    query = urlsplit(page.url).query
    page.evaluate(COUNT)
    links = page.locator(".st-key-contents a")
    assert [link.get_attribute("href") for link in links.all()] == [f"#{part}" for part in PARTS]
    for number, part in enumerate(PARTS):
        links.nth(number).focus()
        page.keyboard.press("Enter")
        expect(page.locator(f"#{part}")).to_be_in_viewport()
        assert urlsplit(page.url).query == query, "the run and its key stay"
        assert urlsplit(page.url).fragment == part
    assert page.evaluate("window.runs") == 0, "no rerun"
    page.reload()
    expect(page.locator(".timeline .go")).to_be_enabled()
    assert urlsplit(page.url).query == query


def test_on_a_narrow_screen_the_row_is_pushed_and_the_page_is_not(open_page: Callable[..., Visitor]) -> None:
    page = ended(Desk(open_page("/").page))
    page.set_viewport_size({"width": 420, "height": 900})
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 420
    assert page.locator(".st-key-contents nav").evaluate("row => row.scrollWidth > row.clientWidth + 100")
    page.locator(".st-key-contents a").last.click()
    expect(page.locator("#endings")).to_be_in_viewport()
