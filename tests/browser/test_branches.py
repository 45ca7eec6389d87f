"""Choosing another candidate in a real browser: a branch takes over, the run it left waits, and nothing is lost or doubled on the way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from playwright.sync_api import Page, expect

from tests.browser.desk import Desk
from tests.browser.driver import Visitor, settle
from ui import literal

STORE = "window.__openbook.runs[new URLSearchParams(location.search).get('run')]"
ORIGIN = f"() => {STORE}.origin"
# What the row under the pointer stands for, read together in one go: the rows must not move any more.
SEEN = """() => {
  const root = (path) => [...document.querySelectorAll('*')].map(node => node.shadowRoot?.querySelector(path)).find(Boolean)
    ?? document.querySelector(path);
  const box = root('.candidates');
  return [box.querySelector('.head').textContent, ...[...box.querySelectorAll('.row:not(.vacant) .word')].map(node => node.textContent)];
}"""


def start(desk: Desk, tokens: int = 200) -> dict[str, Any]:
    """A run that plays slowly enough to be watched on any machine, seen on its page."""
    desk.longest(tokens)
    desk.choose("shell.speed", "shell.speed_half")
    desk.press("shell.play")
    desk.until_steps(4)
    desk.go("decode")
    return desk.until_steps(6)


def other_row(page: Page) -> int:
    """The first row that is not the written one."""
    return 1 if page.locator(".candidates .row").first.evaluate("row => row.classList.contains('picked')") else 0


def write_another(desk: Desk) -> tuple[dict[str, Any], str]:
    """Click the first candidate that was not written; gives the run that was left, as it was before, and the row's text."""
    page, left = desk.page, desk.run()
    assert left is not None
    rows = page.locator(".candidates .row")
    rows.nth(2).scroll_into_view_if_needed()
    rows.nth(2).hover()  # rows that move stand still from here on
    row = rows.nth(other_row(page))
    word = row.locator(".word").inner_text()
    row.locator(".write").click()
    page.wait_for_function("id => new URLSearchParams(location.search).get('run') !== id", arg=left["id"])
    return left, word


def whole(run: dict[str, Any]) -> None:
    """Every token once and in its time; one column of notes for each but the newest."""
    assert len(run["ids"]) == run["generated"]
    assert run["at_s"] == sorted(set(run["at_s"]))
    assert run["kv_tokens"] == run["tokens"] + run["generated"] - 1


def test_a_branch_takes_over_while_the_run_plays(open_page: Callable[..., Visitor]) -> None:
    desk = Desk(open_page("/").page)
    start(desk)
    left, word = write_another(desk)
    branch = desk.wait(lambda run: run["id"] != left["id"] and run["generated"] > 0)
    origin = desk.page.evaluate(ORIGIN)
    assert origin["run_id"] == left["id"]
    branch = desk.wait(lambda run: run["generated"] > origin["index"] + 4)
    assert branch["status"] == "running"
    fork = origin["index"]
    assert branch["ids"][:fork] == left["ids"][:fork]
    assert branch["ids"][fork] != origin["instead_of"]["id"]
    written = desk.page.evaluate(f"at => (at ? {STORE}.steps[at - 1].token : {STORE}.prefill.first).text", fork)
    assert literal.visible(written) == word, "the row that was clicked is what was written"
    whole(branch)

    expect(desk.page.locator(".branches .branch")).to_have_count(2)
    desk.page.locator(".branches .branch").first.click()
    parent = desk.wait(lambda run: run["id"] == left["id"] and run["status"] == "paused" and run["generated"] >= left["generated"])
    assert parent["ids"][: len(left["ids"])] == left["ids"]
    assert parent["ids"][fork] == origin["instead_of"]["id"]
    whole(parent)
    desk.press("shell.resume")
    further = desk.wait(lambda run: run["generated"] > parent["generated"] + 2)
    assert further["ids"][: parent["generated"]] == parent["ids"], "the run that was left goes on from where it waited"
    desk.page.locator(".branches .branch").nth(1).click()
    again = desk.wait(lambda run: run["id"] == branch["id"] and run["generated"] >= branch["generated"])
    assert again["ids"][: branch["generated"]] == branch["ids"]
    whole(again)
    desk.press("shell.stop")
    whole(desk.until_status("ended"))


def test_nothing_is_lost_between_languages_pages_and_reloads(open_page: Callable[..., Visitor]) -> None:
    desk = Desk(open_page("/").page)
    start(desk)
    left, _ = write_another(desk)
    branch = desk.wait(lambda run: run["id"] != left["id"] and run["generated"] > 0)
    desk.speak("zh")
    desk.go("tokenize")
    desk.go("decode")
    settle(desk.page)
    later = desk.wait(lambda run: run["generated"] > branch["generated"] + 2)
    assert later["id"] == branch["id"]
    assert later["ids"][: branch["generated"]] == branch["ids"]
    assert f"run={branch['id']}" in desk.page.url
    desk.page.reload()
    settle(desk.page)
    found = desk.wait(lambda run: run["id"] == branch["id"] and run["generated"] >= later["generated"])
    assert found["ids"][: later["generated"]] == later["ids"]
    whole(found)
    expect(desk.button("shell.pause")).to_be_enabled()
    expect(desk.page.locator(".branches .branch")).to_have_count(2)
    expect(desk.page.locator(".branches .branch.here .name")).to_have_text(desk.words("branches.branch").format(n=1))
    desk.press("shell.stop")
    desk.until_status("ended")


def test_rows_stand_still_under_the_pointer(open_page: Callable[..., Visitor]) -> None:
    """A click must hit what the reader saw; the rest of the page goes on, and so do the rows once the pointer has left."""
    desk = Desk(open_page("/").page)
    start(desk)
    rows = desk.page.locator(".candidates .row")
    rows.nth(2).scroll_into_view_if_needed()
    rows.nth(2).hover()
    expect(desk.page.locator(".candidates .hint")).to_contain_text("Held still")
    seen, before = desk.page.evaluate(SEEN), desk.run()
    assert before is not None
    later = desk.wait(lambda run: run["generated"] > before["generated"] + 3)
    assert later["status"] == "running"
    assert desk.page.evaluate(SEEN) == seen
    desk.page.mouse.move(5, 5)
    moved = f"seen => JSON.stringify(({SEEN})()) !== JSON.stringify(seen) && {STORE}.status === 'running'"
    desk.page.wait_for_function(moved, arg=seen)
    desk.press("shell.stop")
    desk.until_status("ended")


def test_a_token_chosen_by_the_reader_says_so_in_every_generation(open_page: Callable[..., Visitor]) -> None:
    """A branch of a branch: both forks were chosen by the reader, though only the later one is where this run left another."""
    desk = Desk(open_page("/").page)
    desk.longest(6)
    desk.press("shell.play")
    desk.until_status("ended")
    desk.go("decode")
    for at in (2, 4):
        left = desk.run_id()
        look_at(desk, at)
        desk.page.locator(".candidates .row").nth(other_row(desk.page)).locator(".write").click()
        desk.wait(lambda run, left=left: run["id"] != left and run["status"] == "ended")
    for at, words in enumerate(["Greedy", "Greedy", "Chosen by the reader", "Greedy", "Chosen by the reader"]):
        look_at(desk, at)
        expect(desk.page.locator(".candidates .says")).to_contain_text(words)
    figures = desk.page.locator(".branches .branch.here .figures")
    expect(figures.locator(".tokens")).to_have_text("2 tokens of its own, 6 in all")
    own = desk.page.evaluate(f"() => {STORE}.itl[4]")  # one step after the fork
    shown = f"{own * 1000:.1f}" if own < 0.0995 else f"{own * 1000:.0f}" if own < 0.9995 else f"{own:.2f}"
    expect(figures.locator(".tpot")).to_contain_text(f"TPOT since the fork {shown}")


def look_at(desk: Desk, index: int) -> None:
    """All pictures after generated token `index`, and Python knows."""
    desk.page.locator(".timeline .track").focus()
    desk.page.keyboard.press("Home")
    for _ in range(index):
        desk.page.keyboard.press("ArrowRight")
    desk.page.wait_for_function(f"at => ({STORE}.cursor ?? {STORE}.generated - 1) === at && {STORE}.told === {STORE}.cursor", arg=index)
    expect(desk.page.locator(".candidates .head")).to_contain_text(f"token {index + 1},")


def test_a_follower_sees_how_far_the_others_are(open_page: Callable[..., Visitor]) -> None:
    """Who watches one branch while its owner lets another one be written sees that one's row move, too."""
    owner = Desk(open_page("/").page)
    start(owner)
    left, _ = write_another(owner)
    branch = owner.wait(lambda run: run["id"] != left["id"] and run["generated"] > 0)
    follower = Desk(open_page(f"/decode?run={branch['id']}&lang=en").page)
    follower.page.locator(".branches .branch").first.click()
    follower.wait(lambda run: run["id"] == left["id"])
    row = follower.page.locator(".branches .branch").nth(1)
    expect(row.locator(".stand")).to_have_text(follower.words("branches.running_elsewhere"))
    before = row.locator(".tokens").inner_text()
    expect(row.locator(".tokens")).not_to_have_text(before, timeout=15_000)
    assert (owner.run() or {})["status"] == "running"
    row.click()
    follower.wait(lambda run: run["id"] == branch["id"])
    expect(follower.page.locator(".branches .branch.here .stand")).to_have_text(follower.words("branches.running"))
    owner.press("shell.stop")
    owner.until_status("ended")


def test_the_keyboard_chooses_too(open_page: Callable[..., Visitor]) -> None:
    desk = Desk(open_page("/").page)
    desk.longest(6)
    desk.press("shell.play")
    ended = desk.until_status("ended")
    desk.go("decode")
    first = desk.page.locator(".candidates .row:not(.picked) .write").first
    first.focus()
    desk.page.keyboard.press("ArrowDown")
    desk.page.keyboard.press("Enter")
    branch = desk.wait(lambda run: run["id"] != ended["id"] and run["status"] == "ended")
    assert branch["ids"][:-1] == ended["ids"][:-1]
    assert branch["ids"][-1] != ended["ids"][-1]
    expect(desk.page.locator(".candidates .row .mark", has_text="▷")).to_have_count(1)
    # What the first answer wrote is there already: choosing it leads back and makes no third one.
    desk.page.locator(".candidates .row", has_text="▷").locator(".write").click()
    desk.wait(lambda run: run["id"] == ended["id"])
    expect(desk.page.locator(".branches .branch")).to_have_count(2)


def test_a_follower_sees_rows_and_may_look_at_every_branch(open_page: Callable[..., Visitor]) -> None:
    owner = Desk(open_page("/").page)
    start(owner)
    left, _ = write_another(owner)
    branch = owner.wait(lambda run: run["id"] != left["id"] and run["generated"] > 0)
    follower = Desk(open_page(f"/decode?run={branch['id']}&lang=en").page)
    follower.wait(lambda run: run["generated"] >= branch["generated"])
    rows = follower.page.locator(".candidates .row:not(.vacant)")
    expect(rows.first).to_be_visible()
    expect(follower.page.locator(".candidates .write").filter(visible=True)).to_have_count(0)
    rows.nth(1).click()
    follower.page.locator(".branches .branch").first.click()
    parent = follower.wait(lambda run: run["id"] == left["id"] and run["generated"] >= left["generated"])
    assert parent["ids"][: left["generated"]] == left["ids"]
    assert "key=" not in follower.page.url
    still = owner.run()
    assert still is not None
    assert still["id"] == branch["id"]
    assert still["status"] == "running", "a follower who looks elsewhere pauses nothing"
    owner.press("shell.stop")
    owner.until_status("ended")
