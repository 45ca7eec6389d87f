"""Share links in the app: a fresh session opens what another one had, nothing begins by itself, and hostile links do no harm."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import pytest
from streamlit.testing.v1 import AppTest

from engine.trace import RunStatus
from tests.app.visit import QUESTION, ask, go_to, open_app, view_of, wait_for, words_of
from ui import i18n, navigation, sharing, state

pytestmark = pytest.mark.usefixtures("engine_process")
OTHER = {"en": "zh", "zh": "en"}
LITERAL = "</span><script>alert(1)</script> $5 and $6 _a_ :red[x]"
SETTINGS = (state.MAX_NEW, state.TEMPERATURE, state.TOP_K, state.TOP_P, state.SEED, state.TEMPLATE, state.SYSTEM_ON, state.SYSTEM_TEXT)


def links(app: AppTest) -> list[dict[str, str]]:
    """The queries of the links in the popover, in order."""
    found = [code.value for code in app.code if "lang=" in code.value or "run=" in code.value]
    return [{name: values[0] for name, values in parse_qs(urlsplit(link).query, keep_blank_values=True).items()} for link in found]


def desk(app: AppTest) -> dict[str, object]:
    return {key: app.session_state[key] for key in (*SETTINGS, state.LAYER, state.HEAD, state.LAYER_MEAN, state.DEVICE)}


@pytest.mark.parametrize("language", i18n.LANGUAGES)
def test_a_link_opens_the_same_exam_in_a_fresh_session(language: str) -> None:
    owner = open_app(language)
    owner.slider(key=state.TEMPERATURE).set_value(0.7).run()  # the filters are off while greedy
    owner.number_input(key=state.TOP_K).set_value(40)
    owner.slider(key=state.TOP_P).set_value(0.9)
    owner.number_input(key=state.SEED).set_value(11)
    owner.text_area(key=state.SYSTEM_TEXT).set_value(LITERAL)
    run = ask(owner, LITERAL, max_new_tokens=3)
    go_to(owner, "prefill")
    owner.button(key="head_1").click().run()
    watch, again = links(owner)
    assert watch["run"] == run.run_id
    assert "lang" not in watch, "whoever watches has a browser with a language"
    assert "run" not in again
    assert again["lang"] == language
    assert not {"key"} & (watch.keys() | again.keys())
    other = open_app(again.pop("lang"), "prefill", **again)
    assert not other.exception
    assert other.session_state[state.LANGUAGE] == language
    assert other.session_state[state.QUESTION] == LITERAL
    assert desk(other) == desk(owner)
    assert "run_id" not in other.session_state, "nothing begins by itself"
    assert i18n.text(language, "shell.empty_own") == other.button(key="empty_prefill").label
    assert LITERAL in [text.value for text in other.text]
    assert not other.warning
    other.button(key="empty_prefill").click().run()
    wait_for(lambda: view_of(other).status == RunStatus.ENDED)
    assert (view_of(other).prompt, view_of(other).settings) == (run.prompt, run.settings)
    assert [token.id for token in view_of(other).generated] == [token.id for token in run.generated], "the same answer, seed and all"


@pytest.mark.parametrize("language", i18n.LANGUAGES)
def test_the_question_of_a_link_stands_in_the_field_and_survives_a_language_switch(language: str) -> None:
    app = open_app(language, q=LITERAL, temp="0.35", template="0", system="")
    assert app.text_area(key=state.QUESTION).value == LITERAL
    app.segmented_control(key=state.LANGUAGE).set_value(OTHER[language]).run()
    assert app.text_area(key=state.QUESTION).value == LITERAL
    assert app.slider(key=state.TEMPERATURE).value == 0.35
    assert not app.toggle(key=state.TEMPLATE).value
    assert not app.toggle(key=state.SYSTEM_ON).value
    assert set(app.query_params) == {"lang"}, "the owner's own address carries no settings"


def test_before_the_first_run_the_link_carries_what_stands_in_the_sidebar() -> None:
    app = open_app()
    app.number_input(key=state.MAX_NEW).set_value(5)
    app.text_area(key=state.QUESTION).set_value("why?").run()
    assert links(app) == [{"lang": "en", "q": "why?", "max_new": "5"}]
    assert i18n.text("en", "shell.share_without_model") in words_of(app), "the tests' model is a folder: no path stands in a link"


@pytest.mark.parametrize("language", i18n.LANGUAGES)
def test_a_run_of_this_server_wins_over_the_settings_of_its_link(language: str) -> None:
    owner = open_app(language)
    run = ask(owner, max_new_tokens=4)
    watch = links(owner)[0] | {"max_new": "9", "q": "another question", "head": "1"}
    follower = open_app(OTHER[language], **watch)
    assert follower.session_state["run_id"] == run.run_id
    assert follower.session_state[state.QUESTION] == QUESTION
    assert follower.session_state[state.MAX_NEW] == 4
    assert follower.session_state[state.HEAD] == 1, "where one looks is the link's"
    assert i18n.text(OTHER[language], "shell.follower") in words_of(follower)
    assert not follower.warning


@pytest.mark.parametrize("language", i18n.LANGUAGES)
def test_where_the_run_is_gone_the_settings_stand_ready_and_that_is_said(language: str) -> None:
    app = open_app(language, run="A" * 22, q="why?", max_new="7")
    assert "run_id" not in app.session_state
    assert app.session_state[state.QUESTION] == "why?"
    assert app.session_state[state.MAX_NEW] == 7
    assert len(app.warning) == 1
    assert not app.button(key="play").disabled


@pytest.mark.parametrize("page", [spec.key for spec in navigation.PAGES])
def test_a_hostile_link_is_clamped_ignored_and_shown_literally(page: str) -> None:
    hostile = {
        "temp": "-1",
        "max_new": "1e9",
        "model": "../../etc",
        "prompt": "<script>",
        "device": "/dev/sda",
        "layer": "1e9",
        "head": "-5",
    }
    app = open_app("xx", page, q=LITERAL, top_k="nan", top_p="9", seed="-1", system="<img src=x onerror=alert(1)>", **hostile)
    assert not app.exception
    fresh = open_app()
    expected = {key: fresh.session_state[key] for key in SETTINGS} | {
        state.MAX_NEW: 2048,
        state.SYSTEM_TEXT: "<img src=x onerror=alert(1)>",
    }
    assert {key: app.session_state[key] for key in SETTINGS} == expected
    assert (app.session_state[state.MODEL], app.session_state[state.DEVICE]) == (fresh.session_state[state.MODEL], "cpu")
    assert (app.session_state[state.LAYER], app.session_state[state.HEAD]) == (sharing.PLACE_LIMIT, 0)
    for element in (*app.markdown, *app.caption, *app.error, *app.info, *app.warning):
        assert "<script" not in element.value
    if page == "prefill":
        app.button(key="empty_prefill").click().run()
        wait_for(lambda: view_of(app).prefill is not None)
        app.run()
        assert not app.exception
        assert app.session_state[state.LAYER] == view_of(app).model.shape.num_hidden_layers - 1
        app.button(key="stop").click().run()


def test_a_question_too_long_for_a_link_is_said_to_be_left_out() -> None:
    app = open_app()
    app.text_area(key=state.QUESTION).set_value("学" * 2000).run()
    assert "q" not in links(app)[0]
    assert i18n.text("en", "shell.share_without_question") in words_of(app)
