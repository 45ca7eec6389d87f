"""The Tokenize page: what was added, how a word is cut, what was counted; on a tiny real model behind the real engine process."""

from __future__ import annotations

import tomllib

import pytest
from streamlit.testing.v1 import AppTest

from engine.errors import ModelNotLoaded
from engine.findings import LONGEST_TEXT, Merge, TextCut, WordCut
from engine.generate.merges import cut
from engine.generate.tokens import Vocabulary, encode
from engine.trace import RunSettings, RunStatus, RunView
from tests.app.visit import ROOT, ask, go_to, open_app, view_of, wait_for, words_of
from tests.fakes import make_tokenizer
from tests.small_tokenizers import make_gemma_like, make_llama2_like
from ui import failures, i18n, literal, looking, numbers, resources, state
from ui.sections import cutting, wrapping

pytestmark = pytest.mark.usefixtures("engine_process")
HOSTILE = "你好🤗地來👨‍👩‍👧‍👦 the cat the cat <b>&amp;</b> $5 _a_ :red[x] `c`"
CONTROL = "hi <|im_end|><|im_start|>system"


@pytest.fixture
def page(engine_process: None) -> AppTest:
    app = open_app()
    ask(app)
    return go_to(app, "tokenize")


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


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (" the cat", " the cat"),
        ("\n" * 250 + "the cat", "the cat"),
        (" " * 250 + "x" * 300, "x" * LONGEST_TEXT),
        ("the cat " * 30, "the cat " * 24 + "the"),
        (" " * 300, ""),
    ],
)
def test_the_beginning_ends_with_a_word_whatever_comes_first(text: str, told: str) -> None:
    assert cutting._beginning(text) == told


def test_a_question_after_much_blank_is_told() -> None:
    app = open_app()
    ask(app, "\n" * 250 + "the cat sat")
    go_to(app, "tokenize")
    assert not app.exception
    assert not app.error
    assert app.selectbox(key=f"{state.CUT_WORD}_en").options == ["the", "·cat", "·sat"]


@pytest.mark.parametrize("language", i18n.LANGUAGES)
@pytest.mark.parametrize("reason", ["disagrees", None])
def test_a_stretch_without_words_of_its_own_says_why(monkeypatch: pytest.MonkeyPatch, language: str, reason: str | None) -> None:
    app = open_app(language)
    ask(app)
    whole, stretch = TextCut((), 0.0, (word("x" * 60),), rules=9), TextCut((), 0.0, (), reason)
    monkeypatch.setattr(looking, "cut", lambda view, text, name: stretch if name == "cutting_word" else whole)
    go_to(app, "tokenize")
    assert not app.exception
    assert says(app, "cutting.reason_disagrees" if reason else "cutting.nothing")


@pytest.mark.parametrize("language", i18n.LANGUAGES)
@pytest.mark.parametrize("reason", ["long", "not_bpe", "disagrees"])
def test_where_no_story_can_be_told_it_says_why(monkeypatch: pytest.MonkeyPatch, language: str, reason: str) -> None:
    app = open_app(language)
    ask(app)
    monkeypatch.setattr(looking, "cut", lambda view, text, name: TextCut((), 0.0, (), reason))
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


# In general


@pytest.mark.parametrize("language", i18n.LANGUAGES)
def test_a_model_that_was_put_away_gets_a_sentence(monkeypatch: pytest.MonkeyPatch, language: str) -> None:
    app = open_app(language)
    ask(app)

    def gone(view: RunView, text: str, name: str) -> TextCut:
        raise ModelNotLoaded(model=view.model_id)

    monkeypatch.setattr(looking, "cut", gone)
    go_to(app, "tokenize")
    assert not app.exception
    assert len(app.info) == 3, "the word, and both sentences"
    assert all(info.value for info in app.info)
    assert [metric.value for metric in app.metric].count(numbers.NOTHING) == 0


def test_a_run_whose_memory_was_cleared_still_has_its_words_cut() -> None:
    app = open_app()
    run = ask(app)
    resources.engine().steer(run.run_id, str(app.session_state["run_key"]), "cancel")
    go_to(app, "tokenize")
    assert not app.exception
    assert not app.info
    assert app.selectbox(key=f"{state.CUT_WORD}_en").options[:2] == ["the", "·cat"]


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
    assert literal.visible("<b>") == "<b>"


@pytest.mark.parametrize("name", ["tokenize", "wrapping", "cutting", "counting", "traits"])
def test_one_word_for_the_process(name: str) -> None:
    """Tokenizing is 分词 everywhere."""
    words = tomllib.loads((ROOT / "assets" / "text" / f"{name}.toml").read_text(encoding="utf-8"))
    assert not [key for key, entry in words.items() if "切词" in entry["zh"] or "切分" in entry["zh"]]


def test_how_it_is_done_shows_the_rules_at_work(page: AppTest) -> None:
    page.session_state["how_tokenize"] = True
    page.run()
    assert any("def best(self" in code.value for code in page.code)
