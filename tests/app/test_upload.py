"""A question brought as a file, and a long one, through AppTest: what comes to stand in the field and what is said."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest

from engine.trace import RunStatus
from tests.app.visit import QUESTION, go_to, open_app, view_of, wait_for, words_of
from ui import i18n, inputs, state

pytestmark = pytest.mark.usefixtures("engine_process")
LONG = "the cat sat on the mat. <b>$x$ _a_</b> " * 1_000


def bring(app: AppTest, data: bytes, name: str = "question.txt") -> AppTest:
    app.file_uploader[0].set_value((name, data, "text/plain"))
    app.run()
    assert not app.exception, app.exception
    return app


def keys(app: AppTest) -> set[str | None]:
    return {area.key for area in app.text_area}


@pytest.mark.parametrize("language", i18n.LANGUAGES)
def test_a_file_comes_to_stand_in_the_field_and_is_asked(language: str) -> None:
    app = bring(open_app(language), QUESTION.encode("utf-8-sig"))
    assert app.text_area(key=state.QUESTION).value == QUESTION
    assert app.file_uploader[0].value is None, "nothing lies in it twice"
    assert "run_id" not in app.session_state, "to be seen first"
    app.segmented_control(key=state.LANGUAGE).set_value("en" if language == "zh" else "zh").run()
    assert app.text_area(key=state.QUESTION).value == QUESTION
    app.button(key="ask_own").click().run()
    assert view_of(app).prompt == QUESTION


@pytest.mark.parametrize("language", i18n.LANGUAGES)
@pytest.mark.parametrize(
    ("data", "code", "number"),
    [
        (b"", "file_empty", ""),
        (b"\0" * 64, "file_binary", "0"),
        (b"Gr\xfc\xdfe", "file_not_text", "0xFC"),
        (b"a" * 1_000_001, "file_too_large", "1,000,001"),
    ],
)
def test_a_file_that_is_refused_changes_nothing(data: bytes, code: str, number: str, language: str) -> None:
    app = open_app(language)
    app.text_area(key=state.QUESTION).set_value(QUESTION).run()
    bring(app, data, "</span><script>.txt")
    said = app.warning[0].value
    assert said[:4] == i18n.text(language, f"errors.{code}")[:4]
    assert number in said
    assert app.text_area(key=state.QUESTION).value == QUESTION
    app.run()
    assert not app.warning, "told once"


def test_of_a_long_text_only_the_beginning_is_drawn_and_all_is_asked() -> None:
    app = bring(open_app(), LONG.encode())
    assert state.QUESTION not in keys(app), "it would be sent with every click"
    assert f"{len(LONG):,}" in words_of(app)
    assert LONG[: inputs.BEGINNING] + "…" in [text.value for text in app.text]
    go_to(app, "tokenize")
    go_to(app, "home")
    app.button(key="ask_own").click().run()
    assert view_of(app).prompt == LONG
    wait_for(lambda: view_of(app).status == RunStatus.ENDED)


def test_a_long_text_can_be_edited_and_cleared() -> None:
    app = bring(open_app(), LONG.encode())
    app.toggle(key=state.WHOLE).set_value(True).run()
    assert app.text_area(key=state.QUESTION).value == LONG
    app.text_area(key=state.QUESTION).set_value(LONG + "end").run()
    app.toggle(key=state.WHOLE).set_value(False).run()
    assert state.QUESTION not in keys(app)
    assert app.session_state[state.QUESTION] == LONG + "end"
    app.button(key="clear_question").click().run()
    assert app.text_area(key=state.QUESTION).value == ""


def test_a_text_of_a_megabyte_is_refused_with_both_numbers() -> None:
    app = bring(open_app(), b"a b " * 250_000)
    app.button(key="ask_own").click().run()
    wait_for(lambda: view_of(app).status == RunStatus.ENDED, 120)
    app.run()
    run = view_of(app)
    assert run.error is not None
    assert run.model is not None or not run.tokens
    assert run.error.code == "prompt_too_long"
    tokens, context = run.error.params["tokens"], run.error.params["context"]
    assert isinstance(tokens, int)
    assert isinstance(context, int)
    assert tokens > 500_000 > context
    assert app.error[0].value == i18n.text("en", "errors.prompt_too_long", tokens=f"{tokens:,}", context=f"{context:,}")
