"""Where the live channel cannot be opened (a proxy that refuses or swallows it), the page polls: the run lives, and stays within reach."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import WebSocketRoute, expect

from tests.browser.desk import Desk
from tests.browser.driver import Visitor, settle

TOKENS = 60


def swallow(socket: WebSocketRoute) -> None:
    """The opening succeeds, and nothing ever comes."""


def refuse(socket: WebSocketRoute) -> None:
    socket.close(code=1011)


@pytest.mark.parametrize("proxy", [swallow, refuse])
def test_without_a_channel_the_answer_grows_to_its_end_and_stays(
    open_page: Callable[..., Visitor], proxy: Callable[[WebSocketRoute], None]
) -> None:
    visitor = open_page("/")
    visitor.page.route_web_socket("**/runs/**", proxy)
    desk = Desk(visitor.page)
    desk.longest(TOKENS)
    desk.write("Tell me a long story about an orange.")
    desk.choose("shell.speed", "shell.speed_half")
    desk.press("shell.play")
    expect(desk.page.get_by_text(desk.words("components.progress_down"))).to_be_visible(timeout=15_000)
    first = desk.wait(lambda run: run["channel"] == "down" and run["steps"] >= 1)
    desk.wait(lambda run: run["steps"] > first["steps"])
    ended = desk.until_status("ended")
    assert ended["stop_reason"] in {"length", "eos"}, "nobody was thought to have left"
    answer = desk.page.locator(".answer .text")
    expect(answer).not_to_be_empty()
    desk.page.wait_for_timeout(10_000)
    desk.go("prefill")
    expect(desk.page.get_by_role("application").first).to_be_visible(timeout=15_000)  # the map: live memory is still there
    expect(desk.page.get_by_text(desk.words("errors.run_freed"))).to_have_count(0)


def test_a_channel_that_opens_later_takes_over(open_page: Callable[..., Visitor]) -> None:
    visitor, blocked = open_page("/"), [True]

    def proxy(socket: WebSocketRoute) -> None:
        if blocked:
            socket.close(code=1011)
        else:
            socket.connect_to_server()

    visitor.page.route_web_socket("**/runs/**", proxy)
    desk = Desk(visitor.page)
    desk.longest(300)
    desk.press("shell.play")
    down = desk.page.get_by_text(desk.words("components.progress_down"))
    expect(down).to_be_visible(timeout=15_000)
    blocked.clear()
    before = desk.wait(lambda run: run["channel"] == "open", timeout_s=20)
    expect(down).to_have_count(0)
    desk.until_steps(before["steps"] + 3)
    desk.press("shell.stop")
    desk.until_status("ended")


@pytest.mark.parametrize(("code", "words"), [(4404, "components.progress_gone"), (4403, "components.progress_refused")])
def test_the_servers_no_is_final(open_page: Callable[..., Visitor], code: int, words: str) -> None:
    visitor, openings = open_page("/"), []

    def server(socket: WebSocketRoute) -> None:
        openings.append(socket.url)
        socket.close(code=code)

    visitor.page.route_web_socket("**/runs/**", server)
    desk = Desk(visitor.page)
    desk.longest(200)
    desk.press("shell.play")
    expect(desk.page.get_by_text(desk.words(words))).to_be_visible(timeout=15_000)
    desk.page.wait_for_timeout(3000)
    assert len(openings) == 1


# Counts what the page says to Streamlit's server.
COUNT_SAID = """() => {
  const { send } = WebSocket.prototype;
  window.said = 0;
  WebSocket.prototype.send = function (...message) {
    if (this.url.includes('/_stcore/stream')) window.said += 1;
    return send.apply(this, message);
  };
}"""


def test_polling_keeps_quiet_while_another_page_is_on_its_way(open_page: Callable[..., Visitor]) -> None:
    """A poll that names the old page, sent after the reader's click on a link, would call the old page back."""
    visitor = open_page("/")
    visitor.page.route_web_socket("**/runs/**", refuse)
    page, desk = visitor.page, Desk(visitor.page)
    page.reload()  # every socket of the page is now one whose words can be counted
    settle(page)
    desk.longest(300)
    desk.choose("shell.speed", "shell.speed_half")
    desk.press("shell.play")
    expect(page.get_by_text(desk.words("components.progress_down"))).to_be_visible(timeout=15_000)
    desk.wait(lambda run: run["steps"] >= 2)  # it came by polling
    page.evaluate(COUNT_SAID)
    page.wait_for_function("window.said > 1")  # it goes on polling
    settle(page)
    link = page.get_by_role("link", name=desk.words("shell.nav_detokenize"), exact=True)
    link.evaluate("node => { window.said = 0; window.__openbook.onTheWay = () => true; }")  # as after a click, for as long as we look
    page.wait_for_timeout(3000)
    assert page.evaluate("window.said") == 0
