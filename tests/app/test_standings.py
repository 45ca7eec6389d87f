"""What the pages say about where things stand: a model to come, a run that is gone or unwatched, little room, restored settings, terms."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from engine.errors import Unwatched
from engine.generate import detokenize
from engine.trace import RunSettings, RunStatus, RunView, StopReason, Token
from tests.app.visit import ask, go_to, open_app, view_of, wait_for, words_of
from tests.samples import PREFILL, step
from ui import i18n, numbers, resources, state

pytestmark = pytest.mark.usefixtures("engine_process")


@pytest.mark.parametrize("language", i18n.LANGUAGES)
def test_a_run_that_has_left_the_store_counts_as_none(language: str) -> None:
    app = open_app(language)
    app.session_state["run_id"], app.session_state["run_key"], app.session_state["cursor"] = "A" * 22, "B" * 22, 3
    go_to(app, "decode")
    assert not app.exception
    assert app.warning[0].value == i18n.text(language, "errors.run_unknown")
    assert not app.button(key="play").disabled
    assert app.button(key="empty_decode")
    assert "run" not in app.query_params
    assert not app.run().warning, "it is told once"


def test_reload_restores_pace_and_device() -> None:
    owner = open_app()
    owner.session_state[state.DEVICE] = "auto"
    owner.selectbox(key="speed_en").set_value("half").run()
    run = ask(owner, max_new_tokens=3)
    assert (run.pace_s, run.device) == (0.1, "auto")
    again = open_app(run=run.run_id, key=owner.session_state["run_key"])
    assert again.selectbox(key="speed_en").value == "half"
    assert again.selectbox(key="device_en").value == "auto"


@pytest.mark.parametrize("language", i18n.LANGUAGES)
def test_little_room_is_said_as_soon_as_the_tokens_are_known(language: str) -> None:
    app = open_app(language)
    app.number_input(key=state.MAX_NEW).set_value(1500).run()
    app.button(key="step").click().run()
    wait_for(lambda: view_of(app).tokens)
    view = view_of(app)
    assert view.model is not None
    assert view.prefill is None
    left = view.model.context_length - len(view.tokens) + 1  # the last token written is never read
    places = {"context": f"{view.model.context_length:,}", "tokens": f"{len(view.tokens)}", "left": f"{left:,}", "wanted": "1,500"}
    for page in ("home", "decode"):
        go_to(app, page)
        assert [warning.value for warning in app.warning] == [i18n.text(language, "shell.little_room", **places)]
    app.button(key="stop").click().run()
    wait_for(lambda: view_of(app).status == RunStatus.ENDED)
    assert not app.run().warning


def test_an_absent_model_is_loaded_by_a_question_and_not_by_looking() -> None:
    app, client = open_app(), resources.engine()
    app.session_state[state.MODEL] = "gpt2"
    app.run().run()
    assert client.model_status("gpt2", "cpu").state == "absent"
    assert f":material/schedule: {i18n.text('en', 'shell.model_absent')}" in words_of(app)
    app.button(key="example_1").click().run()
    wait_for(lambda: client.model_status("gpt2", "cpu").state == "failed")  # there is no network
    wait_for(lambda: view_of(app).status == RunStatus.ENDED)
    assert i18n.text("en", "errors.offline", model="` openai-community/gpt2 `") in words_of(app.run())


@pytest.mark.parametrize("free", [True, False])
def test_models_beyond_the_list_can_be_named_only_where_the_owner_allows_it(monkeypatch: pytest.MonkeyPatch, free: bool) -> None:
    settings = replace(resources.settings(), any_model=free)
    monkeypatch.setattr(resources, "settings", lambda: settings)
    box = open_app().selectbox(key=state.MODEL)
    assert box.proto.accept_new_options is free
    assert box.options[0] == settings.model.rpartition("/")[2]
    assert not [option for option in box.options if "/" in option], "where a folder lies on the server is nobody's business"


def test_the_measured_precision_is_shown_at_the_model() -> None:
    app = open_app()
    info = resources.engine().model_status(resources.settings().model, "cpu").info
    assert info is not None
    trials = " · ".join(f"{dtype} {numbers.milliseconds(seconds)}" for dtype, seconds in info.dtype_trials.items())
    assert {"float32", "bfloat16"} == set(info.dtype_trials)
    words = words_of(app)
    assert i18n.text("en", "shell.dtype_trials", trials=trials) in words
    assert i18n.text("en", "shell.threads", prefill=info.prefill_threads, decode=info.decode_threads) in words


@pytest.mark.parametrize("language", i18n.LANGUAGES)
def test_terms_are_read_before_they_are_accepted(language: str) -> None:
    app, model = open_app(language), "gemma3-270m"
    place = resources.settings().home / "terms" / f"{model}.txt"
    place.parent.mkdir(exist_ok=True)
    place.write_text("Terms of a test.\n\n:red[You] may **read** <b>this</b>.", encoding="utf-8")
    app.selectbox(key=state.MODEL).set_value(model).run()
    wait_for(lambda: resources.engine().model_status(model, "cpu").state == "failed")
    app.run().button(key="terms_open").click().run()
    assert not app.exception
    assert place.read_text(encoding="utf-8") in [text.value for text in app.text]
    assert i18n.text(language, "shell.terms_accept") in [button.label for button in app.button]
    assert not (place.parent / f"{model}.accepted.json").exists()


def ended(error: Any = None, *raw: bytes) -> RunView:
    first = replace(PREFILL, first=Token(1, raw[0], "", "generated", 3)) if raw else PREFILL
    steps = tuple(replace(step(at), token=Token(1, part, "", "generated", 3 + at)) for at, part in enumerate(raw[1:], 1))
    made = RunView("r" * 22, "Why?", RunSettings(), "m", "2026-01-01T00:00:00+00:00", RunStatus.ENDED, None, (), first, steps)
    return replace(made, stop_reason=StopReason.STOPPED, error=error)


@pytest.mark.parametrize("language", i18n.LANGUAGES)
def test_a_run_that_nobody_watched_was_not_stopped_by_hand(monkeypatch: pytest.MonkeyPatch, language: str) -> None:
    app, view = open_app(language), replace(ended(Unwatched().info), prefill=None, steps=())
    monkeypatch.setattr(resources.engine(), "view", lambda run_id: view)
    app.session_state["run_id"] = view.run_id
    words = words_of(go_to(app, "prefill"))
    assert i18n.text(language, "errors.unwatched") in words
    assert i18n.text(language, "stops.stopped") not in words
    assert not app.error


def test_the_answer_sheet_has_words_for_an_unwatched_run() -> None:
    def script() -> None:
        import streamlit as st

        from ui import state

        state.begin()
        st.text(state.labels("answer")["answer_end_unwatched"])

    assert AppTest.from_function(script, default_timeout=30).run().text[0].value == i18n.text("en", "errors.unwatched")


@pytest.mark.parametrize(
    "raw", [(b"a", b"\xff", b"b"), (b"\xe4\xbd", b"x"), (b"\xe4", b"\xbd\xa0", b"\xe5"), (b"\xc3\x28", b"\xf0\x9f", b"\x8d\x8a")]
)
def test_page_and_engine_agree_on_the_answer(raw: tuple[bytes, ...]) -> None:
    view = ended(None, *raw)
    assert numbers.answer_text(view) == detokenize.answer_text(view.generated)
    assert b"".join(raw).decode("utf-8", "replace").startswith(numbers.answer_text(view))
