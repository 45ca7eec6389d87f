"""Light and dark: charts that Python draws follow the switch, and Space on a picture stays with the picture."""

from __future__ import annotations

from collections.abc import Callable

from tests.browser.desk import Desk
from tests.browser.driver import Visitor, settle

TICK = """() => { const tick = document.querySelector('.js-plotly-plot .xtick text, .js-plotly-plot .ytick text');
  return tick && getComputedStyle(tick).fill; }"""


def finished(visitor: Visitor) -> Desk:
    desk = Desk(visitor.page)
    desk.longest(2)
    desk.press("shell.play")
    desk.until_status("ended")
    settle(visitor.page)
    return desk


def test_charts_follow_the_switch_to_dark(open_page: Callable[..., Visitor]) -> None:
    visitor = open_page("/prefill")
    page = finished(visitor).page
    page.wait_for_function(TICK)
    before = page.evaluate(TICK)
    page.get_by_test_id("stMainMenu").locator("button").first.click()
    page.get_by_role("menuitemradio", name="Dark").click()
    page.keyboard.press("Escape")
    page.wait_for_function(f"before => {{ const now = ({TICK})(); return now && now !== before; }}", arg=before)


def test_space_on_the_map_picks_and_does_not_begin_the_exam_anew(open_page: Callable[..., Visitor]) -> None:
    visitor = open_page("/prefill")
    desk = finished(visitor)
    run, page = desk.run_id(), visitor.page
    grid = page.get_by_role("application").first
    grid.focus()
    page.keyboard.press("Home")
    page.keyboard.press("Space")
    settle(page)
    page.wait_for_timeout(1500)
    settle(page)
    assert desk.run_id() == run
    assert desk.until_status("ended")["generated"] == 2
