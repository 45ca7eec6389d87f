"""Every page in both languages through AppTest, on a tiny real model behind the real engine process."""

from __future__ import annotations

import subprocess
import sys
import time
from urllib.parse import urlsplit

import pytest
from streamlit.testing.v1 import AppTest

from engine.trace import RunStatus, StopReason
from tests.app.visit import QUESTION, ROOT, ask, go_to, open_app, view_of, wait_for, words_of
from ui import i18n, navigation, numbers, panels, resources, state

pytestmark = pytest.mark.usefixtures("engine_process")
PAGES = [spec.key for spec in navigation.PAGES]
HOSTILE = "</span><script>alert(1)</script> $5 and $6 _a_ :red[x] **b** `c` ``` :material/home:"


@pytest.mark.parametrize("language", i18n.LANGUAGES)
@pytest.mark.parametrize("page", PAGES)
def test_page_without_a_run(page: str, language: str) -> None:
    app = open_app(language, page)
    assert not app.exception
    assert app.title[0].value == i18n.text(language, f"{page}.title")
    assert {"play", "step", "back", "begin", "stop"} <= {button.key for button in app.button}
    assert app.button(key="play").label == i18n.text(language, "shell.play")
    assert app.button(key="stop").disabled
    starters = {"home": ["example_1", "ask_own"], "sweeps": ["sweep_begin"], "records": []}.get(page, [f"empty_{page}"])
    assert all(app.button(key=key) for key in starters)


@pytest.mark.parametrize("language", i18n.LANGUAGES)
@pytest.mark.parametrize("page", PAGES)
def test_page_with_a_run(page: str, language: str) -> None:
    app = open_app(language)
    run = ask(app)
    go_to(app, page)
    assert not app.exception, app.exception
    assert app.query_params["run"] == [run.run_id] or app.query_params["run"] == run.run_id
    assert not app.error
    if page in {"prefill", "decode"}:
        last = run.prefill if page == "prefill" else run.steps[-1]
        assert run.model is not None
        assert last is not None
        size = 2 * 3 * 2 * 8 * run.model.dtype_bytes * last.kv_tokens
        product = f"2 × 3 × 2 × 8 × {run.model.dtype_bytes} B × {last.kv_tokens} = {size:,} B"
        says = i18n.text(language, "shell.formula_agree", formula=product, measured=f"{size:,} B")
        assert f":material/check: {says}" in words_of(app)
    if page == "prefill":
        assert app.slider(key=state.LAYER).max == 2
        assert app.button(key="head_3")
        assert "openbook_attention_map" in {part.proto.component_name for part in app.get("bidi_component")}
        assert {chart.key for chart in app.get("plotly_chart")} >= {"lens_line", "lens_table"}


def test_numbers_on_the_pages_are_the_runs_own() -> None:
    app = open_app()
    run = ask(app)
    assert run.prefill is not None
    go_to(app, "tokenize")
    typed = sum(token.kind == "prompt" for token in run.tokens)
    values = [metric.value for metric in app.metric]
    assert values[:3] == [str(len(QUESTION)), str(len(QUESTION.encode())), f"{typed} + {len(run.tokens) - typed}"]
    go_to(app, "prefill")
    assert run.prefill.kv_bytes == 2 * 3 * 2 * 8 * run.prefill.kv_tokens * run.model.dtype_bytes
    assert f"{run.prefill.kv_bytes:,} B" in words_of(app)


def test_language_switch_keeps_the_run() -> None:
    app = open_app("en", "home")
    run = ask(app)
    go_to(app, "decode")
    app.segmented_control(key=state.LANGUAGE).set_value("zh").run()
    assert not app.exception
    assert app.title[0].value == i18n.text("zh", "decode.title")
    assert view_of(app).run_id == run.run_id
    assert app.number_input(key=state.MAX_NEW).value == 6
    assert "zh" in app.query_params["lang"]


def test_language_follows_the_browser() -> None:
    for locale, language in (("zh-CN", "zh"), ("zh-TW", "zh"), ("de-DE", "en"), ("en-US", "en")):
        app = AppTest.from_file(str(ROOT / "ui" / "shell.py"), default_timeout=30)
        app.context = {"locale": locale}
        app.run()
        assert app.title[0].value == i18n.text(language, "home.title")


def test_steps_back_move_a_cursor_and_compute_nothing() -> None:
    app = open_app()
    run = ask(app)
    last = len(run.generated) - 1
    assert last >= 2
    app.button(key="back").click().run()
    assert app.session_state["cursor"] == last - 1
    app.button(key="begin").click().run()
    assert app.session_state["cursor"] == 0
    assert app.button(key="back").disabled
    app.button(key="step").click().run()
    assert app.session_state["cursor"] == 1
    for _ in range(last - 1):
        app.button(key="step").click().run()
    assert app.session_state["cursor"] is None
    assert view_of(app).steps == run.steps


def test_step_begins_a_run_and_goes_on_by_one() -> None:
    app = open_app()
    app.text_area(key=state.QUESTION).set_value(QUESTION).run()
    app.button(key="step").click().run()
    wait_for(lambda: view_of(app).tokens)
    assert view_of(app).prefill is None, "the first step only cuts the question"
    app.button(key="step").click().run()
    wait_for(lambda: view_of(app).prefill is not None)
    assert not view_of(app).steps
    app.button(key="step").click().run()
    wait_for(lambda: len(view_of(app).steps) == 1)
    time.sleep(0.3)
    assert len(view_of(app).steps) == 1, "one step is one token"
    app.button(key="stop").click().run()
    wait_for(lambda: view_of(app).status == RunStatus.ENDED)
    assert view_of(app).stop_reason == StopReason.STOPPED
    assert len(view_of(app).generated) == 2


def test_reload_with_the_key_steers_and_without_it_follows() -> None:
    owner = open_app()
    run = ask(owner, max_new_tokens=5)
    key = owner.session_state["run_key"]
    again = open_app("zh", run=run.run_id, key=key)
    assert not again.button(key="play").disabled
    assert again.number_input(key=state.MAX_NEW).value == 5
    assert again.text_area(key=state.QUESTION).value == QUESTION
    for stolen in ({}, {"key": "A" * 22}):
        follower = open_app("zh", run=run.run_id, **stolen)
        assert not follower.exception
        assert all(follower.button(key=name).disabled for name in ("play", "step", "back", "begin", "stop"))
        assert i18n.text("zh", "shell.follower") in words_of(follower)
        assert "key" not in follower.query_params


def test_share_link_has_no_key() -> None:
    app = open_app()
    run = ask(app)
    link = next(code.value for code in app.code if "run=" in code.value)
    assert run.run_id in link
    assert app.session_state["run_key"] not in link
    assert "lang=" not in link, "the reader's browser decides"
    for page in ("tokenize", "detokenize", "decode"):
        go_to(app, page)
        link = next(code.value for code in app.code if "run=" in code.value)
        assert urlsplit(link).path == f"/{page}", "whichever page was left"
    assert [state.whole(value) for value in (3, True, 3.0, "3", None)] == [3, None, None, None, None]
    assert app.query_params["lang"] == ["en"] or app.query_params["lang"] == "en"


def test_a_number_that_is_not_there_has_no_evidence() -> None:
    app = open_app()
    app.button(key="step").click().run()
    wait_for(lambda: view_of(app).tokens)
    go_to(app, "tokenize")
    assert [metric.value for metric in app.metric].count(numbers.NOTHING) == 1, "how long it took is told with the reading"
    evidence = [text.value for text in app.main.markdown if text.value in {panels.badge("measured"), panels.badge("computed")}]
    assert [metric.value for metric in app.metric].count(numbers.UNTOLD) == 1, "what is to be guessed is not told first"
    assert len(evidence) == len(app.metric) - 2
    app.button(key="stop").click().run()


@pytest.mark.parametrize(
    "query",
    [
        {"temp": "-1", "max_new": "1e9", "model": "../../etc", "prompt": "<script>"},
        {"run": "../../etc/passwd", "key": "<script>"},
        {"run": "x" * 4000, "key": "\x00"},
        {"run": "A" * 22},
    ],
)
def test_hostile_query_is_harmless(query: dict[str, str]) -> None:
    app = open_app("xx", **query)
    assert not app.exception
    assert app.title[0].value == i18n.text("en", "home.title")
    assert app.session_state["model"] == resources.settings().model
    assert "run" not in app.query_params
    assert "prompt" not in app.query_params


@pytest.mark.parametrize("language", i18n.LANGUAGES)
@pytest.mark.parametrize("question", ["", " ", "\n"])
def test_empty_question_gets_a_sentence(question: str, language: str) -> None:
    app = open_app(language)
    app.text_area(key=state.QUESTION).set_value(question)
    app.button(key="ask_own").click().run()
    assert not app.exception
    assert app.warning[0].value == i18n.text(language, "errors.empty_prompt")


@pytest.mark.parametrize("page", PAGES)
def test_hostile_text_is_never_markup(page: str) -> None:
    app = open_app()
    run = ask(app, HOSTILE)
    assert run.prompt == HOSTILE
    go_to(app, page)
    assert not app.exception
    for element in (*app.markdown, *app.caption, *app.error, *app.info, *app.warning):
        outside = "".join(element.value.split("`")[::2])
        assert "<script" not in outside
        assert ":red[x]" not in outside


def test_model_that_does_not_exist_is_said() -> None:
    def script() -> None:
        from ui import model, panels, state

        state.begin()
        state.put(state.MODEL, "<b>no such</b>/../model")
        model.load_chosen()
        panels.notice()

    app = AppTest.from_function(script, default_timeout=30).run()
    assert not app.exception
    assert "` <b>no such</b>/../model `" in app.warning[0].value


@pytest.mark.parametrize("page", PAGES)
def test_how_it_is_done_shows_the_engines_own_lines(page: str) -> None:
    app = open_app()
    ask(app)
    app.session_state[f"how_{page}"] = True
    app = go_to(app, page) if page != "home" else app.run()
    assert not app.exception
    shown = [code.value for code in app.code if code.value.lstrip().startswith("def ")]
    assert shown
    sources = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "engine").rglob("*.py"))
    assert all(line.strip() in sources for code in shown for line in code.splitlines())


def test_loading_every_page_leaves_torch_out() -> None:
    code = (
        "import sys\nfrom streamlit.testing.v1 import AppTest\n"
        "app = AppTest.from_file('ui/shell.py', default_timeout=60).run()\nassert not app.exception, app.exception\n"
        f"for page in {PAGES!r}:\n    app.switch_page(f'../pages/{{page}}.py').run()\n    assert not app.exception, app.exception\n"
        "from ui import resources\nresources.close()\n"
        "print([name for name in ('torch', 'transformers', 'tokenizers') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().splitlines()[-1] == "[]"
