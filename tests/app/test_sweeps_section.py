"""The page of sweeps in both languages: asked for, under way, cancelled, found again; a tiny real model behind the real process."""

from __future__ import annotations

import csv
from dataclasses import replace

import pytest
from streamlit.testing.v1 import AppTest

from engine.errors import EngineLost, Unwatched
from engine.measure.fit import fit
from engine.serve.client import ModelStatus
from engine.sweep import Measuring, SweepPoint, SweepStatus, SweepView
from tests.app.visit import go_to, open_app, wait_for, words_of
from tests.samples import INFO
from ui import i18n, panels, resources, state
from ui.sections import growth, sweeps

pytestmark = pytest.mark.usefixtures("engine_process")
LENGTHS = (64, 128, 256)
POINTS = tuple(SweepPoint(length, (length / 100, length / 90), (length / 110, length / 100)) for length in LENGTHS)
BENT = tuple(SweepPoint(n, (0.05 + 1e-3 * n + 2e-5 * n**2,), (0.01,)) for n in LENGTHS)


def made_up(status: SweepStatus, points: tuple[SweepPoint, ...] = POINTS, **more: object) -> SweepView:
    view = SweepView("S" * 22, "ttft", "m", "cpu", LENGTHS, "2026-01-02T03:04:05+00:00", status, INFO, points, conditions={"system": "*x*"})
    return replace(view, **more)


def shown(monkeypatch: pytest.MonkeyPatch, view: SweepView, language: str = "en") -> AppTest:
    """The page with a sweep that stands as given."""
    monkeypatch.setattr(resources.engine(), "sweep_view", lambda sweep_id: view if sweep_id == view.sweep_id else None)
    return open_app(language, "sweeps", **{view.kind: view.sweep_id})


def newest(app: AppTest, kind: str = "ttft") -> SweepView:
    view = resources.engine().sweep_view(app.session_state[state.SWEEPS][kind])
    assert view is not None
    return view


@pytest.mark.parametrize("language", i18n.LANGUAGES)
@pytest.mark.parametrize("kind", ["ttft", "tpot"])
def test_a_sweep_is_measured_and_found_again(language: str, kind: str) -> None:
    app = open_app(language, "sweeps")
    app.segmented_control(key=state.SWEEP_KIND).set_value(kind).run()
    app.select_slider(key=state.SWEEP_UNTIL).set_value(256).run()
    app.button(key="sweep_begin").click().run()
    assert not app.exception
    wait_for(lambda: not newest(app, kind).moving)
    app.run()
    view = newest(app, kind)
    assert (view.status, view.points[-1].length) == ("done", 256)
    found = growth.fitted(view)
    assert found is not None
    parts = {name: growth.span(getattr(found, f"{name}_s")) for name in ("constant", "linear", "quadratic")}
    assert i18n.text(language, f"sweeps.fit_{kind}", **parts) in words_of(app)
    assert not app.button(key="sweep_begin").disabled
    assert kind in app.query_params
    sweep_id = view.sweep_id
    go_to(app, "home")
    go_to(app, "sweeps")
    app.segmented_control(key=state.LANGUAGE).set_value("zh" if language == "en" else "en").run()
    assert not app.exception
    assert newest(app, kind).sweep_id == sweep_id
    assert [chart.key for chart in app.get("plotly_chart")] == [f"sweep_{sweep_id}"]
    again = open_app(language, "sweeps", **{kind: sweep_id})
    again.segmented_control(key=state.SWEEP_KIND).set_value(kind).run()
    assert [chart.key for chart in again.get("plotly_chart")] == [f"sweep_{sweep_id}"], "a reload finds it by the URL"


@pytest.mark.parametrize("language", i18n.LANGUAGES)
def test_one_that_is_under_way_shows_where_it_is_and_can_be_cancelled(monkeypatch: pytest.MonkeyPatch, language: str) -> None:
    stopped: list[str] = []
    monkeypatch.setattr(resources.engine(), "stop_sweep", stopped.append)
    view = made_up("measuring", POINTS[:1], measuring=Measuring(128, 2, 3))
    app = shown(monkeypatch, view, language)
    assert not app.exception
    assert app.button(key="sweep_begin").disabled
    bar = next(part for part in app.get("progress") if part.proto.text)
    assert bar.proto.text == i18n.text(language, "sweeps.now_ttft", at="2", of="3", length="128", number="2", most="3")
    assert bar.proto.value == int(100 * (64 + 128 / 3) / 448)
    assert len(app.get("plotly_chart")) == 1
    app.button(key="sweep_cancel").click().run()
    assert stopped == [view.sweep_id]


def test_one_that_is_under_way_is_looked_at_from_every_page(monkeypatch: pytest.MonkeyPatch) -> None:
    def pulses(app: AppTest) -> int:
        assert not app.exception
        return sum(part.proto.component_name == "openbook_pulse" for part in app.get("bidi_component"))

    still, moving = made_up("done"), made_up("measuring")
    quiet = pulses(go_to(shown(monkeypatch, still), "home"))
    assert pulses(go_to(shown(monkeypatch, moving), "home")) == quiet + 1


@pytest.mark.parametrize("language", i18n.LANGUAGES)
def test_a_cancelled_one_keeps_what_is_there(monkeypatch: pytest.MonkeyPatch, language: str) -> None:
    app = shown(monkeypatch, made_up("stopped", POINTS[:2]), language)
    assert not app.exception
    assert i18n.text(language, "sweeps.cut", got="2", asked="3") in words_of(app)
    assert i18n.text(language, "sweeps.fit_few", few="3") in words_of(app)
    assert len(app.get("plotly_chart")) == 1
    assert not app.button(key="sweep_begin").disabled
    assert not app.warning
    assert "2026-01-02 03:04" in words_of(app)
    empty = shown(monkeypatch, made_up("stopped", ()), language)
    assert i18n.text(language, "sweeps.cut_empty") in words_of(empty)
    assert not empty.get("plotly_chart")


@pytest.mark.parametrize("language", i18n.LANGUAGES)
def test_one_that_was_stopped_for_a_reason_says_it(monkeypatch: pytest.MonkeyPatch, language: str) -> None:
    app = shown(monkeypatch, made_up("stopped", POINTS[:2], error=Unwatched().info), language)
    assert [part.value for part in app.warning] == [i18n.text(language, "sweeps.unwatched")]
    assert i18n.text(language, "sweeps.cut", got="2", asked="3") in words_of(app)
    other = shown(monkeypatch, made_up("stopped", (), error=EngineLost(exit_code=-9).info), language)
    assert "-9" in other.warning[0].value


@pytest.mark.parametrize(("standing", "says"), [("loading", "waiting_model"), ("ready", "waiting")])
def test_what_a_waiting_one_waits_for_is_about_its_own_model(monkeypatch: pytest.MonkeyPatch, standing: str, says: str) -> None:
    known = resources.engine().model_status

    def status(model: str, device: str = "auto") -> ModelStatus:
        return ModelStatus(standing) if (model, device) == ("another", "cuda") else known(model, device)

    monkeypatch.setattr(resources.engine(), "model_status", status)
    app = shown(monkeypatch, made_up("waiting", (), model_id="another", device="cuda"))
    assert not app.exception
    bar = next(part for part in app.get("progress") if part.proto.text)
    assert bar.proto.text == i18n.text("en", f"sweeps.{says}")


def test_a_lost_engine_is_said_and_the_points_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    app = shown(monkeypatch, made_up("failed", POINTS[:2], error=EngineLost(exit_code=-9).info))
    assert "-9" in app.error[0].value
    assert len(app.get("plotly_chart")) == 1


@pytest.mark.parametrize(("points", "answer"), [(POINTS, "twice"), (BENT, "more")])
def test_the_guess_is_checked_by_the_two_longest(monkeypatch: pytest.MonkeyPatch, points: tuple[SweepPoint, ...], answer: str) -> None:
    view = made_up("done", points)
    found = growth.doubling(view)
    assert found is not None
    assert (found.tokens, found.answer) == (256, answer)
    app = shown(monkeypatch, view)
    app.segmented_control(key=state.GUESS + "sweeps").set_value(answer).run()
    assert i18n.text("en", "shell.predict_right") in words_of(app)
    assert i18n.text("en", "sweeps.check", **found.words()) in words_of(app)


WILD = tuple(SweepPoint(n, (seconds,), (seconds,)) for n, seconds in zip(LENGTHS, (1.0, 9.0, 1.0), strict=True))
FLAT = tuple(SweepPoint(n, (0.05,), (0.05,)) for n in LENGTHS)


@pytest.mark.parametrize(
    ("kind", "points", "says"),
    [
        ("ttft", BENT, "more and more steeply"),
        ("ttft", POINTS, "From 64 to 256 tokens (4 times as long) the wait grows to 4.0 times"),
        ("ttft", WILD, "scatter too much"),
        ("ttft", POINTS[:1], "64 tokens:"),
        ("tpot", FLAT, "about the same time"),
        ("tpot", POINTS, "a token takes 4.0 times as long as with 64"),
    ],
)
def test_the_title_is_what_was_measured(monkeypatch: pytest.MonkeyPatch, kind: str, points: tuple[SweepPoint, ...], says: str) -> None:
    view = made_up("done", points, kind=kind)
    app = shown(monkeypatch, view)
    if kind != "ttft":
        app.segmented_control(key=state.SWEEP_KIND).set_value(kind).run()
    assert says in words_of(app)
    if points is BENT:
        told = i18n.text("en", "sweeps.square_share", share=f"{2e-5 * 256**2 / BENT[-1].median_s:.0%}", last="256")
        line = next(part.value for part in app.markdown if told in part.value)
        assert panels.badge("computed") in line, "the clock has not measured a share: the curve has it"


def test_the_file_holds_every_measurement_and_gives_the_same_curve() -> None:
    lines = list(csv.DictReader(growth.as_csv(made_up("done")).splitlines()))
    assert [(int(line["tokens"]), float(line["seconds"])) for line in lines] == [(p.length, s) for p in POINTS for s in p.seconds]
    assert [line["number"] for line in lines] == ["1", "2"] * 3
    assert {(line["kind"], line["model"], line["device"], line["dtype"]) for line in lines} == {("ttft", "M", "cpu", "float32")}
    medians = [sum(float(line["seconds"]) for line in lines[at : at + 2]) / 2 for at in (0, 2, 4)]
    assert fit(LENGTHS, medians) == growth.fitted(made_up("done"))


@pytest.mark.parametrize("language", i18n.LANGUAGES)
def test_what_comes_from_a_machine_is_shown_literally(monkeypatch: pytest.MonkeyPatch, language: str) -> None:
    assert "` *x* `" in words_of(shown(monkeypatch, made_up("done"), language))


@pytest.mark.parametrize("forged", ["../../etc", "x", "A" * 22, "<script>alert(1)</script>"])
def test_a_sweep_that_is_none_is_ignored(forged: str) -> None:
    app = open_app("en", "sweeps", ttft=forged)
    assert not app.exception
    assert not app.button(key="sweep_begin").disabled
    assert sweeps.share(made_up("waiting", ())) == 0.0
