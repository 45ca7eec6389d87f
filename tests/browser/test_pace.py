"""Feel the speed, by itself and with a clock that the test moves: each token comes when it is due, never half a character."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from engine.trace import DecodeStep, Token
from tests.browser.paper import page_for, put, tell
from tests.samples import INFO, PREFILL
from ui import i18n

# From now on frames come only when the test says so: window.turn(n) draws n frames of 100 ms.
FRAMES = """() => {
  let now = performance.now();
  let waiting = [];
  window.requestAnimationFrame = (call) => waiting.push(call);
  window.cancelAnimationFrame = (id) => { waiting[id - 1] = () => {}; };
  window.turn = (count) => {
    for (let frame = 0; frame < count; frame += 1) {
      now += 100;
      const calls = waiting;
      waiting = [];
      for (const call of calls) call(now);
    }
  };
}"""


def piece(raw: bytes, special: bool = False) -> Token:
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        text = ""
    return Token(7, raw, text, "generated", 5, special)


def run_of(pieces: list[bytes], *, itl_s: float = 0.2, ttft_s: float = 0.5, paused_s: float = 0.0, special: int = -1) -> dict[str, Any]:
    """An ended run; all steps took the same time, and before the second token the reader had paused."""
    tokens = [piece(raw, at == special) for at, raw in enumerate(pieces)]
    steps = []
    for index, token in enumerate(tokens[1:], 1):
        pause = paused_s if index == 1 else 0.0
        steps.append(DecodeStep(index, token, (), pause, pause, itl_s, 0.0, itl_s, ttft_s + paused_s + index * itl_s, 0, 0, 0))
    prefill = replace(PREFILL, queue_s=0.0, prefill_s=ttft_s, sample_s=0.0, at_s=ttft_s, first=tokens[0])
    return {"status": "ended", "model": INFO, "tokens": [], "prefill": prefill, "steps": steps}


def show(page: Page, run: dict[str, Any], *, ttft_s: float = 1.0, tpot_s: float = 0.1, language: str = "en") -> None:
    put(page_for(page), "pace", run, language=language, ttft_s=ttft_s, tpot_s=tpot_s)
    page.evaluate(FRAMES)


def turn(page: Page, frames: int) -> None:
    page.evaluate("count => window.turn(count)", frames)


def written(page: Page) -> list[str]:
    return [page.locator(f".{side} .text").inner_text() for side in ("measured", "chosen")]


def start(page: Page) -> None:
    page.locator(".go").click()
    turn(page, 1)  # the frame from which the clock counts


WORDS = [b"one", b" two", b" three", b" four", b" five"]


def test_each_sheet_writes_at_its_own_times_without_the_reader_s_pauses(page: Page) -> None:
    show(page, run_of(WORDS, itl_s=0.2, ttft_s=0.5, paused_s=30.0), ttft_s=0.8, tpot_s=0.1)
    start(page)
    seen = []
    for _ in range(14):
        turn(page, 1)
        seen.append([text.count(" ") + 1 if text.strip() else 0 for text in written(page)])
    # After 0.1 s, 0.2 s, … : 0.5 + k·0.2 as measured, 0.8 + k·0.1 as chosen.
    due = [[sum(0.5 + 0.2 * k <= t + 1e-9 for k in range(5)), sum(0.8 + 0.1 * k <= t + 1e-9 for k in range(5))] for t in ticks(14)]
    assert all(abs(a - b) <= 1 for left, right in zip(seen, due, strict=True) for a, b in zip(left, right, strict=True))
    assert seen[3] == [0, 0]
    assert seen[-1] == [5, 5]
    expect(page.locator(".measured .foot")).to_have_text(i18n.text("en", "components.pace_done", t="1.3 s"))
    expect(page.locator(".chosen .foot")).to_have_text(i18n.text("en", "components.pace_done", t="1.2 s"))
    expect(page.locator(".over")).to_have_text(i18n.text("en", "components.pace_over"))


def ticks(count: int) -> list[float]:
    return [0.1 * tick for tick in range(1, count + 1)]


def test_half_a_character_waits_for_its_other_bytes(page: Page) -> None:
    whole = "好🍊".encode()
    show(page, run_of([whole[:2], whole[2:5], whole[5:], b"!"], ttft_s=0.1, itl_s=0.2), ttft_s=9.0)
    start(page)
    turn(page, 2)
    expect(page.locator(".measured .pending")).to_have_text("E5 A5")
    assert "好" not in written(page)[0]
    turn(page, 2)
    assert written(page)[0].startswith("好")
    expect(page.locator(".measured .pending")).to_have_text("F0 9F")
    turn(page, 6)
    assert written(page)[0].strip() == "好🍊!"
    assert "\ufffd" not in page.locator(".measured").inner_text()


def test_hostile_text_and_special_tokens(page: Page) -> None:
    show(page, run_of([b"<img src=x onerror=alert(1)>", b"$5 **b** :red[x]", b"<|im_end|>"], special=2), ttft_s=0.1, tpot_s=0.02)
    start(page)
    turn(page, 20)
    assert written(page)[1].strip() == "<img src=x onerror=alert(1)>$5 **b** :red[x]"
    expect(page.locator(".text img")).to_have_count(0)


def test_stop_begin_again_and_another_speed_on_the_way(page: Page) -> None:
    show(page, run_of(WORDS), ttft_s=10.0, tpot_s=0.5)
    start(page)
    turn(page, 4)
    page.locator(".go").click()
    turn(page, 10)
    assert written(page)[1].strip() == ""
    expect(page.locator(".chosen .foot")).to_have_text(i18n.text("en", "components.pace_stopped", t="0.4 s"))
    expect(page.locator(".go")).to_contain_text(i18n.text("en", "components.pace_again"))
    start(page)
    turn(page, 4)
    page.evaluate("() => { window.mount({ ttft_s: 0.1, tpot_s: 0.1 }); }")
    turn(page, 8)
    assert written(page)[1].strip() == "one two three four five"


@pytest.mark.parametrize(("pieces", "language", "key", "places"), [
    (WORDS, "en", "words", {"words": "600", "characters": "38.0"}),
    (["今天".encode(), "天气".encode(), "很好".encode()], "zh", "characters", {"characters": "20.0", "minute": "1,200"}),
])  # fmt: skip
def test_reading_speed_of_this_very_answer(page: Page, pieces: list[bytes], language: str, key: str, places: dict[str, str]) -> None:
    """At 100 ms a token: five words, 19 characters in five tokens; six characters in three."""
    show(page, run_of(pieces), tpot_s=0.1, language=language)
    expect(page.locator(".chosen .times")).to_contain_text(i18n.text(language, f"components.pace_{key}", **places))
    times = i18n.text(language, "components.pace_times", ttft="500 ms", tpot="200 ms")
    expect(page.locator(".measured .times")).to_contain_text(times)


def test_nothing_to_stream_and_a_run_of_one_token(page: Page) -> None:
    show(page, {"status": None, "prefill": None, "steps": []})
    expect(page.locator(".go")).to_be_disabled()
    expect(page.locator(".over")).to_have_text(i18n.text("en", "components.pace_none"))
    page.evaluate("() => { window.requestAnimationFrame = (call) => setTimeout(() => call(performance.now()), 5); }")
    tell(page, run_of([b"Yes"], ttft_s=0.05) | {"epoch": 2})
    expect(page.locator(".go")).to_be_enabled()
    expect(page.locator(".measured .times")).to_have_text(i18n.text("en", "components.pace_time", ttft="50.0 ms"))
    page.locator(".go").click()
    expect(page.locator(".measured .text")).to_contain_text("Yes")
