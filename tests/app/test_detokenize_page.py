"""The Detokenize page: our text beside the tokenizer's own, on a tiny real model behind the real engine process."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from engine.errors import ModelNotLoaded
from engine.generate.tokens import whole_text
from engine.trace import RunStatus, RunView, Token
from tests.app.visit import ask, go_to, open_app, view_of, wait_for, words_of
from tests.fakes import make_tokenizer
from tests.samples import INFO, PREFILL, step
from ui import i18n, numbers, panels, resources, state
from ui.sections.handing import AROUND, difference

pytestmark = pytest.mark.usefixtures("engine_process")


def sent(app: AppTest, name: str) -> dict[str, Any]:
    """What the page sends to a component."""
    return next(json.loads(part.proto.json) for part in app.get("bidi_component") if part.proto.component_name == f"openbook_{name}")


def answered(monkeypatch: pytest.MonkeyPatch, run: RunView, *raws: bytes, special: tuple[int, ...] = ()) -> None:
    """The page is shown `run` with another answer."""
    tokens = [Token(at, raw, whole_text(raw), "generated", 3 + at, at in special) for at, raw in enumerate(raws)]
    steps = tuple(replace(step(at), token=token) for at, token in enumerate(tokens[1:], 1))
    shown = replace(run, model=INFO, prefill=replace(PREFILL, first=tokens[0]), steps=steps, status=RunStatus.ENDED)
    monkeypatch.setattr(resources.engine(), "view", lambda run_id: shown)


def tokenizers_word(monkeypatch: pytest.MonkeyPatch, text: str) -> list[bool]:
    """The engine says `text`, whatever it is asked; gives how it was asked."""
    asked: list[bool] = []

    def decoded(model: str, device: str, ids: tuple[int, ...], skip_special: bool, timeout_s: float = 0.0) -> str:
        asked.append(skip_special)
        return text

    monkeypatch.setattr(resources.engine(), "decoded", decoded)
    return asked


@pytest.mark.parametrize("language", i18n.LANGUAGES)
def test_the_whole_answer_is_what_the_tokenizer_makes_of_its_ids(language: str) -> None:
    app = open_app(language)
    run = ask(app, max_new_tokens=12)
    go_to(app, "detokenize")
    assert not app.exception
    tokenizer, ids = make_tokenizer(), [token.id for token in run.generated]
    for special in (False, True):
        app.toggle(key=state.SHOW_SPECIAL).set_value(special).run()
        text = tokenizer.decode(ids, skip_special_tokens=not special, clean_up_tokenization_spaces=False)
        told = i18n.text(language, "detokenize.equal", characters=f"{len(text):,}", tokens=f"{len(ids):,}")
        assert f":material/check: {told}" in words_of(app)
        assert sent(app, "answer")["show_special"] is special
        assert sent(app, "bytes_view")["show_special"] is special
        shown = numbers.answer_text(run, special=special)
        assert app.metric[2].value == f"{len(shown):,}"
        assert app.metric[1].value == f"{sum(len(token.raw) for token in run.generated if special or not token.special):,}"


@pytest.mark.parametrize("language", i18n.LANGUAGES)
def test_numbers_and_text_follow_the_switch_and_outlive_the_language(monkeypatch: pytest.MonkeyPatch, language: str) -> None:
    app = open_app(language)
    run = ask(app)
    answered(monkeypatch, run, "你".encode(), b"<|im_end|>", special=(1,))
    asked = tokenizers_word(monkeypatch, "你")
    go_to(app, "detokenize")
    assert [metric.value for metric in app.metric] == ["1 + 1", "3", "1", "0"]
    app.toggle(key=state.SHOW_SPECIAL).set_value(True).run()
    assert [metric.value for metric in app.metric] == ["1 + 1", "13", "11", "0"]
    assert asked == [True, False]
    other = next(name for name in i18n.LANGUAGES if name != language)
    app.segmented_control(key=state.LANGUAGE).set_value(other).run()
    assert app.toggle(key=state.SHOW_SPECIAL).value is True
    assert sent(app, "answer")["question"] is None


def test_looking_back_the_numbers_are_those_of_what_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    app = open_app()
    run = ask(app)
    answered(monkeypatch, run, b"a", "你".encode()[:1], "你".encode()[1:], b"<|im_end|>", special=(3,))
    tokenizers_word(monkeypatch, "a你")
    go_to(app, "detokenize")
    assert [metric.value for metric in app.metric] == ["3 + 1", "4", "2", "2"]
    app.button(key="back").click().run()
    assert [metric.value for metric in app.metric] == ["3 + 0", "4", "2", "2"]
    app.button(key="back").click().run()
    assert [metric.value for metric in app.metric] == ["2 + 0", "2", "1", "1"]
    assert i18n.text("en", "detokenize.equal", characters=2, tokens=4) in words_of(app), "this one is about the whole answer"


@pytest.mark.parametrize(
    ("raws", "theirs", "position", "cause"),
    [
        ((b" a", b" b"), "a b", 1, "first_space"),
        ((b"a", b" ."), "a.", 2, "spaces"),
        ((b"a", b"\xff\xff"), "a\ufffd", 3, "broken"),
        ((b"a", b"b"), "ac", 2, "other"),
    ],
)
def test_a_difference_is_shown_literally_with_its_cause(
    monkeypatch: pytest.MonkeyPatch, raws: tuple[bytes, ...], theirs: str, position: int, cause: str
) -> None:
    app = open_app()
    answered(monkeypatch, ask(app), *raws)
    tokenizers_word(monkeypatch, theirs)
    words = words_of(go_to(app, "detokenize"))
    assert i18n.text("en", "detokenize.differ", position=position) in words
    assert i18n.text("en", f"detokenize.cause_{cause}") in words
    if cause == "spaces":
        assert i18n.text("en", "detokenize.differ_pair", ours="` a·. `", theirs="` a. `") in words


def test_markup_in_a_difference_stays_text(monkeypatch: pytest.MonkeyPatch) -> None:
    app = open_app()
    answered(monkeypatch, ask(app), b":red[x] `**b**` <script>")
    tokenizers_word(monkeypatch, "")
    go_to(app, "detokenize")
    assert not app.exception
    for element in (*app.markdown, *app.caption):
        assert ":red[x]" not in "".join(element.value.split("`")[::2])


@pytest.mark.parametrize("language", i18n.LANGUAGES)
def test_an_unfinished_character_at_the_end_is_told_apart_from_a_difference(monkeypatch: pytest.MonkeyPatch, language: str) -> None:
    app = open_app(language)
    answered(monkeypatch, ask(app), b"a", "你".encode()[:2])
    tokenizers_word(monkeypatch, "a\ufffd")
    words = words_of(go_to(app, "detokenize"))
    assert i18n.text(language, "detokenize.equal_held", bytes="` E4 BD `") in words
    assert i18n.text(language, "detokenize.differ").partition("{")[0] not in words


@pytest.mark.parametrize("language", i18n.LANGUAGES)
def test_without_the_model_in_memory_it_says_so(monkeypatch: pytest.MonkeyPatch, language: str) -> None:
    app = open_app(language)
    ask(app)

    def gone(*args: object) -> str:
        raise ModelNotLoaded(model="m")

    monkeypatch.setattr(resources.engine(), "decoded", gone)
    words = words_of(go_to(app, "detokenize"))
    assert not app.exception
    assert i18n.text(language, "errors.model_not_loaded", model="` m `") in words


def test_nothing_is_asked_while_the_run_plays(monkeypatch: pytest.MonkeyPatch) -> None:
    app = open_app()
    app.session_state[state.SPEED] = "slow"
    app.number_input(key=state.MAX_NEW).set_value(40).run()
    app.button(key="play").click().run()
    wait_for(lambda: view_of(app).steps)
    asked = tokenizers_word(monkeypatch, "")
    go_to(app, "detokenize")
    assert view_of(app).status == RunStatus.RUNNING
    assert not asked
    assert i18n.text("en", "detokenize.whole_wait") in words_of(app)
    assert [metric.value for metric in app.metric] == [numbers.NOTHING] * 4, "the pen is ahead of this picture"
    assert not [text for text in app.main.markdown if text.value == panels.badge("measured")]
    app.button(key="stop").click().run()
    wait_for(lambda: view_of(app).status == RunStatus.ENDED)


@pytest.mark.parametrize("question", ["Why `is` :red[it] $5$ so?", "学" * 400])
def test_the_question_stands_above_its_answer_literally_and_not_at_length(question: str) -> None:
    app = open_app()
    ask(app, question)
    go_to(app, "detokenize")
    shown = question if len(question) <= 300 else question[:299] + "…"
    assert shown in [text.value for text in app.text]


@pytest.mark.parametrize(("ours", "theirs", "at"), [("ab", "ab", None), ("ab", "a", 1), ("a", "ab", 1), ("", "x", 0), ("xay", "xby", 1)])
def test_the_first_difference(ours: str, theirs: str, at: int | None) -> None:
    found = difference(ours, theirs)
    assert (found.at if found else None) == at


def test_a_difference_far_inside_is_shown_with_what_stands_around_it() -> None:
    found = difference("x" * 50 + "a" + "y" * 50, "x" * 50 + "b" + "y" * 50)
    assert found is not None
    assert (found.ours, found.theirs) == ("x" * AROUND + "a" + "y" * (AROUND - 1), "x" * AROUND + "b" + "y" * (AROUND - 1))
    assert found.cause == "other"
