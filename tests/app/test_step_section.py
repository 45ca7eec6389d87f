"""One step opened up, through AppTest: what is sent to the browser is the engine's own, and nothing is asked while the pen moves."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from engine.errors import RunFreed
from engine.trace import RunSettings, RunStatus, RunView
from tests.app.visit import ask, go_to, open_app, view_of, words_of
from ui import asking, i18n, resources, state

pytestmark = pytest.mark.usefixtures("engine_process")


def at_decode(language: str = "en", question: str = "the cat sat on the mat the cat") -> tuple[AppTest, RunView]:
    app = open_app(language)
    run = ask(app, question)
    go_to(app, "decode")
    assert not app.exception, app.exception
    return app, run


def sent(app: AppTest, name: str) -> dict[str, Any]:
    return next(json.loads(part.proto.json) for part in app.get("bidi_component") if part.proto.component_name == f"openbook_{name}")


def refuse(*_: object, **__: object) -> Any:
    raise AssertionError("the engine was asked")


def freed(*_: object, **__: object) -> Any:
    raise RunFreed()


def changed(monkeypatch: pytest.MonkeyPatch, change: Callable[[RunView], RunView]) -> None:
    """The page is shown another run than there is."""
    view = resources.engine().view
    monkeypatch.setattr(resources.engine(), "view", lambda run_id: change(view(run_id)))


def test_chain_and_strip_get_what_the_step_on_screen_looked_at() -> None:
    app, run = at_decode()
    for back in range(3):
        index = len(run.generated) - 1 - back
        query = len(run.tokens) + index - 1
        weights = resources.engine().attention(run.run_id, None, None, rows=1, until=query + 1)[0]
        chain, strip = sent(app, "step"), sent(app, "token_strip")
        assert (chain["glance"]["index"], strip["looked"]) == (index, index)
        assert chain["glance"]["weights"] == strip["weights"]
        assert np.array(strip["weights"]) == pytest.approx(weights, abs=1e-5)
        assert sum(strip["weights"]) == pytest.approx(1, abs=1e-3)
        assert chain["sees"]
        assert strip["writing"]
        app.button(key="back").click().run()
        assert not app.exception


@pytest.mark.parametrize("language", i18n.LANGUAGES)
def test_the_first_token_takes_no_step_and_is_said_to(language: str) -> None:
    app, run = at_decode(language)
    app.button(key="begin").click().run()
    assert i18n.text(language, "without.first", tokens=str(len(run.tokens))) in words_of(app)
    assert sent(app, "step")["glance"]["index"] == 0
    assert len(sent(app, "step")["glance"]["weights"]) == len(run.tokens), "the last token of the question read all of it"


@pytest.mark.parametrize("language", i18n.LANGUAGES)
def test_work_with_and_without_notes(language: str) -> None:
    app, run = at_decode(language)
    said = words_of(app)
    context = run.steps[-1].kv_tokens
    assert i18n.text(language, "without.tokens") in said
    assert str(context) in next(line for line in said.splitlines() if "**" in line and str(context - 1) in line)


def test_nothing_is_asked_while_the_pen_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    app, _ = at_decode()
    monkeypatch.setattr(resources.engine(), "attention", refuse)
    monkeypatch.setattr(resources.engine(), "stages", refuse)
    changed(monkeypatch, lambda view: replace(view, status=RunStatus.RUNNING, stop_reason=None))
    app.button(key="back").click().run()
    assert not app.exception, app.exception
    chain = sent(app, "step")
    assert chain["glance"] is None
    assert chain["sees"], "the channel may bring glances"
    assert i18n.text("en", "without.moving") in words_of(app).replace(":material/hourglass_empty: ", "")
    assert i18n.text("en", "stages.moving") in words_of(app).replace(":material/hourglass_empty: ", "")


def test_a_look_that_cannot_be_had_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    app, _ = at_decode()
    monkeypatch.setattr(resources.engine(), "attention", freed)
    app.button(key="back").click().run()
    assert not app.exception
    assert i18n.text("en", "errors.run_freed") in words_of(app)
    chain = sent(app, "step")
    assert chain["glance"] is None
    assert not chain["sees"]


def test_a_look_that_costs_another_reading_is_taken_only_when_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "run_settings", lambda: RunSettings(max_new_tokens=4, recording_limit_bytes=0))
    app, _ = at_decode()
    assert sent(app, "step")["glance"] is None
    assert i18n.text("en", "step.again") in words_of(app).replace(":material/replay: ", "")
    app.button(key="step_look").click().run()
    assert not app.exception
    assert sum(sent(app, "step")["glance"]["weights"]) == pytest.approx(1, abs=1e-3)
    app.button(key="back").click().run()
    assert sent(app, "step")["glance"] is None, "another step is another question"


def test_a_model_whose_work_cannot_be_counted_is_said_to(monkeypatch: pytest.MonkeyPatch) -> None:
    changed(monkeypatch, lambda view: replace(view, model=None if view.model is None else replace(view.model, body_parameters=0)))
    app, _ = at_decode()
    assert any("body_parameters" in info.value for info in app.info)


def test_greedy_is_told_from_drawn() -> None:
    app = open_app()
    app.slider(key=state.TEMPERATURE).set_value(1.0).run()
    ask(app)
    go_to(app, "decode")
    assert sent(app, "step")["greedy"] is False
    run = view_of(app)
    assert all(step.drawn is not None for step in run.steps)
