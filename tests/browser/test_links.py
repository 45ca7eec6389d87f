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


SLOW = """() => {
  const Fast = window.WebSocket;
  window.WebSocket = class extends Fast {
    set onmessage(heard) {
      super.onmessage = this.url.includes('/_stcore/stream') ? (event) => setTimeout(() => heard.call(this, event), 1000) : heard;
    }
    addEventListener(kind, heard, ...more) {
      const late = kind === 'message' && this.url.includes('/_stcore/stream');
      super.addEventListener(kind, late ? (event) => setTimeout(() => heard.call(this, event), 1000) : heard, ...more);
    }
  };
}"""


def test_a_run_that_moves_does_not_call_the_old_page_back(open_page: Callable[..., Visitor]) -> None:
    """The way to the next page is long here (each word of the server takes a second), and the run ends on the way."""
    page = open_page("/").page
    page.add_init_script(f"({SLOW})()")
    page.reload()
    settle(page)
    desk = Desk(page)
    desk.longest(4)
    page.wait_for_timeout(3000)
    desk.press("shell.play")
    desk.until_steps(1)
    page.get_by_role("link", name=desk.words("shell.nav_detokenize"), exact=True).click()
    desk.until_status("ended")
    expect(page.get_by_role("heading", name=desk.words("detokenize.title"))).to_be_visible(timeout=15_000)
    page.wait_for_timeout(5000)
    settle(page)
    expect(page.get_by_role("heading", name=desk.words("detokenize.title"))).to_be_visible()
    assert urlsplit(page.url).path == "/detokenize"
