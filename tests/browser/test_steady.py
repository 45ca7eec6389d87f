"""The page while a run begins, plays, rests and ends: what is on it stays the same, and is not built anew."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.browser.desk import Desk
from tests.browser.driver import Visitor, settle

# Every component's root, through the shadow roots in which they stand.
ROOTS = """() => {
  const roots = [];
  const walk = (root) => {
    for (const node of root.querySelectorAll('*')) {
      if (node.shadowRoot) walk(node.shadowRoot);
      if (node.matches('.ob')) roots.push(node);
    }
  };
  walk(document);
  return roots;
}"""
MARK = f"() => {{ window.marked = ({ROOTS})(); return window.marked.length; }}"
GONE = "() => window.marked.filter(node => !node.isConnected).map(node => node.className)"


@pytest.mark.parametrize(("name", "least"), [("decode", 8), ("home", 3), ("detokenize", 3)])
def test_what_follows_a_run_is_built_once(open_page: Callable[..., Visitor], name: str, least: int) -> None:
    desk = Desk(open_page("/").page)
    desk.longest(60)
    desk.choose("shell.speed", "shell.speed_half")
    desk.press("shell.play")
    desk.until_status("running")
    desk.go(name)
    desk.press("shell.stop")
    desk.until_status("ended")
    settle(desk.page)
    desk.press("shell.play")
    desk.wait(lambda run: run["tokens"] > 0)
    settle(desk.page)
    assert desk.page.evaluate(MARK) >= least
    steps = desk.until_steps(6)["steps"]
    desk.press("shell.pause")
    desk.until_status("paused")
    desk.press("shell.resume")
    desk.until_steps(steps + 6)
    desk.press("shell.stop")
    desk.until_status("ended")
    desk.page.wait_for_timeout(500)
    settle(desk.page)
    assert desk.page.evaluate(GONE) == []
