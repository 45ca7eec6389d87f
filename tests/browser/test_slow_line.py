"""A line on which every word to the server takes seconds, and a reader who does not wait."""

from __future__ import annotations

from collections.abc import Callable

from tests.browser.desk import Desk
from tests.browser.driver import Visitor, settle

LATE_MS, APART_MS = 4000, 600  # the last click leaves before anything that the first one asked for is back
# What the page sends to Streamlit's server leaves `window.late` milliseconds later, in order.
LATE = """(() => {
  const send = WebSocket.prototype.send;
  WebSocket.prototype.send = function (data) { setTimeout(() => send.call(this, data), window.late || 0); };
})()"""
HURRIED = ("home", "tokenize", "home", "tokenize", "home", "prefill")


def test_a_hurried_reader_on_a_slow_line(open_page: Callable[..., Visitor]) -> None:
    """Pages left and come back to, all on the way at once: Streamlit's front end used to have dropped what the server then referred to,
    and said "Cached ForwardMsg MISS" (the console is asked by open_page)."""
    page = open_page("/").page
    page.add_init_script(LATE)
    page.reload()
    settle(page)
    desk = Desk(page)
    desk.longest(8)
    desk.press("shell.play")
    desk.until_status("ended")
    desk.go("prefill")
    page.evaluate("ms => { window.late = ms; }", LATE_MS)
    for name in HURRIED:
        page.get_by_role("link", name=desk.words(f"shell.nav_{name}"), exact=True).click()
        page.wait_for_timeout(APART_MS)
    page.wait_for_timeout(LATE_MS + APART_MS)
    settle(page)
    page.get_by_role("heading", name=desk.words("prefill.title")).wait_for()
