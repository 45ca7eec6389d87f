"""Every way to end, brought about by a reader's click on the Decode page, in both languages; then an ordinary exam works again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, expect

from engine.errors import EngineLost, ErrorInfo, PromptTooLong
from engine.trace import DecodeStep, PrefillTrace
from tests.browser.desk import Desk
from tests.browser.driver import Visitor, settle
from tests.browser.test_parts import show
from tests.samples import PREFILL, step
from ui import ends, i18n

LOCALES = {"en": "en-US", "zh": "zh-CN"}
REASONS = {
    "eos": "eos",
    "length": "length",
    "context_full": "context_full",
    "stopped": "stopped",
    "timeout": "timeout",
    "paper": "out_of_memory",
    "power": "out_of_memory",
}
WRITTEN = {"length": 8, "context_full": 7, "paper": 7, "power": 6}  # tokens, with the numbers that the page proposes
LONGEST = 12
LIES_STILL = 5  # looks, a tenth of a second apart, at a page where nothing has moved


def way(desk: Desk, name: str) -> Locator:
    return desk.page.locator(f".st-key-card_end_{name}")


def press(desk: Desk, name: str, words: str) -> None:
    """Click once the page lies still: a button that moves between press and release is not clicked, neither here nor by a reader."""
    button = way(desk, name).get_by_role("button", name=desk.words(f"endings.{words}"))
    expect(button).to_be_enabled(timeout=30_000)
    settle(desk.page)
    button.scroll_into_view_if_needed()
    lain = 0
    place = button.bounding_box()
    while lain < LIES_STILL:
        desk.page.wait_for_timeout(100)
        before, place = place, button.bounding_box()
        lain = lain + 1 if place == before else 0
    button.click()


def other_run_ends(desk: Desk, before: str, timeout_s: float = 90.0) -> dict[str, Any]:
    """Wait until another run than `before` is the page's, and has ended; gives it."""
    desk.page.wait_for_url(lambda url: f"run={before}" not in url, timeout=timeout_s * 1000)
    return desk.until_status("ended", timeout_s)


def bring_about(desk: Desk, name: str) -> dict[str, Any]:
    before = desk.run_id()
    if name == "timeout":
        bell = way(desk, name).get_by_role("spinbutton")
        bell.fill("0.3")
        bell.press("Enter")
        settle(desk.page)
    if name != "stopped":
        press(desk, name, f"{name}_do")
        return other_run_ends(desk, before)
    press(desk, name, "stopped_first")
    desk.page.wait_for_url(lambda url: f"run={before}" not in url)
    desk.until_steps(2)
    press(desk, name, "stopped_do")
    return desk.until_status("ended")


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("name", REASONS)
def test_an_end_is_brought_about_explained_and_over(open_page: Callable[..., Visitor], name: str, language: str) -> None:
    desk = Desk(open_page("/decode", locale=LOCALES[language]).page, language)
    desk.longest(LONGEST)
    desk.press("shell.play")
    before = desk.until_status("ended", 120)
    outcome = desk.page.locator(".st-key-card_outcome")
    expect(outcome).to_be_visible(timeout=30_000)  # the page has been drawn for the end: nothing moves under the click
    ended = bring_about(desk, name)
    assert ended["stop_reason"] == REASONS[name]
    assert ended["generated"] == WRITTEN.get(name, ended["generated"]) > 0
    assert ended["kv_tokens"] == ended["tokens"] + ended["generated"] - 1, "no half-written column, none missing"
    settle(desk.page)
    expect(way(desk, name).get_by_text(desk.words("endings.happened"))).to_be_visible(timeout=30_000)
    for part in ("stayed", "lost", "engineers"):
        expect(outcome.get_by_text(desk.words(f"endings.{part}"), exact=True)).to_be_visible()
    told = {"eos": "eos_hand"}.get(name, name)  # the reader's deed, not the model's
    expect(outcome.get_by_text(desk.words(f"endings.{told}_lost"))).to_be_visible()
    expect(desk.page.locator(".answer .text")).to_have_text(desk.answer_in_store(), use_inner_text=True)
    expect(desk.page.locator(".answer .end")).to_have_text(desk.words(f"stops.{'eos_hand' if name == 'eos' else REASONS[name]}"))
    desk.press("shell.play")
    after = other_run_ends(desk, ended["id"])
    assert (after["stop_reason"], after["ids"]) == (before["stop_reason"], before["ids"]), "the limits are gone"


BY_READER = replace(step(1), chosen_by="reader")
TOO_LONG, LOST = PromptTooLong(tokens=9, context=8).info, EngineLost(exit_code=-9).info


@pytest.mark.parametrize(
    ("reason", "error", "prefill", "steps", "words"),
    [
        ("eos", None, PREFILL, (step(1),), "eos"),
        ("eos", None, PREFILL, (BY_READER,), "eos_hand"),
        ("eos", None, PREFILL, (BY_READER, step(2)), "eos"),
        ("eos", None, replace(PREFILL, chosen_by="reader"), (), "eos_hand"),
        ("error", TOO_LONG, None, (), "refused"),
        ("error", LOST, None, (), "error"),
        ("error", LOST, PREFILL, (), "error"),
    ],
)
def test_the_answer_sheet_tells_whose_deed_the_end_was(
    browser: Browser, reason: str, error: ErrorInfo | None, prefill: PrefillTrace, steps: tuple[DecodeStep, ...], words: str
) -> None:
    labels = {key: entry["en"] for key, entry in i18n.table("components").items()}
    labels |= {f"answer_end_{name}": entry["en"] for name, entry in i18n.table("stops").items()}
    context = browser.new_context()
    page = context.new_page()
    run = {"stop_reason": reason, "error": error}
    show(page, "answer", prefill, steps, run=run, labels=labels, question=None, accidents=list(ends.ACCIDENTS))
    expect(page.locator(".end")).to_have_text(labels[f"answer_end_{words}"])
    context.close()


@pytest.mark.parametrize("language", ["en", "zh"])
def test_from_the_button_to_what_became_of_it_and_back(open_page: Callable[..., Visitor], language: str) -> None:
    desk = Desk(open_page("/decode", locale=LOCALES[language]).page, language)
    desk.longest(LONGEST)
    desk.press("shell.play")
    desk.until_status("ended", 120)
    outcome = desk.page.locator(".st-key-card_outcome")
    expect(outcome).to_be_visible(timeout=30_000)
    ended = bring_about(desk, "length")
    see = way(desk, "length").get_by_role("link", name=desk.words("endings.see"))
    expect(see).to_be_visible(timeout=30_000)
    see.click()
    expect(desk.page.locator("#outcome")).to_be_in_viewport()
    assert desk.run_id() == ended["id"]
    outcome.get_by_role("link", name=desk.words("endings.back_up")).click()
    expect(desk.page.locator("#endings")).to_be_in_viewport()
    outcome.get_by_role("link", name=desk.words("endings.back_shelf")).click()
    expect(desk.page.get_by_role("heading", name=desk.words("records.title"))).to_be_visible()
    assert desk.run_id() == ended["id"], "the run comes along"
    desk.go("decode")
    bring_about(desk, "eos")
    outcome.get_by_role("link", name=desk.words("endings.back_branch")).click()
    expect(desk.page.locator("#branches")).to_be_in_viewport()
    expect(desk.page.locator(".branches .branch")).to_have_count(2)
