"""The mark sheet, through AppTest: the summary's own numbers, what goes to the browser, and speeds that stay chosen."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from engine.measure.latency import summarize
from engine.trace import RunStatus, RunView
from tests.app.visit import ask, go_to, open_app, words_of
from tests.samples import step
from ui import i18n, numbers, plotly_script, resources, state
from ui.sections import live_charts

pytestmark = pytest.mark.usefixtures("engine_process")


def at_marks(language: str = "en", tokens: int = 6) -> tuple[AppTest, RunView]:
    app = open_app(language)
    run = ask(app, max_new_tokens=tokens)
    go_to(app, "marks")
    assert not app.exception, app.exception
    return app, run


def sent(app: AppTest, name: str) -> list[dict[str, Any]]:
    return [json.loads(part.proto.json) for part in app.get("bidi_component") if part.proto.component_name == f"openbook_{name}"]


def changed(monkeypatch: pytest.MonkeyPatch, change: Callable[[RunView], RunView]) -> None:
    """The page is shown another run than there is."""
    view = resources.engine().view
    monkeypatch.setattr(resources.engine(), "view", lambda run_id: change(view(run_id)))


@pytest.mark.parametrize("language", i18n.LANGUAGES)
def test_all_marks_are_the_summary_s(language: str) -> None:
    app, run = at_marks(language, tokens=24)
    known = summarize(run)
    told = {metric.label: metric.value for metric in app.metric}
    seconds = {"ttft": known.ttft_s, "tpot": known.tpot_s, "p50": known.p50_itl_s, "p95": known.p95_itl_s}
    seconds |= {"waited": known.waited_s, "paused": known.paused_s}
    for name, value in seconds.items():
        assert told[i18n.text(language, f"marks.{name}")] == numbers.milliseconds(value), name
    for name, rate in {"speed": known.decode_tokens_per_s, "overall": known.overall_tokens_per_s}.items():
        assert told[i18n.text(language, f"marks.{name}")] == i18n.text(language, "marks.rate", n=f"{rate:,.1f}"), name
    assert (known.p50_itl_s is None) == (len(run.steps) < 20)
    assert "ttft_" not in words_of(app)


@pytest.mark.parametrize("language", i18n.LANGUAGES)
def test_three_charts_and_two_sheets_go_to_the_browser(language: str) -> None:
    app, run = at_marks(language)
    charts = sent(app, "charts")
    assert [each["chart"] for each in charts] == ["intervals", "notes", "owners"]
    assert {each["script"] for each in charts} == {plotly_script.path()}
    assert all(each["run_id"] == run.run_id and set(each["templates"]) == {"light", "dark"} for each in charts)
    assert charts[1]["layer_token_bytes"] * len(charts[1]["windows"]) * len(run.tokens) == (run.prefill.kv_bytes if run.prefill else 0)
    assert charts[0]["comfort_ms"] == [50, 100]
    assert charts[0]["labels"]["charts_comfort"] == i18n.text(language, "components.charts_comfort")
    (pace,) = sent(app, "pace")
    assert (pace["ttft_s"], pace["tpot_s"]) == (1.0, 0.1)


def test_one_token_has_no_time_per_token() -> None:
    app, _ = at_marks(tokens=1)
    told = {metric.label: metric.value for metric in app.metric}
    for name in ("tpot", "p50", "p95", "speed"):
        assert told[i18n.text("en", f"marks.{name}")] == numbers.NOTHING
    assert told[i18n.text("en", "marks.ttft")] != numbers.NOTHING


def test_while_the_pen_moves_no_figure_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    app, _ = at_marks()
    changed(monkeypatch, lambda view: replace(view, status=RunStatus.RUNNING, stop_reason=None))
    app.run()
    assert not app.exception
    assert i18n.text("en", "marks.ttft") not in {metric.label for metric in app.metric}
    assert i18n.text("en", "marks.ttft_band") in words_of(app)
    assert len(sent(app, "charts")) == 3


def test_a_chosen_speed_outlives_language_and_page() -> None:
    app, _ = at_marks()
    app.slider(key=state.FEEL_TTFT).set_value(4.5).run()
    app.button(key="pace_200").click().run()
    assert not app.exception, app.exception
    (pace,) = sent(app, "pace")
    assert (pace["ttft_s"], pace["tpot_s"]) == (4.5, 0.2)
    assert app.slider(key=state.FEEL_TPOT).value == 200
    app.get("button_group")  # the language switch is one of them; its state is what counts here
    app.session_state[state.LANGUAGE] = "zh"
    app.run()
    go_to(app, "decode")
    go_to(app, "marks")
    assert not app.exception, app.exception
    (pace,) = sent(app, "pace")
    assert (pace["ttft_s"], pace["tpot_s"]) == (4.5, 0.2)


@pytest.mark.parametrize(("ttft_s", "name"), [(0.2, "below"), (2.0, "within"), (7.0, "above")])
@pytest.mark.parametrize("language", i18n.LANGUAGES)
def test_the_first_wait_is_held_against_its_band(monkeypatch: pytest.MonkeyPatch, ttft_s: float, name: str, language: str) -> None:
    def waited(view: RunView) -> RunView:
        assert view.prefill is not None
        done = replace(view.prefill, queue_s=0.0, template_s=0.0, tokenize_s=0.0, sample_s=0.0, prefill_s=ttft_s, at_s=ttft_s)
        return replace(view, prefill=done)

    app, _ = at_marks(language)
    changed(monkeypatch, waited)
    app.run()
    assert i18n.text(language, f"marks.ttft_{name}", ttft=numbers.milliseconds(ttft_s)) in words_of(app)


@pytest.mark.parametrize(("share", "truth"), [(0.05, "little"), (0.3, "some"), (0.8, "most")])
def test_the_guess_is_checked_against_the_run(monkeypatch: pytest.MonkeyPatch, share: float, truth: str) -> None:
    def shared(view: RunView) -> RunView:
        assert view.prefill is not None
        done = replace(view.prefill, queue_s=0.0, template_s=0.0, tokenize_s=0.0, sample_s=0.0, prefill_s=share)
        steps = tuple(replace(each, gap_s=0.0, paused_s=0.0, busy_s=(1 - share) / len(view.steps)) for each in view.steps)
        return replace(view, prefill=done, steps=steps)

    app, _ = at_marks()
    changed(monkeypatch, shared)
    app.session_state[state.GUESS + "marks"] = truth
    app.run()
    assert not app.exception, app.exception
    assert i18n.text("en", "shell.predict_right") in words_of(app)
    assert f"{share:.0%}" in words_of(app)


def test_a_run_that_was_queued_loaded_or_cold_is_said_to_be() -> None:
    _, run = at_marks()
    assert run.prefill is not None
    steps = tuple(replace(step(index), gap_s=0.0, paused_s=0.0, busy_s=0.05) for index in range(1, 11))
    calm = replace(run, steps=steps, prefill=replace(run.prefill, queue_s=0.01))
    assert not live_charts.cold(steps)
    assert live_charts.cold((*(replace(each, busy_s=0.4) for each in steps[:2]), *steps[2:]))
    assert not live_charts.cold((replace(steps[0], busy_s=9.0), *steps[1:7])), "too few steps to tell"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(live_charts, "t", lambda key, **places: " ".join([key, *map(str, places.values())]))
        assert live_charts.conditions(calm, summarize(calm)) == []
        loaded = replace(calm, steps=tuple(replace(each, gap_s=0.05) for each in steps))
        assert live_charts.conditions(loaded, summarize(loaded)) == ["marks.loaded 50%"]
        paused = replace(calm, steps=tuple(replace(each, gap_s=5.0, paused_s=5.0) for each in steps))
        assert live_charts.conditions(paused, summarize(paused)) == [], "the reader's own pauses are no load"
        queued = replace(calm, prefill=replace(run.prefill, queue_s=3.0))
        assert live_charts.conditions(queued, summarize(queued)) == ["marks.queued 3.00 s"]
