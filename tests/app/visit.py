"""One visitor of the app, through AppTest: opening pages, asking, reading what is said. Knows widget keys; knows no right answers."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from streamlit.testing.v1 import AppTest

from engine.trace import RunStatus, RunView
from ui import resources, state

ROOT = Path(__file__).resolve().parents[2]
QUESTION = "the cat sat on the mat the cat"


def wait_for(ready: Callable[[], object], timeout_s: float = 60.0) -> None:
    deadline = time.perf_counter() + timeout_s
    while not ready():
        assert time.perf_counter() < deadline, "waited too long"
        time.sleep(0.02)


def open_app(language: str = "en", page: str = "home", **query: str) -> AppTest:
    app = AppTest.from_file(str(ROOT / "ui" / "shell.py"), default_timeout=30)
    app.query_params["lang"] = language
    for name, value in query.items():
        app.query_params[name] = value
    app.run()
    return go_to(app, page) if page != "home" else app


def go_to(app: AppTest, page: str) -> AppTest:
    return app.switch_page(f"../pages/{page}.py").run()


def ask(app: AppTest, question: str = QUESTION, max_new_tokens: int = 6) -> RunView:
    """Ask on the home page and wait for the run's end; gives the run."""
    app.number_input(key=state.MAX_NEW).set_value(max_new_tokens)
    app.text_area(key=state.QUESTION).set_value(question)
    app.button(key="ask_own").click().run()
    assert not app.exception
    wait_for(lambda: view_of(app).status == RunStatus.ENDED)
    app.run()
    return view_of(app)


def bring(app: AppTest, data: bytes, name: str = "record.json") -> AppTest:
    """A record as a file, on the page of records."""
    app.file_uploader[0].set_value((name, data, "application/json"))
    app.run()
    assert not app.exception, app.exception
    return app


def view_of(app: AppTest) -> RunView:
    view = resources.engine().view(app.session_state["run_id"])
    assert view is not None
    return view


def words_of(app: AppTest) -> str:
    parts = [*app.markdown, *app.caption, *app.title, *app.text, *app.error, *app.warning, *app.info]
    return "\n".join(str(part.value) for part in parts)
