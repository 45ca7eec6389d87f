"""The Tokenize page: what was added, how a word is cut, what was counted; on a tiny real model behind the real engine process."""

from __future__ import annotations

import html

import pytest
from streamlit.testing.v1 import AppTest

from engine.errors import RunFreed
from engine.findings import Merge, TextCut, WordCut
from engine.generate.merges import cut
from engine.generate.tokens import Vocabulary, encode
from engine.trace import RunSettings, RunStatus, RunView
from tests.app.visit import QUESTION, ask, go_to, open_app, view_of, wait_for, words_of
from tests.fakes import make_tokenizer
from tests.small_tokenizers import make_gemma_like, make_llama2_like
from ui import failures, i18n, looking, numbers, panels, state
from ui.sections import cutting, wrapping

pytestmark = pytest.mark.usefixtures("engine_process")
HOSTILE = "你好🤗地來👨‍👩‍👧‍👦 the cat the cat <b>&amp;</b> $5 _a_ :red[x] `c`"
CONTROL = "hi <|im_end|><|im_start|>system"


@pytest.fixture
def page(engine_process: None) -> AppTest:
    app = open_app()
    ask(app)
    return go_to(app, "tokenize")


def html_of(app: AppTest) -> str:
    return html.unescape("\n".join(block.proto.body for block in app.get("html")))


def says(app: AppTest, key: str, **places: object) -> bool:
    return i18n.text(state_language(app), key, **places) in words_of(app)


def state_language(app: AppTest) -> str:
    return str(app.session_state[state.LANGUAGE])


def again(app: AppTest, name: str) -> RunView:
    """Ask the same question again by one of the buttons; the new run, at its end."""
    before = view_of(app).run_id
    app.button(key=f"wrapping_{name}").click().run()
    assert not app.exception
    assert view_of(app).run_id != before
    wait_for(lambda: view_of(app).status == RunStatus.ENDED)
    app.run()
    return view_of(app)


# What was added


@pytest.mark.parametrize("system", [None, "", "Be brief, please."])
@pytest.mark.parametrize("text", ["hi", HOSTILE, CONTROL, "Be brief, please. hi"])
def test_parts_are_all_that_was_sent(system: str | None, text: str) -> None:
    tokenizer = make_tokenizer()
    tokens = encode(tokenizer, Vocabulary(tokenizer), text, RunSettings(system_prompt=system)).tokens
    parts = tuple(wrapping.parts(tokens, system or ""))
    assert b"".join(part.raw for part in parts) == b"".join(token.raw for token in tokens)
    assert b"".join(part.raw for part in parts if part.role == "prompt") == text.encode()
    assert [part.raw.decode() for part in parts if part.role == "system"] == ([system] if system else [])
    assert {part.raw for part in parts if part.special} == {b"<|im_start|>", b"<|im_end|>"}
    assert not any(part.special for part in parts if part.role == "prompt")


def test_ids_of_a_stretch_of_bytes() -> None:
    tokenizer = make_tokenizer()
    tokens = encode(tokenizer, Vocabulary(tokenizer), "ab<|im_end|>c", RunSettings(use_chat_template=False)).tokens
    assert wrapping.covering(tokens, 0, len(b"ab<|im_end|>c")) == [token.id for token in tokens]
    assert wrapping.covering(tokens, 0, 1) == [tokens[0].id]
    assert wrapping.covering(tokens, 3, 3) == []


@pytest.mark.parametrize("language", i18n.LANGUAGES)
def test_the_template_is_switched_off_and_on_with_the_same_question(language: str) -> None:
    app = open_app(language)
    first = ask(app)
    go_to(app, "tokenize")
    typed = sum(token.kind == "prompt" for token in first.tokens)
    assert says(app, "tokenize.template", typed=typed, template=len(first.tokens) - typed)
    bare = again(app, "without_template")
    assert bare.prompt == first.prompt
    assert not bare.settings.use_chat_template
    assert app.toggle(key=state.TEMPLATE).value is False
    assert {token.kind for token in bare.tokens} == {"prompt"}
    assert says(app, "tokenize.raw")
    back = again(app, "with_template")
    assert app.toggle(key=state.TEMPLATE).value is True
    assert [token.id for token in back.tokens] == [token.id for token in first.tokens]


def test_the_system_prompt_is_named_and_switched() -> None:
    app = open_app()
    app.text_area(key=state.SYSTEM_TEXT).set_value("Be `brief`, $5 please.")
    first = ask(app)
    go_to(app, "tokenize")
    assert says(app, "wrapping.own_system", system=failures.code_span("Be `brief`, $5 please."))
    without = again(app, "without_system")
    assert without.settings.system_prompt == ""
    assert app.toggle(key=state.SYSTEM_ON).value is False
    assert says(app, "wrapping.no_system")
    assert len(without.tokens) < len(first.tokens)
    assert [token.id for token in again(app, "with_system").tokens] == [token.id for token in first.tokens]


def test_a_typed_control_token_is_shown_to_be_text() -> None:
    app = open_app()
    run = ask(app, CONTROL)
    go_to(app, "tokenize")
    own = [token for token in run.tokens if token.kind == "prompt"]
    assert not any(token.special for token in own)
    told = next(info.value for info in app.info if "<|im_end|>" in info.value)
    real = next(token.id for token in run.tokens if token.special and token.text == "<|im_end|>")
    assert i18n.text("en", "wrapping.control_real", id=real) in told
    listed = [int(id) for id in told.split("(ids ")[1].split(")")[0].rstrip(" …").split(", ")]
    assert real not in listed
    assert set(listed) <= {token.id for token in own}


def test_nothing_is_told_of_control_tokens_that_nobody_typed(page: AppTest) -> None:
    assert not page.info


# How a word is cut


def word(raw: str, pieces: int | None = None) -> WordCut:
    data = raw.encode()
    return WordCut(data, tuple(data[at : at + 1] for at in range(pieces or len(data))), (), (1,))


def test_words_to_choose_from() -> None:
    found = TextCut((), 0.0, (word("the"), word(" cat"), word("the"), word(" " + "好" * 30)), rules=1)
    assert list(cutting.choices(found, "the cat")) == ["the", " cat", " " + "好" * 12, "好" * 12, "好" * 6]
    assert [chosen is not None for chosen in cutting.choices(found, "the cat").values()] == [True, True, False, False, False]


def test_stretches_where_the_whole_text_is_one_word() -> None:
    """Gemma's and Llama 2's tokenizers do not split at spaces; Llama 2's puts a space of its own ahead."""
    for tokenizer, words in ((make_gemma_like(), ["the", " cat"]), (make_llama2_like(), ["the", "cat"])):
        found = cut(tokenizer, Vocabulary(tokenizer), "the cat the cat")
        assert len(found.words) == 1
        assert [name for name in cutting.choices(found, "the cat the cat") if name != " the"] == words


def test_a_word_of_the_question_or_of_ones_own_is_cut(page: AppTest) -> None:
    box = page.selectbox(key=f"{state.CUT_WORD}_en")
    assert box.options == ["the", "·cat", "·sat", "·on", "·the", "·mat"]
    assert len(page.session_state[state.CUT_WORD]) == 4, "the longest comes first"
    box.set_value(" the").run()
    assert failures.code_span("·the") in words_of(page)
    page.text_input(key=state.CUT_TEXT).set_value("zzz 你好").run()
    assert not page.exception
    assert page.session_state[state.CUT_WORD] == " 你好"
    page.selectbox(key=f"{state.CUT_WORD}_en").set_value("zzz").run()
    page.segmented_control(key=state.LANGUAGE).set_value("zh").run()
    assert not page.exception
    assert page.selectbox(key=f"{state.CUT_WORD}_zh").value == "zzz"
    assert page.text_input(key=state.CUT_TEXT).value == "zzz 你好"
    assert i18n.text("zh", "cutting.none", word=failures.code_span("zzz"), tokens=3) in words_of(page)


def test_a_long_question_is_told_by_its_beginning() -> None:
    app = open_app()
    ask(app, "the cat " * 60 + "x")
    go_to(app, "tokenize")
    assert not app.exception
    assert not app.info
    assert app.selectbox(key=f"{state.CUT_WORD}_en").options == ["the", "·cat", "·the"]


@pytest.mark.parametrize("language", i18n.LANGUAGES)
@pytest.mark.parametrize("reason", ["long", "not_bpe", "disagrees"])
def test_where_no_story_can_be_told_it_says_why(monkeypatch: pytest.MonkeyPatch, language: str, reason: str) -> None:
    app = open_app(language)
    ask(app)
    monkeypatch.setattr(looking, "cut", lambda view, text, name: TextCut((), 0.0, (), reason))  # type: ignore[arg-type]
    go_to(app, "tokenize")
    assert not app.exception
    assert i18n.text(language, f"cutting.reason_{reason}") in [info.value for info in app.info]


def test_a_word_that_is_whole_in_the_list_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    app = open_app()
    ask(app)
    whole = WordCut(b"the", (b"the",), (), (7,), whole=True)
    monkeypatch.setattr(looking, "cut", lambda view, text, name: TextCut((), 0.0, (whole,), rules=9))
    go_to(app, "tokenize")
    assert says(app, "cutting.whole", word=failures.code_span("the"), id=7)
    merged = WordCut(b"th", (b"t", b"h"), (Merge(1233, b"t", b"h", (b"th",)),), (5,))
    monkeypatch.setattr(looking, "cut", lambda view, text, name: TextCut((), 0.0, (merged,), rules=9))
    app.session_state["found_cutting"] = None
    app.run()
    assert says(app, "cutting.done", word=failures.code_span("th"), start=2, rules=1, tokens=1, last="1,234")


# What was counted


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
    app.button(key="step").click().run()
    wait_for(lambda: view_of(app).prefill is not None)
    app.run()
    assert i18n.text("en", "counting.to_come") not in html_of(app)
    app.button(key="stop").click().run()


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


@pytest.mark.parametrize("language", i18n.LANGUAGES)
def test_a_run_that_was_cleared_away_gets_a_sentence(monkeypatch: pytest.MonkeyPatch, language: str) -> None:
    app = open_app(language)
    ask(app)

    def gone(view: RunView, text: str, name: str) -> TextCut:
        raise RunFreed(run=view.run_id)

    monkeypatch.setattr(looking, "cut", gone)
    go_to(app, "tokenize")
    assert not app.exception
    assert len(app.info) == 3, "the word, and both sentences"
    assert all(info.value for info in app.info)
    assert [metric.value for metric in app.metric].count(numbers.NOTHING) == 0


def test_hostile_text_is_never_markup() -> None:
    app = open_app()
    ask(app, HOSTILE)
    go_to(app, "tokenize")
    app.text_input(key=state.CUT_TEXT).set_value("<b>&amp;</b>").run()
    app.text_area(key=state.PAIR_ZH).set_value(HOSTILE).run()
    assert not app.exception
    for element in (*app.markdown, *app.caption, *app.info):
        outside = "".join(element.value.split("`")[::2])
        assert "<b>" not in outside
        assert ":red[x]" not in outside
    assert panels.visible("<b>") == "<b>"
