"""Picked links, long looks and evidence in the attention section, through AppTest, on a tiny real model behind the real engine process."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from engine.errors import RunFreed
from tests.app.maps import LONG, changed, note_maps, positions, sent
from tests.app.visit import ask, go_to, open_app, words_of
from ui import i18n, looking, resources, state, weights

pytestmark = pytest.mark.usefixtures("engine_process")


def test_the_window_that_was_moved_over_one_text_does_not_lie_over_the_next() -> None:
    app = open_app()
    ask(app, LONG, max_new_tokens=2)
    go_to(app, "prefill")
    app.slider(key=state.MAP_END_BOX).set_value(weights.MOST_DRAWN).run()
    assert positions(app) == range(weights.MOST_DRAWN)
    ask(go_to(app, "home"), LONG + "the mat", max_new_tokens=2)
    go_to(app, "prefill")
    assert app.session_state[state.QUERY_AT] >= weights.MOST_DRAWN, "of the newest rows, where the first suggestion is looked for"
    assert app.session_state[state.QUERY_AT] in positions(app)


def test_a_link_that_is_picked_comes_into_the_map() -> None:
    app = open_app()
    ask(app, LONG, max_new_tokens=2)
    go_to(app, "prefill")
    app.slider(key=state.MAP_END_BOX).set_value(weights.MOST_DRAWN).run()
    app.number_input(key=state.LINK_QUERY).set_value(350).run()
    app.number_input(key=state.LINK_KEY).set_value(120).run()
    assert not app.exception
    assert {350, 120} <= set(positions(app))
    app.slider(key=state.MAP_END_BOX).set_value(weights.MOST_DRAWN).run()
    assert 350 not in positions(app), "the reader may look elsewhere"
    next(button for button in app.button if str(button.key).startswith("link_head_")).click().run()
    assert {350, 120} <= set(positions(app))
    data = sent(app, "attention_map")
    assert (data["query"], data["key_at"]) == (350, 120)


@pytest.mark.parametrize("back", [0, 3])
def test_a_token_of_the_answer_that_is_picked_brings_its_row(back: int) -> None:
    app = open_app()
    run = ask(app)
    prompt, written = len(run.tokens), len(run.steps)
    assert written >= 3
    go_to(app, "prefill")
    for _ in range(back):
        app.button(key="back").click().run()
    app.selectbox(key=state.LINK_QUERY).set_value(prompt + 2).run()
    assert not app.exception
    assert app.toggle(key=state.ANSWER_ROWS).value
    strip, drawn = sent(app, "token_strip"), sent(app, "attention_map")
    assert strip["reader"] == drawn["query"] == prompt + 2
    assert app.selectbox(key=state.LINK_QUERY).value == prompt + 2
    assert len(drawn["tokens"]) == prompt + (3 if back > written - 3 else written - back)


def test_a_row_that_cannot_be_had_leaves_the_rest_of_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    app = open_app()
    run = ask(app, LONG, max_new_tokens=2)
    go_to(app, "prefill")
    app.number_input(key=state.LINK_QUERY).set_value(350).run()
    attend = resources.engine().attention

    def refuse(*given: Any, **named: Any) -> np.ndarray:
        if named.get("rows") == 1:
            raise RunFreed(run=run.run_id)
        return attend(*given, **named)

    monkeypatch.setattr(resources.engine(), "attention", refuse)
    app.slider(key=state.MAP_END_BOX).set_value(weights.MOST_DRAWN).run()
    assert not app.exception
    assert app.button(key="link_rolled")
    assert app.get("plotly_chart"), "the layers' guesses stand below"
    assert any(info.icon == ":material/visibility_off:" for info in app.info)


@pytest.mark.parametrize(("prefill_s", "waited_s"), [(1.0, 15.0), (30.0, 120.0)])
def test_a_look_that_reads_again_is_waited_for_as_long_as_reading_takes(
    monkeypatch: pytest.MonkeyPatch, prefill_s: float, waited_s: float
) -> None:
    app = open_app()
    run = ask(app)
    assert run.prefill is not None
    unkept = replace(
        run, prefill=replace(run.prefill, prefill_s=prefill_s), steps=(*run.steps[:-1], replace(run.steps[-1], recorded_bytes=0))
    )
    assert looking.patience_s(replace(unkept, steps=run.steps)) == 15.0
    changed(monkeypatch, unkept)
    asked = note_maps(monkeypatch)
    go_to(app, "prefill")
    assert not app.exception
    assert asked[-1]["timeout_s"] == waited_s


@pytest.mark.parametrize("language", i18n.LANGUAGES)
def test_shares_of_what_is_left_are_computed_not_measured(language: str) -> None:
    app = open_app(language)
    ask(app)
    go_to(app, "prefill")
    for sink, evidence in (("show", "measured"), ("hide", "measured"), ("renormalise", "computed")):
        app.segmented_control(key=state.SINK).set_value(sink).run()
        titles = [part.value for part in app.markdown if part.value.startswith(f"**{i18n.text(language, 'attention.strip')}")]
        titles += [part.value for part in app.markdown if "attention" not in part.value and finds(part.value, language)]
        assert len(titles) == 2
        assert all(i18n.text(language, f"shell.{evidence}") in title for title in titles)


def finds(words: str, language: str) -> bool:
    """Whether it is the title of the map."""
    starts = (i18n.text(language, f"attention.{key}").partition("{")[0] for key in ("finding", "finding_own", "no_link"))
    return words.startswith(tuple(f"**{start}" for start in starts))


def test_the_share_of_the_first_token_says_over_which_rows() -> None:
    app = open_app()
    ask(app)
    go_to(app, "prefill")
    assert i18n.text("en", "attention.sink_drawn") not in words_of(app)
    ask(go_to(app, "home"), LONG, max_new_tokens=2)
    go_to(app, "prefill")
    assert i18n.text("en", "attention.sink_drawn") in words_of(app)


@pytest.mark.parametrize("language", i18n.LANGUAGES)
def test_the_mean_over_sliding_layers_is_not_called_a_layer(monkeypatch: pytest.MonkeyPatch, language: str) -> None:
    app = open_app(language)
    run = ask(app)
    assert run.model is not None
    go_to(app, "prefill")
    app.toggle(key=state.LAYER_MEAN).set_value(True).run()
    for windows, key in (((4, 4, 8), "windows"), ((4, 4, 4096), "windows_wide")):
        changed(monkeypatch, replace(run, model=replace(run.model, shape=replace(run.model.shape, layer_windows=windows))))
        app.run()
        assert i18n.text(language, f"attention.{key}", window=f"{windows[-1]:,}") in words_of(app)
