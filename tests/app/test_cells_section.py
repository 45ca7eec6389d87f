"""The notes' section through AppTest, on a tiny real model: what is asked of the engine, what reaches the pictures, what is said."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from engine.errors import AttentionUnavailable, EngineError, OutOfRange, RunFreed
from engine.trace import ModelInfo, RunStatus, RunView
from tests.app.maps import changed, sent
from tests.app.visit import ask, go_to, open_app, words_of
from ui import failures, i18n, literal, resources, state
from ui.sections import cells

pytestmark = pytest.mark.usefixtures("engine_process")


def floats(text: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), "<f4")


def note(monkeypatch: pytest.MonkeyPatch, name: str, answer: Callable[..., Any] | None = None) -> list[tuple[Any, ...]]:
    """From now on, every question of this kind; `answer` in the engine's place."""
    asked: list[tuple[Any, ...]] = []
    own = getattr(resources.engine(), name)

    def noting(*given: Any, **named: Any) -> Any:
        asked.append(given[1:])
        return (answer or own)(*given, **named)

    monkeypatch.setattr(resources.engine(), name, noting)
    return asked


def refusing(error: EngineError) -> Callable[..., Any]:
    def refuse(*given: Any, **named: Any) -> Any:
        raise error

    return refuse


def visited(run_app: AppTest) -> None:
    """The page has been there once: what it asks about every run that has ended (are its notes still held?) has been asked."""
    go_to(run_app, "decode")


def opened(run_app: AppTest, layer: int, position: int) -> AppTest:
    """The decode page with this cell open."""
    run_app.session_state[state.CELL_LAYER], run_app.session_state[state.CELL_POSITION] = layer, position
    return go_to(run_app, "decode")


def shows_vectors(app: AppTest) -> bool:
    return any(part.proto.component_name == "openbook_cell" for part in app.get("bidi_component"))


@pytest.mark.parametrize("language", i18n.LANGUAGES)
def test_an_opened_cell_shows_what_the_tensors_hold(language: str) -> None:
    app = open_app(language)
    run = ask(app)
    opened(app, 2, 4)
    assert not app.exception, app.exception
    held = resources.engine().cell(run.run_id, 2, 4)
    data = sent(app, "cell")
    assert held.shape == (2, data["heads"], data["width"]) == (2, 2, 8)
    np.testing.assert_array_equal(floats(data["numbers"]).reshape(held.shape), held)
    assert sent(app, "notes")["opened"] == {"layer": 2, "position": 4}
    words = words_of(app)
    assert i18n.text(language, "cells.bytes", product="2 × 2 × 8 × 4 B", size="128 B") in words
    assert i18n.text(language, "cells.share_groups", heads=4, kv_heads=2, group=2) in words
    assert "`[2, 8]`" in words
    assert failures.code_span(literal.short(run.tokens[4].text, run.tokens[4].raw, 24)) in words


def test_a_cell_is_asked_for_once_and_closed_by_its_button(monkeypatch: pytest.MonkeyPatch) -> None:
    app = open_app()
    ask(app)
    visited(app)
    asked = note(monkeypatch, "cell")
    opened(app, 0, 1)
    go_to(app, "home")
    go_to(app, "decode")
    app.segmented_control(key=state.LANGUAGE).set_value("zh").run()
    assert asked == [(0, 1)]
    assert shows_vectors(app)
    app.button(key="close_cell").click().run()
    assert not app.exception
    assert not shows_vectors(app)
    assert sent(app, "notes")["opened"] is None


@pytest.mark.parametrize("language", i18n.LANGUAGES)
def test_a_cell_that_is_not_written_yet_is_not_asked_for(monkeypatch: pytest.MonkeyPatch, language: str) -> None:
    app = open_app(language)
    run = ask(app)
    visited(app)
    asked = note(monkeypatch, "cell")
    blank = len(run.tokens) + len(run.steps)
    opened(app, 0, blank)
    assert i18n.text(language, "cells.blank", position=blank) in words_of(app)
    app.session_state["cursor"] = 1  # the pictures stand after the second token: its column is not there yet
    opened(app, 0, len(run.tokens) + 1)
    assert i18n.text(language, "cells.blank", position=len(run.tokens) + 1) in words_of(app)
    assert asked == []
    opened(app, 0, len(run.tokens))
    assert asked == [(0, len(run.tokens))]
    assert shows_vectors(app)


def test_places_that_no_run_has_are_no_cells() -> None:
    app = open_app()
    ask(app)
    for layer, position in ((3, 0), (-1, 0), (0, -1), (0, 10**9)):
        opened(app, layer, position)
        assert not app.exception
        assert sent(app, "notes")["opened"] is None


def with_model(run: RunView, **shape: Any) -> RunView:
    assert run.model is not None
    info: ModelInfo = replace(run.model, shape=replace(run.model.shape, **shape))
    return replace(run, model=info)


@pytest.mark.parametrize("language", i18n.LANGUAGES)
def test_a_forgotten_cell_says_so(monkeypatch: pytest.MonkeyPatch, language: str) -> None:
    app = open_app(language)
    run = ask(app)
    changed(monkeypatch, with_model(run, layer_windows=(4, 4, None)))
    note(monkeypatch, "cell", refusing(OutOfRange(field="position", value=1, count=9)))
    opened(app, 1, 1)
    assert i18n.text(language, "cells.forgotten", window="4") in words_of(app)
    assert not shows_vectors(app)
    opened(app, 2, 1)
    assert i18n.text(language, "cells.forgotten", window="4") not in words_of(app), "this layer has no window"


def test_a_cell_that_was_opened_before_it_was_forgotten_keeps_its_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    app = open_app()
    run = ask(app)
    opened(app, 1, 1)
    before = sent(app, "cell")["numbers"]
    changed(monkeypatch, with_model(run, layer_windows=(4, 4, None)))
    note(monkeypatch, "cell", refusing(OutOfRange(field="position", value=1, count=9)))
    app.run()
    assert sent(app, "cell")["numbers"] == before
    assert i18n.text("en", "cells.left") in words_of(app)


@pytest.mark.parametrize("language", i18n.LANGUAGES)
def test_when_the_memory_is_gone_cell_and_light_say_so(monkeypatch: pytest.MonkeyPatch, language: str) -> None:
    app = open_app(language)
    run = ask(app)
    for name in ("cell", "attention"):
        note(monkeypatch, name, refusing(RunFreed(run=run.run_id)))
    opened(app, 0, 0)
    assert not app.exception
    words = i18n.text(language, "errors.run_freed")
    assert words in words_of(app)
    assert sent(app, "notes")["unlit"] == words
    assert sent(app, "notes")["glance"] is None


def test_compressed_notes_are_explained_and_not_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    app = open_app()
    run = ask(app)
    changed(monkeypatch, with_model(run, kv_lora_rank=6, qk_rope_head_dim=2))
    visited(app)
    asked = note(monkeypatch, "cell")
    opened(app, 0, 0)
    words = words_of(app)
    assert i18n.text("en", "cells.latent", rank=6, rope=2, dtype="float32") in words
    assert i18n.text("en", "cells.bytes", product="(6 + 2) × 4 B", size="32 B") in words
    assert asked == []
    assert not shows_vectors(app)


def test_at_rest_the_columns_are_lit_by_the_step_on_screen() -> None:
    app = open_app()
    run = ask(app)
    whole = resources.engine().attention(run.run_id, None, None)
    for cursor in (None, 0, 2):
        app.session_state["cursor"] = cursor
        go_to(app, "decode")
        index = len(run.steps) if cursor is None else cursor
        light = sent(app, "notes")["glance"]
        query = len(run.tokens) + index - 1
        assert light["index"] == index
        np.testing.assert_allclose(floats(light["weights"]), whole[query, : query + 1], atol=1e-6)
        assert floats(light["weights"]).sum() == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("status", [RunStatus.RUNNING, RunStatus.PAUSED, RunStatus.QUEUED])
def test_while_it_plays_or_waits_for_its_turn_nothing_is_asked_for_the_light(monkeypatch: pytest.MonkeyPatch, status: RunStatus) -> None:
    app = open_app()
    run = ask(app)
    changed(monkeypatch, replace(run, status=status, stop_reason=None))
    asked = note(monkeypatch, "attention")
    go_to(app, "decode")
    assert not app.exception
    assert bool(asked) == (status == RunStatus.PAUSED)


@pytest.mark.parametrize("language", i18n.LANGUAGES)
def test_a_cell_of_a_branch_that_waits_for_its_turn_opens_when_it_comes(monkeypatch: pytest.MonkeyPatch, language: str) -> None:
    app = open_app(language)
    run = ask(app)
    now = [RunStatus.QUEUED]
    view = resources.engine().view
    monkeypatch.setattr(resources.engine(), "view", lambda run_id: replace(view(run_id), status=now[0], stop_reason=None))
    asked = note(monkeypatch, "cell")
    opened(app, 0, 2)
    assert not app.exception
    assert asked == []
    assert i18n.text(language, "cells.waits") in words_of(app)
    assert not shows_vectors(app)
    now[0] = RunStatus.RUNNING
    app.run()
    assert asked == [(0, 2)], "a run that plays answers between two tokens"
    assert shows_vectors(app)
    assert run.generated


@pytest.mark.parametrize("said", [{"layer": 0, "position": 1}, {"run": "x" * 22, "layer": 0, "position": 1}, {"run": None}, "?", None])
def test_a_click_on_a_picture_that_is_gone_opens_nothing(monkeypatch: pytest.MonkeyPatch, said: object) -> None:
    kept: dict[str, object] = {state.NOTES_PICKS: SimpleNamespace(opened=said)}
    monkeypatch.setattr(state, "get", kept.get)
    monkeypatch.setattr(state, "put", kept.__setitem__)
    monkeypatch.setattr(state, "run_id", lambda: "r" * 22)
    cells._picked()
    assert list(kept) == [state.NOTES_PICKS]
    kept[state.NOTES_PICKS] = SimpleNamespace(opened={"run": "r" * 22, "layer": 3, "position": 7})
    cells._picked()
    assert (kept[state.CELL_LAYER], kept[state.CELL_POSITION]) == (3, 7)


def test_while_it_plays_what_has_been_opened_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    app = open_app()
    run = ask(app)
    opened(app, 0, 2)
    changed(monkeypatch, replace(run, status=RunStatus.RUNNING))
    asked = [note(monkeypatch, name) for name in ("attention", "cell")]
    go_to(app, "decode")
    assert not app.exception
    assert asked == [[], []]
    assert sent(app, "notes")["glance"] is None
    assert shows_vectors(app), "what has been opened stays"


@pytest.mark.parametrize("language", i18n.LANGUAGES)
def test_a_light_that_would_cost_another_reading_is_not_switched_on(monkeypatch: pytest.MonkeyPatch, language: str) -> None:
    app = open_app(language)
    run = ask(app)
    assert run.prefill is not None
    unrecorded = replace(run, prefill=replace(run.prefill, recorded_bytes=0), steps=tuple(replace(s, recorded_bytes=0) for s in run.steps))
    changed(monkeypatch, unrecorded)
    asked = note(monkeypatch, "attention")
    go_to(app, "decode")
    assert asked == []
    assert sent(app, "notes")["unlit"] == i18n.text(language, "cells.unlit_long")


def test_a_model_without_true_maps_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    app = open_app()
    ask(app)
    error = AttentionUnavailable(reason="sinks")
    note(monkeypatch, "attention", refusing(error))
    go_to(app, "decode")
    assert sent(app, "notes")["unlit"] == i18n.text("en", "errors.attention_unavailable", reason=i18n.text("en", "errors.reason_sinks"))
