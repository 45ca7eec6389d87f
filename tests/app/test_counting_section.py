"""Counts of a text, cutting beside reading, one sentence in two languages; on a tiny real model behind the real engine process."""

from __future__ import annotations

import html

import pytest
from streamlit.testing.v1 import AppTest

from engine.generate.merges import cut
from engine.generate.tokens import Vocabulary
from tests.app.visit import QUESTION, ask, go_to, open_app, view_of, wait_for, words_of
from tests.fakes import make_tokenizer
from ui import i18n, numbers, state, theme
from ui.sections import counting

pytestmark = pytest.mark.usefixtures("engine_process")
HOSTILE = "你好🤗地來👨‍👩‍👧‍👦 the cat the cat <b>&amp;</b> $5 _a_ :red[x] `c`"


@pytest.fixture
def page(engine_process: None) -> AppTest:
    app = open_app()
    ask(app)
    return go_to(app, "tokenize")


def html_of(app: AppTest) -> str:
    return html.unescape("\n".join(block.proto.body for block in app.get("html")))


def tagged(app: AppTest, key: str) -> bool:
    """Whether a card's title has an evidence tag."""
    return next("-badge[" in line for line in words_of(app).splitlines() if f"**{i18n.text('en', key)}**" in line)


def test_counts_are_the_runs_own(page: AppTest) -> None:
    run = view_of(page)
    typed = sum(token.kind == "prompt" for token in run.tokens)
    values = [metric.value for metric in page.metric]
    assert values[:3] == [str(len(QUESTION)), str(len(QUESTION.encode())), f"{typed} + {len(run.tokens) - typed}"]
    assert run.prefill is not None
    spent = run.prefill.template_s + run.prefill.tokenize_s
    assert values[4] == numbers.milliseconds(spent)
    assert numbers.milliseconds(spent) in html_of(page)
    assert numbers.milliseconds(run.prefill.prefill_s) in html_of(page)


def test_prefill_is_to_come_while_only_the_cutting_is_done() -> None:
    app = open_app()
    app.button(key="step").click().run()
    wait_for(lambda: view_of(app).tokens)
    go_to(app, "tokenize")
    assert not app.exception
    assert i18n.text("en", "counting.to_come") in html_of(app)
    assert i18n.text("en", "counting.cutting_alone") in html_of(app)
    assert not tagged(app, "counting.times"), "half of it is not there yet"
    assert tagged(app, "cutting.title")
    app.button(key="step").click().run()
    wait_for(lambda: view_of(app).prefill is not None)
    app.run()
    assert i18n.text("en", "counting.to_come") not in html_of(app)
    assert tagged(app, "counting.times")
    app.button(key="stop").click().run()


@pytest.mark.parametrize("language", i18n.LANGUAGES)
@pytest.mark.parametrize(
    ("reading_s", "key", "times"),
    [(0.0004, "near", "0.4"), (0.0014, "near", "1.4"), (0.0015, "some", "1.5"), (0.009, "some", "9.0"), (1.5, "found", "1,500")],
)
def test_much_is_ahead_only_where_reading_takes_much_longer(
    monkeypatch: pytest.MonkeyPatch, language: str, reading_s: float, key: str, times: str
) -> None:
    monkeypatch.setattr(state, "language", lambda: language)
    assert counting.compared(0.001, reading_s) == i18n.text(language, f"counting.times_{key}", times=times)


def test_reading_has_the_colour_that_it_has_on_the_clock(page: AppTest) -> None:
    rows = {
        name: next(row for row in html_of(page).split("<div ") if i18n.text("en", f"counting.{name}") in row)
        for name in ("cutting", "reading")
    }
    assert f"background:{theme.LIGHT.good}" in rows["cutting"]
    assert f"background:{theme.LIGHT.prompt}" in rows["reading"]


def test_characters_are_code_points_and_it_says_so(page: AppTest) -> None:
    assert page.metric[0].label == i18n.text("en", "tokenize.characters")
    assert page.metric[0].proto.help == i18n.text("en", "tokenize.characters_help")


def test_one_sentence_in_two_languages(page: AppTest) -> None:
    tokenizer = make_tokenizer()
    vocabulary = Vocabulary(tokenizer)

    def counted(language: str, text: str) -> str:
        tokens = len(cut(tokenizer, vocabulary, text).tokens)
        places = {"characters": len(text), "bytes": len(text.encode()), "tokens": tokens, "each": f"{tokens / len(text):.2f}"}
        return i18n.text(language, "counting.counted", **places)

    english, chinese = (i18n.text("en", f"counting.sentence_{name}") for name in ("english", "chinese"))
    assert counted("en", english) in words_of(page)
    assert counted("en", chinese) in words_of(page)
    page.text_area(key=state.PAIR_EN).set_value(HOSTILE).run()
    assert counted("en", HOSTILE) in words_of(page)
    page.segmented_control(key=state.LANGUAGE).set_value("zh").run()
    assert page.text_area(key=state.PAIR_EN).value == HOSTILE
    assert page.text_area(key=state.PAIR_ZH).value == chinese
    assert counted("zh", HOSTILE) in words_of(page)
    page.text_area(key=state.PAIR_ZH).set_value("").run()
    assert not page.exception
    assert i18n.text("zh", "counting.counted", characters=0, bytes=0, tokens=0, each=numbers.NOTHING) in words_of(page)
