"""The attention section through AppTest, on a tiny real model: what is asked of the engine, what is drawn of it, what is said of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from engine.errors import AttentionUnavailable
from tests.app.maps import LONG, changed, engines_map, note_maps, sent, square
from tests.app.visit import ask, go_to, open_app, words_of
from ui import failures, i18n, resources, state, weights
from ui.failures import code_span
from ui.sections import heads

pytestmark = pytest.mark.usefixtures("engine_process")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    return note_maps(monkeypatch)


@pytest.mark.parametrize("language", i18n.LANGUAGES)
def test_layer_head_and_means_reach_the_map(language: str) -> None:
    app = open_app(language)
    run = ask(app)
    go_to(app, "prefill")
    prompt = len(run.tokens)
    for layer, head, mean in ((1, None, False), (2, 3, False), (2, 3, True), (2, None, True)):
        if layer != app.slider(key=state.LAYER).value:
            app.slider(key=state.LAYER).set_value(layer)
        app.toggle(key=state.LAYER_MEAN).set_value(mean)
        app.button(key=f"head_{head}").click().run()
        assert not app.exception, app.exception
        data = sent(app, "attention_map")
        np.testing.assert_allclose(square(data), engines_map(run, None if mean else layer, head)[:prompt, :prompt], atol=1e-6)
        assert app.slider(key=state.LAYER).disabled is mean
        layer_words = i18n.text(language, "attention.layer_all") if mean else i18n.text(language, "attention.layer_n", layer=layer)
        assert data["name"].startswith(layer_words)
        assert app.button(key=f"head_{head}").proto.type == "primary"
    assert [token["position"] for token in data["tokens"]] == list(range(prompt))


def test_heads_stand_with_the_notes_they_share() -> None:
    app = open_app()
    run = ask(app)
    go_to(app, "prefill")
    assert run.model is not None
    boxes = [f"notes {group}" for group in range(run.model.shape.num_key_value_heads)]
    assert [caption.value for caption in app.caption if caption.value.startswith("notes ")] == boxes
    keys = [button.key for button in app.main.button if str(button.key).startswith("head_")]
    assert keys == ["head_0", "head_1", "head_2", "head_3", "head_None"], "in order, group by group; the mean after them"


@pytest.mark.parametrize("language", i18n.LANGUAGES)
def test_the_sink_is_shown_hidden_or_taken_out_and_its_share_is_said(language: str) -> None:
    app = open_app(language)
    run = ask(app)
    app.session_state[state.LAYER], app.session_state[state.HEAD] = 1, 2
    go_to(app, "prefill")
    prompt = len(run.tokens)
    whole = engines_map(run, 1, 2)[:prompt, :prompt]
    share = f"{whole[1:, 0].mean():.0%}"
    for sink, words in (("show", "sink_share"), ("hide", "sink_hidden"), ("renormalise", "sink_taken")):
        app.segmented_control(key=state.SINK).set_value(sink).run()
        assert not app.exception
        assert i18n.text(language, f"attention.{words}", share=share) in words_of(app)
        data = sent(app, "attention_map")
        assert data["first_shown"] is (sink == "show")
        cells = square(data)
        np.testing.assert_allclose(cells[:, 0], whole[:, 0], atol=1e-6, err_msg="the readout keeps the true number")
        scale = 1 - whole[1:, :1] if sink == "renormalise" else 1
        np.testing.assert_allclose(cells[1:, 1:], whole[1:, 1:] / scale, atol=1e-5)
        strip = sent(app, "token_strip")
        assert (strip["weights"][0] > 0) is (sink == "show")
    np.testing.assert_allclose(cells[1:, 1:].sum(1), 1, atol=1e-5)


@pytest.mark.parametrize("language", i18n.LANGUAGES)
def test_the_title_is_the_strongest_link(language: str) -> None:
    app = open_app(language)
    run = ask(app)
    app.session_state[state.LAYER], app.session_state[state.HEAD] = 0, 1
    go_to(app, "prefill")
    own = [at for at, token in enumerate(run.tokens) if token.kind == "prompt"]
    whole = engines_map(run, 0, 1)
    weight, query, key = max((float(whole[q, k]), q, k) for q in own for k in own if k < q)
    spans = {name: code_span(run.tokens[at].text.replace(" ", "·")) for name, at in (("query", query), ("key", key))}
    assert i18n.text(language, "attention.finding_own", **spans, q=query, k=key, weight=f"{weight:.2f}") in words_of(app)
    strip, drawn = sent(app, "token_strip"), sent(app, "attention_map")
    mean = engines_map(run, None, None)
    _, query, key = max((float(mean[q, k]), q, k) for q in own for k in own if k < q)
    assert (drawn["query"], drawn["key_at"]) == (strip["reader"], strip["target"]) == (query, key), (
        "the pair that the list of heads begins with"
    )
    np.testing.assert_allclose(strip["weights"], whole[query, : query + 1], atol=1e-5)


def test_the_answers_rows_come_when_they_are_wanted_and_follow_the_cursor() -> None:
    app = open_app()
    run = ask(app)
    go_to(app, "prefill")
    prompt, written = len(run.tokens), len(run.steps)
    assert written >= 2
    assert len(sent(app, "attention_map")["tokens"]) == prompt
    app.toggle(key=state.ANSWER_ROWS).set_value(True).run()
    data = sent(app, "attention_map")
    assert [token["kind"] for token in data["tokens"]][prompt:] == ["generated"] * written, "the newest token has not been read"
    np.testing.assert_allclose(square(data), engines_map(run, 1, None), atol=1e-6)
    app.button(key="back").click().run()
    assert len(sent(app, "attention_map")["tokens"]) == prompt + written - 1


def test_a_picked_token_is_marked_in_strip_and_map() -> None:
    app = open_app()
    run = ask(app)
    app.session_state[state.QUERY_AT], app.session_state[state.KEY_AT] = 7, 3
    go_to(app, "prefill")
    strip, drawn = sent(app, "token_strip"), sent(app, "attention_map")
    assert (strip["reader"], strip["target"], drawn["query"], drawn["key_at"]) == (7, 3, 7, 3)
    np.testing.assert_allclose(strip["weights"], engines_map(run, 1, None)[7, :8], atol=1e-5)
    app.session_state[state.KEY_AT] = 9
    app.run()
    assert sent(app, "attention_map")["key_at"] is None, "a later token cannot be read"


def test_a_long_text_is_drawn_in_part_and_the_rest_is_said(asked: list[dict[str, Any]]) -> None:
    app = open_app()
    run = ask(app, LONG, max_new_tokens=4)
    prompt = len(run.tokens)
    assert prompt > weights.MOST_DRAWN
    whole = engines_map(run, 1, None)[:prompt, :prompt]
    asked.clear()
    go_to(app, "prefill")
    assert not app.exception
    for end in (prompt, prompt - 20, weights.MOST_DRAWN):
        app.slider(key=state.MAP_END_BOX).set_value(end).run()
        assert not app.exception
        start = end - weights.MOST_DRAWN
        data = sent(app, "attention_map")
        assert data["first"] == start
        np.testing.assert_allclose(square(data), whole[start:end, start:end], atol=1e-6)
        places = {"shown": weights.MOST_DRAWN, "count": f"{prompt:,}", "from": f"{start:,}", "to": f"{end - 1:,}"}
        if start:
            share = f"{whole[start:end, :start].sum(1).mean():.0%}"
            assert i18n.text("en", "attention.hidden", **places, before=f"{start:,}", share=share) in words_of(app)
        else:
            assert i18n.text("en", "attention.hidden_after", **places) in words_of(app)
    assert [question["until"] for question in asked][-3:] == [prompt, prompt - 20, weights.MOST_DRAWN]
    assert {question["rows"] for question in asked} == {weights.MOST_DRAWN}, "no more rows than are drawn"
    assert sum(len(part.proto.json) for part in app.get("bidi_component")) < 2 * 1024**2


def test_a_look_that_is_known_is_not_asked_for_again(asked: list[dict[str, Any]]) -> None:
    app = open_app()
    ask(app)
    go_to(app, "prefill")
    before = len(asked)
    app.segmented_control(key=state.SINK).set_value("hide").run()
    app.segmented_control(key=state.LANGUAGE).set_value("zh").run()
    app.run()
    assert len(asked) == before
    app.button(key="head_2").click().run()
    assert len(asked) == before + 1


def test_choices_survive_a_language_switch() -> None:
    app = open_app()
    ask(app)
    go_to(app, "prefill")
    app.slider(key=state.LAYER).set_value(2).run()
    app.segmented_control(key=state.SINK).set_value("renormalise").run()
    app.button(key="head_1").click().run()
    app.segmented_control(key=state.LANGUAGE).set_value("zh").run()
    assert not app.exception
    assert (app.slider(key=state.LAYER).value, app.segmented_control(key=state.SINK).value) == (2, "renormalise")
    assert app.session_state[state.HEAD] == 1
    go_to(go_to(app, "tokenize"), "prefill")
    assert (app.slider(key=state.LAYER).value, app.segmented_control(key=state.SINK).value) == (2, "renormalise")


@pytest.mark.parametrize("language", i18n.LANGUAGES)
def test_a_model_without_a_true_map_says_why(monkeypatch: pytest.MonkeyPatch, language: str) -> None:
    app = open_app(language)
    ask(app)

    def refuse(*given: Any, **named: Any) -> np.ndarray:
        raise AttentionUnavailable(reason="softcap")

    monkeypatch.setattr(resources.engine(), "attention", refuse)
    go_to(app, "prefill")
    assert not app.exception
    monkeypatch.setattr(state, "language", lambda: language)
    monkeypatch.setattr(state, "may_steer", lambda: True)
    assert failures.explain(AttentionUnavailable(reason="softcap").info) in [info.value for info in app.info]
    assert not [part for part in app.get("bidi_component") if part.proto.component_name == "openbook_attention_map"]


@pytest.mark.parametrize("kept", [True, False])
def test_a_text_too_long_to_be_recorded_says_that_it_is_read_again(monkeypatch: pytest.MonkeyPatch, kept: bool) -> None:
    app = open_app()
    run = ask(app)
    assert run.steps[-1].recorded_bytes > 0
    if not kept:
        changed(monkeypatch, replace(run, steps=(*run.steps[:-1], replace(run.steps[-1], recorded_bytes=0))))
    go_to(app, "prefill")
    assert not app.exception
    assert (i18n.text("en", "attention.again") in words_of(app)) is not kept


def test_the_window_of_a_layer_and_of_their_mean() -> None:
    app = open_app()
    run = ask(app)
    assert run.model is not None
    mixed = replace(run.model.shape, layer_windows=(4, None, 8))
    assert [heads.window_of(mixed, layer) for layer in (0, 1, 2, None)] == [4, None, 8, None]
    assert heads.window_of(replace(mixed, layer_windows=(4, 4, 8)), None) == 8


def test_a_sliding_layer_is_drawn_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    app = open_app()
    run = ask(app)
    assert run.model is not None
    changed(monkeypatch, replace(run, model=replace(run.model, shape=replace(run.model.shape, layer_windows=(4, None, 8)))))
    go_to(app, "prefill")
    for layer, window in ((0, 4), (1, None), (2, 8)):
        app.slider(key=state.LAYER).set_value(layer).run()
        assert sent(app, "attention_map")["window"] == window
        assert (i18n.text("en", "attention.window", window=f"{window}") in words_of(app)) is (window is not None)


def test_many_heads_are_chosen_by_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heads, "MOST_HEAD_BUTTONS", 3)
    app = open_app()
    run = ask(app)
    go_to(app, "prefill")
    app.number_input(key=state.HEAD_NUMBER).set_value(3).run()
    assert not app.exception
    prompt = len(run.tokens)
    np.testing.assert_allclose(square(sent(app, "attention_map")), engines_map(run, 1, 3)[:prompt, :prompt], atol=1e-6)
    for head in (1, None, 2):  # opened from the list below
        app.session_state[state.HEAD] = head
        app.run()
        assert app.number_input(key=state.HEAD_NUMBER).value == head
    app.number_input(key=state.HEAD_NUMBER).set_value(None).run()
    assert app.session_state[state.HEAD] is None
