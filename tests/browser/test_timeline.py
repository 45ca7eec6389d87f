"""Time travel in a real browser: the slider moves every picture without a word to the server, the replay shows every token once."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import WebSocket, expect

from tests.browser.desk import Desk
from tests.browser.driver import Visitor

TOKENS = 12
STORE = "window.__openbook.runs[new URLSearchParams(location.search).get('run')]"
ANSWER_AT = f"""count => {{
  const store = {STORE};
  const bytes = [];
  for (const token of [store.prefill.first, ...store.steps.map(step => step.token)].slice(0, count)) {{
    if (!token.special) for (const char of atob(token.raw)) bytes.push(char.charCodeAt(0));
  }}
  return new TextDecoder().decode(new Uint8Array(bytes));
}}"""
# From now on, in every frame: the token that the pictures show, written down where it changes.
WATCH = f"""() => {{
  const store = {STORE};
  window.seen = [];
  const look = () => {{
    const at = store.cursor ?? store.generated - 1;
    if (window.seen.at(-1) !== at) window.seen.push(at);
    requestAnimationFrame(look);
  }};
  look();
}}"""


@pytest.fixture
def desk(open_page: Callable[..., Visitor]) -> Desk:
    """A run that has ended, on its page, at rest."""
    desk = Desk(open_page("/", height=2600).page)
    desk.longest(TOKENS)
    desk.press("shell.play")
    assert desk.until_status("ended")["generated"] == TOKENS
    desk.go("decode")
    desk.until_status("ended")
    expect(desk.page.locator(".timeline .go")).to_be_enabled()
    return desk


def cursor(desk: Desk) -> Any:
    return desk.page.evaluate(f"[{STORE}.cursor, {STORE}.told]")


def rests(desk: Desk, at: int | None) -> None:
    """The browser shows this moment, and Python has said so."""
    desk.page.wait_for_function(f"at => {STORE}.cursor === at && {STORE}.told === at && !{STORE}.asked.length", arg=at)


def shows(desk: Desk, count: int) -> None:
    """Strip, answer and slider stand after `count` tokens."""
    expect(desk.page.locator(".strip .chip.generated")).to_have_count(count)
    expect(desk.page.locator(".answer .text")).to_have_text(desk.page.evaluate(ANSWER_AT, count).strip(), use_inner_text=True)
    expect(desk.page.locator(".timeline .track")).to_have_attribute("aria-valuenow", str(count))


def test_dragging_moves_all_pictures_without_a_word(open_page: Callable[..., Visitor]) -> None:
    visitor = open_page("/", height=2600)  # what is off the screen waits while pictures move
    page, said = visitor.page, []

    def hear(socket: WebSocket) -> None:
        socket.on("framesent", lambda payload: said.append(socket.url))

    page.on("websocket", hear)
    page.reload()
    desk = Desk(page)
    desk.longest(TOKENS)
    desk.press("shell.play")
    ended = desk.until_status("ended")
    desk.go("decode")
    expect(page.locator(".timeline .go")).to_be_enabled()
    track = page.locator(".timeline .track")
    track.scroll_into_view_if_needed()
    box = track.bounding_box()
    assert box is not None
    page.wait_for_timeout(1500)  # what the end of the run had to say has been said
    before = len(said)
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] - 4, y)
    page.mouse.down()
    for count in (9, 4, 7):
        page.mouse.move(box["x"] + box["width"] * (count - 0.5) / TOKENS, y)
        shows(desk, count)
    assert len(said) == before, "nothing was said while the hand moved"
    page.mouse.up()
    rests(desk, 6)
    expect(page.get_by_text("looking back at token 7")).to_be_visible()
    assert (desk.run() or {})["ids"] == ended["ids"]
    page.locator(".timeline .now").click()
    rests(desk, None)
    shows(desk, TOKENS)


def test_keys_and_the_bar_agree(desk: Desk) -> None:
    desk.page.locator(".timeline .track").focus()
    desk.page.keyboard.press("Home")
    rests(desk, 0)
    shows(desk, 1)
    desk.page.keyboard.press("ArrowRight")
    desk.page.keyboard.press("ArrowRight")
    rests(desk, 2)
    desk.press("shell.step")
    rests(desk, 3)
    shows(desk, 4)
    desk.press("shell.back")
    rests(desk, 2)
    desk.page.locator(".timeline .track").focus()
    desk.page.keyboard.press("End")
    rests(desk, None)
    shows(desk, TOKENS)


def test_the_replay_shows_every_token_once(desk: Desk) -> None:
    ended = desk.run()
    assert ended is not None
    desk.page.evaluate(WATCH)
    desk.page.locator(".timeline .go").click()
    desk.page.wait_for_function(f"() => {STORE}.cursor === null && !{STORE}.player", timeout=60_000)
    desk.page.wait_for_function(f"() => window.seen.at(-1) === {TOKENS - 1}")
    assert desk.page.evaluate("window.seen") == [TOKENS - 1, *range(TOKENS)]
    shows(desk, TOKENS)
    assert (desk.run() or {})["ids"] == ended["ids"]


def test_the_bar_steers_an_open_replay(desk: Desk) -> None:
    """Space stops it and lets it go on, back and step move it; none of them touches the run."""
    ended = desk.run()
    assert ended is not None
    page = desk.page
    page.get_by_role("button", name=desk.words("shell.speed_slow")).click()
    page.locator(".timeline .go").click()
    page.wait_for_function(f"() => {STORE}.cursor >= 2")
    page.locator("h1").click()  # the focus lies on the page, not on the replay's own button
    page.keyboard.press(" ")
    page.wait_for_function(f"() => {STORE}.player && !{STORE}.player.playing")
    at, _ = cursor(desk)
    rests(desk, at)
    page.keyboard.press("ArrowLeft")
    rests(desk, at - 1)
    page.keyboard.press("ArrowRight")
    rests(desk, at)
    page.keyboard.press(" ")
    page.wait_for_function(f"at => {STORE}.cursor > at", arg=at)
    desk.press("shell.back")
    page.wait_for_function(f"() => !{STORE}.player.playing")
    rests(desk, cursor(desk)[0])
    after = desk.run()
    assert after is not None
    assert (after["id"], after["ids"], after["status"]) == (ended["id"], ended["ids"], "ended")


def test_a_replay_ends_where_a_shorter_snapshot_has_left_nothing_to_show(desk: Desk) -> None:
    page = desk.page
    page.get_by_role("button", name=desk.words("shell.speed_slow")).click()
    page.locator(".timeline .go").click()
    page.wait_for_function(f"() => {STORE}.cursor >= 4")
    page.evaluate(f"""() => {{
      const store = {STORE};
      const {{ runId: run_id, steps, tokens, model, prefill, max_new_tokens, origin }} = store;
      const known = {{ run_id, tokens, model, prefill, max_new_tokens, origin, stop_reason: null, error: null }};
      store.link.receive({{ ...known, type: 'snapshot', steps: steps.slice(0, 2), status: 'paused' }});
    }}""")
    page.wait_for_function(f"() => {STORE}.player === null && {STORE}.cursor === null && {STORE}.generated === 3")
    expect(page.locator(".timeline .go")).to_contain_text(desk.words("components.timeline_play"))


def test_a_fork_is_a_place_to_go_to_and_is_said(desk: Desk) -> None:
    page, root = desk.page, desk.run_id()
    page.locator(".timeline .track").focus()
    page.keyboard.press("Home")
    rests(desk, 0)
    for at in (1, 2, 3):
        page.keyboard.press("ArrowRight")
        rests(desk, at)
    page.locator(".candidates .row:not(.picked) .write").first.click()
    desk.wait(lambda run: run["id"] != root and run["status"] == "ended")
    own = page.locator(".timeline .forks .own")
    said = desk.words("components.timeline_own").format(n=4)
    expect(own).to_have_attribute("title", said)
    own.click()
    rests(desk, 3)
    track = page.locator(".timeline .track")
    expect(track).to_have_attribute("aria-valuetext", re.compile(re.escape(said)))
    expect(page.locator(".timeline .says")).to_have_text(said)
    page.locator(".branches .branch").first.click()
    desk.wait(lambda run: run["id"] == root)
    said = desk.words("components.timeline_fork").format(n=4)
    mark = page.locator(".timeline .forks i")
    expect(mark).to_have_attribute("title", said)
    mark.hover(trial=True)  # nothing lies over it
    mark.click()
    rests(desk, 3)
    expect(track).to_have_attribute("aria-valuetext", re.compile(re.escape(said)))
    page.keyboard.press("ArrowRight")
    rests(desk, 4)
    expect(track).not_to_have_attribute("aria-valuetext", re.compile(re.escape(said)))


def test_nothing_is_said_while_another_page_is_on_its_way(desk: Desk) -> None:
    said = """on => {
      const live = window.__openbook;
      live.way = on ? { path: '/elsewhere', until: Infinity } : null;
      const heard = [];
      const component = { setTriggerValue: (...words) => heard.push(words), setStateValue: (...words) => heard.push(words) };
      const done = [live.tell(component, 'a', 1), live.keep(component, 'b', 2)];
      live.way = null;
      return [done, heard];
    }"""
    assert desk.page.evaluate(said, True) == [[False, False], []]
    assert desk.page.evaluate(said, False) == [[True, True], [["a", 1], ["b", 2]]]


def test_looking_back_lets_the_run_go_on(open_page: Callable[..., Visitor]) -> None:
    desk = Desk(open_page("/", height=2600).page)
    desk.longest(200)
    desk.choose("shell.speed", "shell.speed_half")
    desk.press("shell.play")
    desk.until_steps(4)
    desk.go("decode")
    desk.until_steps(8)
    desk.page.locator(".timeline .track").focus()
    desk.page.keyboard.press("Home")
    rests(desk, 0)
    shows(desk, 1)
    seen = desk.run()
    assert seen is not None
    moving = desk.wait(lambda run: run["generated"] > seen["generated"] + 3)
    assert moving["status"] == "running"
    shows(desk, 1)
    desk.page.locator(".timeline .now").click()
    rests(desk, None)
    desk.press("shell.stop")
    desk.until_status("ended")
