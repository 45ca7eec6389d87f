"""Sampling made visible, through AppTest: the stages shown are the engine's, sliders move the picture and never the run."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from engine.errors import RunFreed
from engine.findings import StageRow, Stages
from engine.trace import Origin, RunSettings, RunView
from tests.app.visit import ask, go_to, open_app, view_of, words_of
from tests.samples import token
from ui import asking, i18n, resources, state
from ui.sections import stages

pytestmark = pytest.mark.usefixtures("engine_process")
SAMPLED = RunSettings(max_new_tokens=6, temperature=0.9, top_k=37, top_p=0.95, seed=11, ignore_eos=True)


def at_decode(monkeypatch: pytest.MonkeyPatch, language: str = "en", settings: RunSettings = SAMPLED) -> tuple[AppTest, RunView]:
    monkeypatch.setattr(asking, "run_settings", lambda: settings)
    app = open_app(language)
    run = ask(app)
    go_to(app, "decode")
    assert not app.exception, app.exception
    return app, run


def shown(app: AppTest) -> dict[str, Any]:
    return next(json.loads(part.proto.json) for part in app.get("bidi_component") if part.proto.component_name == "openbook_stages")


def sums(found: dict[str, Any]) -> list[float]:
    """Of all rows and the rest, in each stage."""
    return [sum(row[name] for row in found["rows"]) + found[f"rest_{name}"] for name in ("likely", "tempered", "after_top_k", "share")]


@pytest.mark.parametrize("language", i18n.LANGUAGES)
def test_the_runs_own_stages_are_shown_and_the_number_falls_on_what_was_written(monkeypatch: pytest.MonkeyPatch, language: str) -> None:
    app, run = at_decode(monkeypatch, language)
    for back in range(3):
        index = len(run.generated) - 1 - back
        data = shown(app)
        found = data["found"]
        own = resources.engine().stages(run.run_id, index)
        assert data["own"]
        assert [row["id"] for row in found["rows"]] == [row.id for row in own.rows]
        assert found["written_id"] == found["would_write_id"] == run.generated[index].id
        fell = next(row for row in found["rows"] if row["id"] == found["written_id"])
        assert fell["begins"] <= found["drawn"] < fell["begins"] + fell["share"] + 1e-9
        assert sums(found) == pytest.approx([1] * 4)
        assert f"**{own.drawn:.4f}**" in words_of(app)
        app.button(key="back").click().run()
        assert not app.exception


def test_the_sliders_begin_at_the_runs_own_settings_and_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    app, run = at_decode(monkeypatch)
    values = [app.session_state[key] for key in (state.WHAT_TEMPERATURE, state.WHAT_TOP_K, state.WHAT_TOP_P)]
    assert values == [0.9, 37, 0.95]
    assert app.button(key="what_back").disabled
    app.slider(key=state.WHAT_TEMPERATURE).set_value(2.0).run()
    assert not app.exception
    data = shown(app)
    assert not data["own"]
    assert data["found"]["temperature"] == 2.0
    assert data["found"]["top_k"] == 37
    assert i18n.text("en", "stages.title_if") in words_of(app)
    app.segmented_control(key=state.LANGUAGE).set_value("zh").run()
    assert app.slider(key=state.WHAT_TEMPERATURE).value == 2.0, "nothing is lost on a language switch"
    app.button(key="what_back").click().run()
    assert shown(app)["own"]
    assert view_of(app) == run, "the run was never touched"


@pytest.mark.parametrize(
    ("temperature", "top_k", "top_p"), [(0.0, 37, 0.95), (2.0, 1, 0.95), (1.0, 0, 0.0), (0.05, 1000, 1.0), (2.0, 0, 1.0)]
)
def test_extremes_add_up(monkeypatch: pytest.MonkeyPatch, temperature: float, top_k: int, top_p: float) -> None:
    app, _ = at_decode(monkeypatch)
    vocabulary = shown(app)["found"]["vocabulary"]
    assert vocabulary < 1000, "top-k beyond the vocabulary is among these"
    app.session_state[state.WHAT_TEMPERATURE] = temperature
    app.session_state[state.WHAT_TOP_K] = top_k
    app.session_state[state.WHAT_TOP_P] = top_p
    app.run()
    assert not app.exception, app.exception
    found = shown(app)["found"]
    assert sums(found) == pytest.approx([1] * 4)
    assert {found["written_id"], found["would_write_id"]} <= {row["id"] for row in found["rows"]}
    if temperature == 0 or top_k == 1 or top_p == 0:
        assert [row["share"] for row in found["rows"]].count(1) == 1
    if (top_k, top_p) == (0, 1.0):
        assert found["kept_top_p"] == vocabulary
    assert app.slider(key=state.WHAT_TOP_P).disabled == (temperature == 0)


def test_another_question_begins_at_its_own_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    app, _ = at_decode(monkeypatch)
    app.slider(key=state.WHAT_TEMPERATURE).set_value(2.0).run()
    monkeypatch.setattr(asking, "run_settings", lambda: replace(SAMPLED, temperature=0.3, top_k=0))
    go_to(app, "home")
    ask(app, "the dog ran")
    go_to(app, "decode")
    assert shown(app)["own"]
    assert app.slider(key=state.WHAT_TEMPERATURE).value == 0.3


def test_what_cannot_be_taken_apart_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    def freed(*_: object, **__: object) -> Stages:
        raise RunFreed()

    app, _ = at_decode(monkeypatch)
    monkeypatch.setattr(resources.engine(), "stages", freed)
    app.button(key="back").click().run()
    assert not app.exception
    assert i18n.text("en", "errors.run_freed") in [info.value for info in app.info]


def row(id: int, text: str, share: float, begins: float, raw: bytes | None = None) -> StageRow:
    return StageRow(id, text.encode() if raw is None else raw, text, 1.0, share, share, share, share, begins)


def made(written: int, would: int, temperature: float = 0.7) -> Stages:
    rows = (row(7, "<script>$x$", 0.6, 0.0), row(9, "", 0.4, 0.6, b"\xe4\xbd"))
    return Stages(3, temperature, 0, 1.0, rows, 2, 2, 2, 0.0, 0.0, 0.0, 0.0, 0.25, written, would)


@pytest.mark.parametrize("language", i18n.LANGUAGES)
def test_the_verdict_tells_what_happened_literally(language: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "language", lambda: language)
    said = {
        "was": stages.verdict(made(7, 7), what_if=False, chosen_by="sampler"),
        "was_greedy": stages.verdict(made(7, 7, 0.0), what_if=False, chosen_by="sampler"),
        "put": stages.verdict(made(9, 7), what_if=False, chosen_by="forced"),
        "put_same": stages.verdict(made(7, 7), what_if=False, chosen_by="forced"),
        "by_hand": stages.verdict(made(9, 7), what_if=False, chosen_by="reader"),
        "by_hand_same": stages.verdict(made(7, 7, 0.0), what_if=False, chosen_by="reader"),
        "if_same": stages.verdict(made(7, 7), what_if=True, chosen_by="sampler"),
        "if_other": stages.verdict(made(9, 7), what_if=True, chosen_by="reader"),
        "if_other_greedy": stages.verdict(made(9, 7, 0.0), what_if=True, chosen_by="sampler"),
    }
    assert len(set(said.values())) == len(said)
    for name, words in said.items():
        pieces = re.split(r"\{\w+\}", i18n.text(language, f"stages.{name}"))
        assert all(piece in words for piece in pieces), name
        assert "` <script>$x$ `" in words, "a code span: nothing in it is interpreted"
    assert "` E4 BD `" in said["put"], "half a character is shown as bytes"


def test_a_token_that_the_reader_put_there_is_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a branch of a branch there are two such tokens; `origin` names only the newer one."""
    app, run = at_decode(monkeypatch)
    steps = tuple(replace(step, chosen_by="reader") if step.index in (3, 5) else step for step in run.steps)
    view = replace(run, steps=steps, origin=Origin("x" * 22, 5, token(3)))
    monkeypatch.setattr(resources.engine(), "view", lambda run_id: view)
    by_hand = i18n.text("en", "stages.by_hand_same").split("{written}")[1]
    for index in (5, 4, 3):
        app.session_state["cursor"] = index
        app.run()
        assert not app.exception
        assert any(by_hand in str(part.value) for part in app.markdown) == (index != 4), index
