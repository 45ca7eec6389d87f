"""Addresses: a reload finds the run, a second browser follows it and cannot steer, hostile parameters are harmless."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

from playwright.sync_api import expect

from tests.browser.desk import Desk
from tests.browser.driver import Visitor, settle


def test_reload_in_mid_run_finds_it_still_moving(open_page: Callable[..., Visitor]) -> None:
    desk = Desk(open_page("/").page)
    desk.longest(300)
    desk.choose("shell.speed", "shell.speed_half")  # no machine is through before the test has looked
    desk.press("shell.play")
    before = desk.until_steps(5)
    desk.page.reload()
    settle(desk.page)
    after = desk.until_steps(before["steps"] + 5)
    assert after["id"] == before["id"]
    assert after["ids"][: len(before["ids"])] == before["ids"]
    assert after["status"] == "running"
    expect(desk.button("shell.pause")).to_be_enabled()
    desk.press("shell.stop")
    desk.until_status("ended")


def test_a_second_browser_follows_and_cannot_steer(open_page: Callable[..., Visitor]) -> None:
    owner = Desk(open_page("/").page)
    owner.longest(300)
    owner.choose("shell.speed", "shell.speed_half")
    owner.press("shell.play")
    owner.until_steps(3)
    follower = Desk(open_page(f"/decode?run={owner.run_id()}&lang=zh", locale="en-US").page, "zh")
    seen = follower.until_steps(3)
    moving = follower.until_steps(seen["steps"] + 5)
    assert moving["id"] == owner.run_id()
    expect(follower.page.get_by_text(follower.words("shell.follower"))).to_be_visible()
    expect(follower.button("shell.pause")).to_be_disabled()
    expect(follower.button("shell.stop")).to_be_disabled()
    owner.press("shell.stop")
    ended = owner.until_status("ended")
    assert follower.until_status("ended")["ids"] == ended["ids"]
    assert "key=" not in follower.page.url


def test_hostile_parameters_are_harmless(open_page: Callable[..., Visitor]) -> None:
    desk = Desk(
        open_page("/decode?temp=-1&max_new=1e9&lang=xx&model=../../etc&prompt=<script>alert(1)</script>&run=../../etc&key=%00").page
    )
    expect(desk.button("shell.play")).to_be_visible()
    expect(desk.page.get_by_role("heading", name=desk.words("decode.title"))).to_be_visible()
    assert "etc" not in desk.page.url


# What Streamlit's server says is kept back while `window.kept` is a list; `window.letGo()` hands it on, in order.
KEEP_BACK = """() => {
  const Open = window.WebSocket;
  const hand = (heard, socket, event) => (window.kept ? window.kept.push([heard, socket, event]) : heard.call(socket, event));
  window.kept = null;
  window.letGo = () => {
    const kept = window.kept;
    window.kept = null;
    for (const [heard, socket, event] of kept) heard.call(socket, event);
  };
  window.WebSocket = class extends Open {
    get ours() { return this.url.includes('/_stcore/stream'); }
    set onmessage(heard) { super.onmessage = this.ours ? (event) => hand(heard, this, event) : heard; }
    addEventListener(kind, heard, ...more) {
      super.addEventListener(kind, this.ours && kind === 'message' ? (event) => hand(heard, this, event) : heard, ...more);
    }
  };
}"""
SAID = "words => window.kept.some(([, , event]) => new TextDecoder().decode(event.data).includes(words))"
# Counts how often a component, with something to say to the server, has asked whether it may.
COUNT = """() => {
  const { onTheWay } = window.__openbook;
  window.asked = 0;
  window.__openbook.onTheWay = () => (window.asked += 1, onTheWay());
}"""
FRAMES = "async () => { for (let at = 0; at < 5; at += 1) await new Promise((next) => requestAnimationFrame(next)); }"


def test_a_run_that_moves_does_not_call_the_old_page_back(open_page: Callable[..., Visitor]) -> None:
    """The reader has clicked on the way to another page, which is not here yet, and the run ends: no word of that may name the old page."""
    page = open_page("/").page
    page.add_init_script(f"({KEEP_BACK})()")
    page.reload()
    settle(page)
    desk = Desk(page)
    desk.press("shell.step")  # a run that waits: it moves when the test says so, however fast the machine
    desk.until_status("paused")
    expect(desk.button("shell.stop")).to_be_enabled()
    settle(page)
    second = page.context.new_page()  # the owner's own address, key included
    second.goto(page.url)
    other = Desk(second)
    other.until_status("paused")
    expect(other.button("shell.stop")).to_be_enabled()

    title = desk.words("detokenize.title")
    page.evaluate("() => { window.kept = []; }")
    page.get_by_role("link", name=desk.words("shell.nav_detokenize"), exact=True).click()
    page.wait_for_function(SAID, arg=title)  # the server has drawn the new page, and its bar still says that the run waits
    page.evaluate(COUNT)
    other.press("shell.stop")
    desk.until_status("ended")
    page.wait_for_function("window.asked > 0")
    page.evaluate(FRAMES)  # a message that should not have been sent is on its way by now
    page.evaluate("window.letGo()")

    expect(desk.button("shell.stop")).to_be_disabled(timeout=15_000)  # only a script run after the end draws this
    settle(page)
    expect(page.get_by_role("heading", name=title)).to_be_visible()
    assert urlsplit(page.url).path == "/detokenize"
