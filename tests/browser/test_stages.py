"""The stages of a choice in a real browser: cuts are marked, tokens stay literal, nothing overflows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from engine.findings import StageRow, Stages
from tests.browser.chain import chain_data, show
from tests.browser.desk import Desk
from tests.browser.driver import Visitor, settle
from ui import i18n

PATIENCE_MS = 60_000


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1000, "height": 900})
    yield context.new_page()
    context.close()


NAMES = ["1", "2024-01-01", "<script>alert(1)</script>", " ", "", "\n", "10", "1e1"]
SHARES = (0.4, 0.2, 0.15, 0.1, 0.05, 0.04, 0.03, 0.01)  # and 0.02 for all others


def made(kept_top_k: int, kept_top_p: int, temperature: float = 1.0, drawn: float = 0.5) -> Stages:
    """Eight candidates of a vocabulary of twenty; ids run against the likelihood, so that the ruler's order is not the table's."""

    def left(count: int) -> list[float]:
        if temperature == 0:
            return [1.0] + [0.0] * 7
        return [share / sum(SHARES[:count]) if at < count else 0.0 for at, share in enumerate(SHARES)]

    likely, k, p = list(SHARES), left(kept_top_k), left(kept_top_p)
    tempered = k if temperature == 0 else likely
    begins = [sum(p[at + 1 :]) for at in range(8)]
    raws = [b"\xe4\xbd" if not name else name.encode() for name in NAMES]
    rows = tuple(StageRow(9 - at, raws[at], NAMES[at], 10.0 - at, likely[at], tempered[at], k[at], p[at], begins[at]) for at in range(8))
    would = next(row.id for row in rows if row.begins <= drawn < row.begins + row.share)
    rest = 0.0 if temperature == 0 else 0.02
    return Stages(3, temperature, kept_top_k, 0.5, rows, 20, kept_top_k, kept_top_p, 0.02, rest, 0.0, 0.0, drawn, 9, would)


def stages(page: Page, found: Stages, *, own: bool = True, language: str = "en") -> Locator:
    return stages_of(page, msgspec.to_builtins(found), own=own, language=language)


def stages_of(page: Page, found: dict[str, Any], *, own: bool = True, language: str = "en") -> Locator:
    return show(page, "stages", language, found=found, own=own)


def cut_after(root: Locator, column: str) -> list[int]:
    """Rows in which a column's cut is marked."""
    return [at for at, line in enumerate(root.locator("tbody tr").all()) if line.locator(f".{column}.line").count()]


def test_candidates_stay_text_in_order_and_cuts_are_marked(page: Page) -> None:
    root = stages(page, made(6, 3))
    words = root.locator("tbody tr .word")
    assert words.all_inner_texts() == ["1", "2024-01-01", "<script>alert(1)</script>", "·", "E4 BD", "↵", "10", "1e1"]
    assert page.locator("script").count() == 0
    assert cut_after(root, "after_top_k") == [6]
    assert cut_after(root, "share") == [3]
    out = root.locator("tbody tr.out .word")
    assert out.all_inner_texts() == ["·", "E4 BD", "↵", "10", "1e1"]
    assert root.locator("tr.rest").inner_text().startswith("and 12 others")
    expect(root.locator("td.cut")).to_have_count(2 + 3)


def test_the_pin_stands_on_the_piece_that_is_written(page: Page) -> None:
    for drawn in (0.01, 0.5, 0.85, 0.99):
        found = made(8, 8, drawn=drawn)
        root = stages(page, found)
        pin, piece = root.locator(".pin").bounding_box(), root.locator(".piece.would").bounding_box()
        assert pin is not None
        assert piece is not None
        assert piece["x"] - 2 <= pin["x"] <= piece["x"] + piece["width"] + 2
        ruler = root.locator(".pieces").bounding_box()
        assert ruler is not None
        assert (pin["x"] - ruler["x"]) / ruler["width"] == pytest.approx(drawn, abs=0.01)
        wide = [piece.evaluate("node => node.offsetWidth / node.parentNode.clientWidth") for piece in root.locator(".piece").all()]
        shares = sorted(row.share for row in found.rows)
        assert sorted(wide) == pytest.approx(shares, abs=0.006)


def test_greedy_leaves_the_number_unused(page: Page) -> None:
    root = stages(page, made(1, 1, temperature=0.0))
    expect(root.locator(".ruler")).to_have_class("ruler idle")
    assert "not used" in root.locator(".pin").inner_text()
    assert root.locator(".piece").count() == 1
    assert root.locator(".line").count() == 0, "nothing was cut"
    assert root.locator("tr.out").count() == 0


def test_a_cut_among_the_others_is_drawn_in_their_row(page: Page) -> None:
    found = replace(made(8, 8), kept_top_k=15, rest_after_top_k=0.01, kept_top_p=15)
    root = stages(page, found)
    assert cut_after(root, "after_top_k") == [8]
    assert "7 of them kept" in root.locator("tr.rest").inner_text()


def test_a_score_of_minus_infinity_is_written_and_left_out_of_the_range(page: Page) -> None:
    found = msgspec.to_builtins(made(6, 3))
    found["rows"][-1]["logit"] = None
    root = stages_of(page, found)
    assert root.locator("td.logit .number").all_inner_texts() == [*(f"{10 - at:.2f}" for at in range(7)), "−∞"]
    dots = root.locator("td.logit .dot")
    assert [dots.nth(at).is_visible() for at in range(8)] == [True] * 7 + [False]
    assert [dots.nth(at).evaluate("dot => dot.style.getPropertyValue('--at')") for at in (0, 3, 6)] == ["100.00%", "50.00%", "0.00%"]


def test_what_if_says_what_is_measured_and_what_is_computed(page: Page) -> None:
    root = stages(page, made(6, 3), own=False, language="zh")
    assert root.locator("thead .ob-tag").all_inner_texts() == ["实测", "实测", "计算", "计算", "计算"]
    assert stages(page, made(6, 3)).locator("thead .ob-tag").count() == 0


@pytest.mark.parametrize("width", [1000, 390])
def test_nothing_overflows(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    for name, data in (("stages", {"found": msgspec.to_builtins(made(6, 3)), "own": False}), ("step", chain_data())):
        root = show(page, name, **data)
        assert root.evaluate("root => root.scrollWidth - root.clientWidth") <= 0, name
        outside = "root => [...root.querySelectorAll('td, .line, .entry')].filter(cell => cell.scrollWidth > cell.clientWidth + 1).length"
        assert root.evaluate(outside) == 0, name


# on the real page


@pytest.mark.parametrize("language", i18n.LANGUAGES)
def test_a_choice_is_taken_apart_at_rest_and_sliders_never_touch_the_run(open_page: Callable[..., Visitor], language: str) -> None:
    desk = Desk(open_page("/decode", locale={"en": "en-US", "zh": "zh-CN"}[language]).page, language)
    desk.longest(6)
    desk.press("shell.empty_button")
    before = desk.until_status("ended")
    card = desk.page.locator(".st-key-card_stages")
    expect(card.locator("tr.would .sign.written")).to_be_visible(timeout=PATIENCE_MS)
    expect(card.locator(".ruler.idle")).to_be_visible()
    expect(desk.page.locator(".st-key-card_strip .looked")).not_to_be_empty(timeout=PATIENCE_MS)
    expect(desk.page.locator(".st-key-card_strip .chip.linked").first).to_be_visible()
    slider = card.get_by_role("slider", name=desk.words("shell.temperature"))
    slider.focus()
    slider.press("End")
    settle(desk.page)
    expect(card.locator("thead .ob-computed")).to_have_count(3, timeout=PATIENCE_MS)
    expect(card.locator(".ruler.idle")).to_have_count(0)
    card.get_by_role("button", name=desk.words("stages.back")).click()
    expect(card.locator("thead .ob-computed")).to_have_count(0, timeout=PATIENCE_MS)
    after = desk.run()
    assert after is not None
    assert after["ids"] == before["ids"]
    assert after["status"] == "ended"
