"""The charts by themselves, on runs whose numbers are known: what is drawn, what is said, what is left out."""

from __future__ import annotations

import itertools
import statistics
from dataclasses import replace
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from engine.measure.latency import summarize
from engine.trace import DecodeStep, RunSettings, RunStatus, RunView, Token
from tests.browser.charted import COLUMN, DRAWN, begun, drawn, show, step, told, words
from tests.browser.paper import page_for, put, tell
from tests.samples import INFO
from ui import i18n, plotly_script
from ui.components.charts import templates

HOSTILE = b'</span><script>window.hit = 1</script><a href="javascript:hit()">$5 & _a_'


def mixed(count: int) -> list[DecodeStep]:
    """Steps of known times: every fifth one waited for others, the seventh came after a pause of nine seconds."""
    steps, at_s = [], 0.5
    for index in range(1, count + 1):
        waited, paused = (0.03 if index % 5 == 0 else 0.0), (9.0 if index == 7 else 0.0)
        busy = 0.040 + 0.001 * (index % 4)
        at_s += waited + paused + busy
        steps.append(step(index, busy, gap_s=waited + paused, paused_s=paused, at_s=at_s))
    return steps


def test_intervals_are_the_latency_summary_of_the_same_run(page: Page) -> None:
    steps = mixed(40)
    view = RunView("r" * 22, "", RunSettings(), "m", "2026-01-01T00:00:00+00:00", RunStatus.ENDED, INFO, (), begun(), tuple(steps))
    known = summarize(view)
    show(page, "intervals", told(steps))
    seen = drawn(page)
    assert [a + b for a, b in zip(seen["work"]["y"], seen["wait"]["y"], strict=True)] == pytest.approx([itl * 1000 for itl in known.itl_s])
    assert sum(seen["wait"]["y"]) == pytest.approx(known.waited_s * 1000) == pytest.approx(8 * 30)
    assert known.paused_s == 9.0
    assert max(seen["work"]["y"]) < 50, "the reader's pause is in no bar"
    tpot = seen[words("tpot")]["y"]
    assert tpot[-1] == pytest.approx((known.tpot_s or 0) * 1000)
    assert tpot[9] == pytest.approx(statistics.mean(known.itl_s[:10]) * 1000), "running: the mean up to there"
    assert seen["p50"]["y"] == pytest.approx([(known.p50_itl_s or 0) * 1000] * 40)
    assert seen["p95"]["y"] == pytest.approx([(known.p95_itl_s or 0) * 1000] * 40)
    assert seen["work"]["x"] == list(range(2, 42)), "the first token took no step"
    expect(page.locator("h4")).to_contain_text(words("itl_faster", t="47.5 ms"))
    expect(page.locator("h4")).to_contain_text(words("itl_waited", share="13%"))


@pytest.mark.parametrize(("busy_s", "key", "t"), [(0.02, "faster", "20.0 ms"), (0.07, "within", "70.0 ms"), (0.3, "slower", "300 ms")])
def test_the_title_says_where_the_band_is(page: Page, busy_s: float, key: str, t: str) -> None:
    show(page, "intervals", told([step(index, busy_s) for index in range(1, 6)]))
    expect(page.locator("h4 span").first).to_have_text(words(f"itl_{key}", t=t))
    expect(page.locator(".says")).to_contain_text(words("few"))


def test_percentiles_from_twenty_steps_on_and_the_cursor_goes_back(page: Page) -> None:
    steps = mixed(20)
    show(page, "intervals", told(steps[:19]))
    assert "p50" not in drawn(page)
    tell(page, told(steps))
    assert {"p50", "p95"} <= set(drawn(page))
    page.evaluate("() => { Object.assign(window.__openbook.idle, { cursor: 6, revision: 1e6 }); window.__openbook.wake(); }")
    page.wait_for_function(f"() => ({DRAWN})()[0].y.length === 6")
    assert "p50" not in drawn(page)


def test_one_token_and_none(page: Page) -> None:
    show(page, "intervals", told([]))
    expect(page.locator("h4 span")).to_have_text([words("itl_none")])  # and no tag where nothing was measured
    tell(page, {"status": None, "prefill": None, "steps": []})
    expect(page.locator("h4 span")).to_have_text([words("itl_none")])


@pytest.mark.parametrize(("text", "key"), [("one two ", "words"), ("好的", "characters")])
def test_the_band_in_reading_speed(page: Page, text: str, key: str) -> None:
    piece = Token(7, text.encode(), text, "generated", 3)
    steps = [replace(step(index, 0.05), token=piece) for index in range(1, 10)]
    show(page, "intervals", told(steps, prefill=begun(first=piece)))
    # Two words or two characters a token: 20 words a second at 100 ms.
    places = {"slow": "1,200", "fast": "2,400"} if key == "words" else {"slow": "20.0", "fast": "40.0"}
    expect(page.locator(".says")).to_contain_text(words(f"band_{key}", **places))


def test_hostile_tokens_stay_text(page: Page) -> None:
    bad = Token(9, HOSTILE, HOSTILE.decode(), "generated", 4)
    show(page, "intervals", told([replace(step(1, 0.05), token=bad), step(2, 0.05)]))
    name = drawn(page)["work"]["text"][0]
    assert name.startswith("&lt;/span&gt;&lt;script&gt;")
    box = page.locator(".plot").bounding_box()
    assert box is not None
    for part in range(4, 40):
        page.mouse.move(box["x"] + box["width"] * part / 40, box["y"] + box["height"] / 2)
        if page.locator(".hoverlayer").inner_html():
            break
    expect(page.locator(".hoverlayer")).to_contain_text("</span><script>window")
    assert page.locator(".hoverlayer script, .hoverlayer a").count() == 0
    assert page.evaluate("() => window.hit") is None


def test_notes_measured_beside_the_formula_with_the_jump(page: Page) -> None:
    steps = [step(index, 0.05) for index in range(1, 5)]
    show(page, "notes", told(steps))
    seen = drawn(page)
    assert seen["measured"]["x"] == [1, 2, 3, 4, 5]
    assert [round(y * 1024) for y in seen["measured"]["y"]] == [COLUMN * (3 + at) for at in range(5)]
    assert seen["formula"]["x"][:2] == [0, 1]
    assert seen["formula"]["y"][0] == 0
    assert seen["formula"]["y"][1:] == pytest.approx(seen["measured"]["y"])
    expect(page.locator(".says")).to_have_text(words("notes_equal", n=5))
    tell(page, told([*steps[:2], replace(steps[2], kv_bytes=steps[2].kv_bytes + 1), steps[3]]))
    expect(page.locator(".says")).to_have_text(words("notes_differ", n=1, all=5, first=4))


def test_many_points_are_thinned_and_said_so(page: Page) -> None:
    show(page, "notes", told([step(index, 0.05) for index in range(1, 1000)]))
    seen = drawn(page)["measured"]
    assert len(seen["x"]) <= 201
    assert (seen["x"][0], seen["x"][-1]) == (1, 1000)
    expect(page.locator(".says")).to_contain_text(words("notes_equal", n="1,000"))
    expect(page.locator(".says")).to_contain_text(words("thinned", every=5))


@pytest.mark.parametrize("language", i18n.LANGUAGES)
def test_without_plotly_it_is_said_and_the_table_has_the_numbers(page: Page, language: str) -> None:
    own = {
        "chart": "intervals",
        "script": plotly_script.path(),
        "templates": templates(),
        "windows": None,
        "layer_token_bytes": None,
        "comfort_ms": [50, 100],
    }
    put(page_for(page, plotly=False), "charts", told(mixed(3)), language=language, **own)
    expect(page.locator(".missing")).to_have_text(i18n.text(language, "components.charts_missing"))
    expect(page.locator(".plot")).to_be_hidden()
    page.locator("summary").click()
    expect(page.locator("tbody tr")).to_have_count(3)
    expect(page.locator("tbody tr").first).to_have_text("2" + "41.0" + "0.0" + "41.0")


PAINTS = """() => {
  const react = window.Plotly.react;
  window.paints = [];
  window.Plotly.react = (...given) => { window.paints.push(performance.now()); return react(...given); };
}"""


def test_at_most_four_pictures_a_second_while_playing_and_the_exact_one_at_rest(page: Page) -> None:
    steps = mixed(60)
    show(page, "intervals", told(steps[:1], "running"))
    page.evaluate(PAINTS)
    for count in range(2, 60):
        tell(page, told(steps[:count], "running"))
    tell(page, told(steps[:59]))
    assert len(drawn(page)["work"]["y"]) == 59
    paints = page.evaluate("() => window.paints")
    while_playing = paints[:-1]
    assert len(while_playing) >= 1
    assert all(b - a >= 245 for a, b in itertools.pairwise(while_playing))


def test_one_script_for_all_charts_of_a_page(page: Page) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "plotly" in request.url else None)
    own: dict[str, Any] = {
        "script": plotly_script.path(),
        "templates": templates(),
        "windows": None,
        "layer_token_bytes": None,
        "comfort_ms": [50, 100],
    }
    page_for(page)
    for chart in ("intervals", "notes", "owners"):
        put(page, "charts", told(mixed(3)), chart=chart, **own)
    page.wait_for_function(
        "() => [...document.querySelectorAll('.paper')].filter((d) => d.shadowRoot.querySelector('.main-svg')).length === 3"
    )
    assert len(asked) == 1


def test_dark_paper_dark_chart_and_another_width(page: Page) -> None:
    show(page, "intervals", told(mixed(3)))
    ink = "() => window.shadow.querySelector('.plot').layout.template.layout.font.color"
    assert page.evaluate(ink) == templates()["light"]["layout"]["font"]["color"]
    page.evaluate("() => { document.documentElement.style.setProperty('--st-background-color', '#14171f'); return window.mount({}); }")
    assert page.evaluate(ink) == templates()["dark"]["layout"]["font"]["color"]
    page.set_viewport_size({"width": 420, "height": 700})
    page.wait_for_function("() => window.shadow.querySelector('.main-svg').clientWidth < 420")
