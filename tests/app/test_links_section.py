"""Links between tokens and the pair of runs on the prefill page, through AppTest, on a tiny real model behind the real engine process."""

from __future__ import annotations

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from engine.trace import RunSettings, RunStatus, RunView
from tests.app.visit import ask, go_to, open_app, view_of, wait_for, words_of
from ui import asking, i18n, linking, resources, state
from ui.sections import links, pair

pytestmark = pytest.mark.usefixtures("engine_process")
HOSTILE = "</span><script>alert(1)</script> $5 and $6 _a_ :red[x] **b** `c`"


def at_prefill(language: str = "en", question: str = "the cat sat on the mat the cat") -> AppTest:
    app = open_app(language)
    ask(app, question)
    go_to(app, "prefill")
    assert not app.exception, app.exception
    return app


def read_example(app: AppTest, name: str) -> RunView:
    app.button(key=f"link_{name}").click().run()
    wait_for(lambda: view_of(app).status == RunStatus.ENDED)
    app.run()
    assert not app.exception, app.exception
    return view_of(app)


def picked(app: AppTest) -> tuple[int, int]:
    return app.session_state[state.QUERY_AT], app.session_state[state.KEY_AT]


def ranked(app: AppTest) -> list[str]:
    return [button.key for button in app.button if button.key.startswith("link_head_")]


@pytest.mark.parametrize("language", i18n.LANGUAGES)
@pytest.mark.parametrize("example", linking.EXAMPLES, ids=lambda example: example.key)
def test_a_ready_example_runs_bare_and_picks_its_words(language: str, example: linking.Example) -> None:
    app = at_prefill(language)
    run = read_example(app, example.key)
    assert run.prompt == example.sentence
    assert not run.settings.use_chat_template
    assert app.session_state[state.TEMPLATE], "the sidebar stays as it was"
    reading, read = example.pairs[0]
    pair_of = linking.place_of(run.tokens, reading), linking.place_of(run.tokens, read)
    assert picked(app) == pair_of
    assert (app.selectbox(key=state.LINK_QUERY).value, app.selectbox(key=state.LINK_KEY).value) == pair_of
    assert len(ranked(app)) == linking.HEADS_LISTED, "of 3 layers × 4 heads"


def test_the_ten_heads_are_the_engines_and_open_the_map() -> None:
    app = at_prefill()
    run = read_example(app, "rolled")
    weights = resources.engine().links(run.run_id, *picked(app))
    best = linking.strongest(weights)
    assert ranked(app) == [f"link_head_{link.layer}_{link.head}" for link in best]
    chosen = best[3]
    app.session_state[state.LAYER_MEAN] = True
    app.button(key=f"link_head_{chosen.layer}_{chosen.head}").click().run()
    assert not app.exception, app.exception
    shown = [app.session_state[key] for key in (state.LAYER, state.HEAD, state.LAYER_MEAN)]
    assert shown == [chosen.layer, chosen.head, False]
    opened = [button.key for button in app.button if button.help == i18n.text("en", "links.opened")]
    assert opened == [f"link_head_{chosen.layer}_{chosen.head}"]
    mean = f"**{weights.mean():.1%}**"
    assert mean in words_of(app)


def test_another_pair_of_the_sentence_is_one_click_away() -> None:
    app = at_prefill()
    run = read_example(app, "rolled")
    app.button(key="link_pair_3").click().run()
    assert picked(app) == (linking.place_of(run.tokens, "rolled"), linking.place_of(run.tokens, "table"))
    app.segmented_control(key=state.LANGUAGE).set_value("zh").run()
    assert not app.exception
    assert picked(app) == (linking.place_of(run.tokens, "rolled"), linking.place_of(run.tokens, "table"))
    assert view_of(app).run_id == run.run_id


def test_any_run_has_a_pair_and_a_reader_looks_only_backwards() -> None:
    app = at_prefill()
    run = view_of(app)
    query, key = app.selectbox(key=state.LINK_QUERY).value, app.selectbox(key=state.LINK_KEY).value
    assert 0 < key < query
    assert {run.tokens[query].kind, run.tokens[key].kind} == {"prompt"}
    app.selectbox(key=state.LINK_QUERY).set_value(key - 1).run()
    assert not app.exception
    assert app.selectbox(key=state.LINK_QUERY).value == key - 1
    assert len(app.selectbox(key=state.LINK_KEY).options) == key, "itself and what came before"
    app.selectbox(key=state.LINK_KEY).set_value(0).run()
    assert picked(app) == (key - 1, 0)


def test_token_text_stays_literal() -> None:
    app = at_prefill(question=HOSTILE)
    options = app.selectbox(key=state.LINK_QUERY).options
    assert len(options) == len(view_of(app).tokens) + len(view_of(app).steps)
    assert any("$" in option for option in options)


def test_many_tokens_are_chosen_by_number() -> None:
    app = at_prefill(question="the cat sat on the mat " * 70)
    count = len(view_of(app).tokens) + len(view_of(app).steps)
    assert count > links.MOST_LISTED
    assert app.number_input(key=state.LINK_QUERY).max == count - 1
    app.number_input(key=state.LINK_QUERY).set_value(350).run()
    app.number_input(key=state.LINK_KEY).set_value(7).run()
    assert not app.exception
    assert picked(app) == (350, 7)


@pytest.mark.parametrize("language", i18n.LANGUAGES)
def test_pair_guess_then_run_then_verdict(language: str) -> None:
    app = at_prefill(language)
    current = view_of(app).run_id
    assert "pair_run" not in {button.key for button in app.button}, "predict first"
    app.segmented_control(key=state.PAIR_GUESS).set_value("first").run()
    assert state.PAIR_RUNS not in app.session_state, "nothing has been run yet"
    app.button(key="pair_run").click().run()
    runs = app.session_state[state.PAIR_RUNS]
    wait_for(lambda: all(view is not None and view.status == RunStatus.ENDED for view in map(resources.engine().view, runs)))
    app.run()
    assert not app.exception, app.exception
    assert view_of(app).run_id == current, "the two do not become the current run"
    one, other = app.session_state[f"found_{state.PAIR_FOUND}"][1]
    assert one.row.shape == (3, 4, (linking.place_of(one.tokens, "it") or 0) + 1)
    most = float(np.abs(one.row - other.row).max())
    truth = pair.verdict(one.row, other.row, one.nouns[0], one.dtype)
    assert truth == "same", most
    assert one.row.sum(-1) == pytest.approx(np.ones((3, 4)), abs=1e-3), "the whole row was read"
    assert i18n.text(language, "shell.predict_wrong") in words_of(app)
    app.segmented_control(key=state.PAIR_GUESS).set_value("same").run()
    assert i18n.text(language, "shell.predict_right") in words_of(app)
    assert i18n.text(language, "pair.why") in words_of(app)
    app.segmented_control(key=state.LANGUAGE).set_value("en" if language == "zh" else "zh").run()
    assert not app.exception
    assert app.segmented_control(key=state.PAIR_GUESS).value == "same"
    assert app.session_state[f"found_{state.PAIR_FOUND}"][1] == (one, other)


def test_a_pair_that_is_gone_can_be_run_again() -> None:
    app = at_prefill()
    app.session_state[state.PAIR_RUNS] = ("gone" * 5, "away" * 5)
    app.segmented_control(key=state.PAIR_GUESS).set_value("same").run()
    assert not app.exception
    assert i18n.text("en", "pair.gone") in [info.value for info in app.info]
    app.button(key="pair_run").click().run()
    runs = app.session_state[state.PAIR_RUNS]
    wait_for(lambda: all(view is not None and view.status == RunStatus.ENDED for view in map(resources.engine().view, runs)))
    app.run()
    assert i18n.text("en", "pair.why") in words_of(app)


def test_a_pair_whose_words_the_tokenizer_has_not_kept_is_said_to_be_cut_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pair, "READER", "nowhere")
    app = at_prefill()
    app.segmented_control(key=state.PAIR_GUESS).set_value("same").run()
    app.button(key="pair_run").click().run()
    runs = app.session_state[state.PAIR_RUNS]
    wait_for(lambda: all(view is not None and view.status == RunStatus.ENDED for view in map(resources.engine().view, runs)))
    app.run()
    assert not app.exception
    assert i18n.text("en", "pair.cut_apart") in [info.value for info in app.info]
    assert not app.error


def test_the_chinese_example_says_how_to_choose_gemma_and_never_loads_it() -> None:
    app = at_prefill("zh")
    run = read_example(app, "chinese")
    assert i18n.text("zh", "links.gemma") in words_of(app)
    assert run.model_id == app.session_state[state.MODEL] != links.GEMMA
    assert resources.engine().model_status(links.GEMMA, "cpu").state == "absent"
    own = [token for token in run.tokens if token.kind == "prompt"]
    pieces = sum(not token.text for token in own)
    assert pieces, "the tiny tokenizer cuts Chinese into bytes"
    assert i18n.text("zh", "links.bytes", parts=pieces, tokens=len(own)) in words_of(app)


def test_a_look_that_costs_another_reading_is_taken_only_when_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "run_settings", lambda: RunSettings(max_new_tokens=2, use_chat_template=False, recording_limit_bytes=0))
    app = at_prefill()
    run = read_example(app, "broke")
    assert run.prefill is not None
    assert run.prefill.recorded_bytes == 0
    assert not ranked(app)
    assert i18n.text("en", "links.again") in words_of(app)
    app.button(key="link_look").click().run()
    assert not app.exception, app.exception
    best = linking.strongest(resources.engine().links(run.run_id, *picked(app)))
    assert ranked(app) == [f"link_head_{link.layer}_{link.head}" for link in best]
