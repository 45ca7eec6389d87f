"""The shelf, the exchange of files and recordings, through AppTest on a tiny real engine."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from engine import codec
from engine.trace import RunRecord, RunStatus, StopReason
from tests.app.visit import ask, bring, go_to, open_app, view_of, wait_for, words_of
from tests.hostile_files import GOOD, SCRIPT, changed, files, shortest
from ui import handout, i18n, resources, shelf, spreadsheet, state

pytestmark = pytest.mark.usefixtures("engine_process")
FILES = list(files())
PAGES = ("tokenize", "prefill", "decode", "detokenize", "marks", "records", "home")


def kept(app: AppTest) -> tuple[shelf.Filed, ...]:
    return app.session_state[state._SHELF].get(shelf.RECORDS, ())


def shelf_record(app: AppTest, number: int) -> shelf.Filed:
    return next(one for one in kept(app) if one.number == number)


def banner(app: AppTest, language: str = "en") -> bool:
    begin = i18n.text(language, "records.banner").split("{")[0][:8]
    return any(info.value.startswith(begin) for info in app.info)


def test_every_run_that_ends_is_filed_once() -> None:
    app = go_to(open_app(), "records")
    assert i18n.text("en", "records.shelf_empty") in words_of(app)
    go_to(app, "home")
    first = ask(app)
    second = ask(app, "another question", max_new_tokens=3)
    go_to(app, "records")
    assert [one.run_id for one in kept(app)] == [second.run_id, first.run_id]
    assert [one.number for one in kept(app)] == [2, 1]
    assert kept(app)[0].record == shelf.record_of(second)
    table = app.dataframe[0].value
    assert list(table["#"]) == [2, 1]
    assert list(table[i18n.text("en", "records.prompt")]) == ["another question", first.prompt]
    app.run()
    assert len(kept(app)) == 2


def test_stopped_runs_and_branches_are_filed_too() -> None:
    app = open_app()
    app.number_input(key=state.MAX_NEW).set_value(2000)
    app.text_area(key=state.QUESTION).set_value("the cat sat").run()
    app.button(key="ask_own").click().run()
    wait_for(lambda: len(view_of(app).steps) > 3)
    app.button(key="stop").click().run()
    wait_for(lambda: view_of(app).status == RunStatus.ENDED)
    app.run()
    assert [one.record.stop_reason for one in kept(app)] == [StopReason.STOPPED]
    client, session = resources.engine(), app.session_state
    other = next(one.id for one in view_of(app).steps[0].candidates[1:])
    ticket = client.branch(session["run_id"], session["run_key"], 1, other, session="s")
    app.session_state[state._SHELF][shelf.OPEN][ticket.run_id] = ticket.key  # as state.switch notes it
    client.steer(ticket.run_id, ticket.key, "stop")
    wait_for(lambda: (view := client.view(ticket.run_id)) is not None and view.status == RunStatus.ENDED)
    app.run()
    assert kept(app)[0].run_id == ticket.run_id
    assert kept(app)[0].record.origin is not None


@pytest.mark.parametrize("language", i18n.LANGUAGES)
def test_export_import_replay_is_the_same_record(language: str) -> None:
    app = open_app(language)
    ran = ask(app)
    record = shelf.record_of(ran)
    assert record is not None
    other = go_to(open_app(language), "records")
    bring(other, record.to_json().encode())
    assert not other.warning
    assert banner(other, language)
    view = view_of(other)
    assert view.recording
    assert view.run_id != ran.run_id
    assert shelf.record_of(view) == record == kept(other)[0].record
    for page in PAGES:
        go_to(other, page)
        assert not other.exception, page
        assert banner(other, language), page


@pytest.mark.parametrize("language", i18n.LANGUAGES)
@pytest.mark.parametrize(("kind", "data"), [row[1:] for row in FILES], ids=[row[0] for row in FILES])
def test_a_file_that_is_refused_changes_nothing(visited: dict[str, AppTest], kind: str, data: bytes, language: str) -> None:
    app = visited[language]
    before = {name: app.session_state[name] for name in ("run_id", "run_key", state.QUESTION, state.MODEL)}, kept(app)
    bring(app, data)
    said = app.warning[0].value
    words = re.split(r"\{\w+\}", i18n.text(language, f"errors.record_invalid_{kind}"))
    assert re.fullmatch("(`+ .+ `+|-?[0-9,.e-]+)".join(map(re.escape, words)), said), said
    assert ({name: app.session_state[name] for name in before[0]}, kept(app)) == before
    assert app.file_uploader[0].value is None
    app.run()
    assert not app.warning, "told once"


@pytest.fixture(scope="module")
def visited(engine_process: None) -> dict[str, AppTest]:
    """In each language a visitor who has a run of their own and stands on the page."""
    apps = {language: open_app(language) for language in i18n.LANGUAGES}
    for app in apps.values():
        ask(app)
        go_to(app, "records")
    return apps


def test_fifty_megabytes_are_refused_before_anything_is_read(visited: dict[str, AppTest]) -> None:
    app = visited["en"]
    bring(app, b"[" * 50_000_000)
    assert "50,000,000" in app.warning[0].value
    assert f"{codec.RECORD_LIMIT_BYTES:,}" in app.warning[0].value


def test_hostile_words_are_shown_as_words() -> None:
    def rewrite(record: Any) -> bytes:
        for step in record["steps"][:4]:
            step["token"] |= {"text": SCRIPT, "raw": "PC9zcGFuPjxzY3JpcHQ+YWxlcnQoMSk8L3NjcmlwdD4="}
        return json.dumps(
            record | {"prompt": f"=1+1 {SCRIPT} :red[x] $5$ `**", "model": record["model"] | {"name": ":red[x] **`b`**"}}
        ).encode()

    app = bring(go_to(open_app(), "records"), rewrite(json.loads(GOOD)))
    assert view_of(app).recording
    for page in PAGES:
        go_to(app, page)
        assert not app.exception, page
        assert all(SCRIPT not in html.proto.body for html in app.get("html"))


def test_two_records_are_laid_over_each_other_and_stay_so_in_the_other_language() -> None:
    app = go_to(open_app(), "records")
    bring(app, GOOD)
    bring(app, changed("settings", "seed", value=7))
    app.button_group(key=state.PICKED_RECORDS).set_value([1, 2]).run()
    assert not app.exception
    assert i18n.text("en", "records.overlay") in words_of(app)
    said = words_of(app)
    assert i18n.text("en", "errors.field_seed") in said
    assert i18n.text("en", "records.answers_same", one="#1", other="#2", n="48") in said
    assert len(app.get("plotly_chart")) == 2
    app.segmented_control(key=state.LANGUAGE).set_value("zh").run()
    assert app.button_group(key=state.PICKED_RECORDS).value == [1, 2]
    assert i18n.text("zh", "records.answers_same", one="#1", other="#2", n="48") in words_of(app)


def test_the_same_file_twice_is_one_record() -> None:
    app = go_to(open_app(), "records")
    bring(app, GOOD)
    first = view_of(app).run_id
    bring(app, GOOD)
    assert len(kept(app)) == 1
    assert view_of(app).run_id == first


def test_a_record_whose_run_has_left_the_book_is_opened_as_a_recording(monkeypatch: pytest.MonkeyPatch) -> None:
    app = open_app()
    ran = ask(app)
    ask(app, "another question", 2)
    book = resources.engine()._book
    del book._entries[ran.run_id]
    go_to(app, "records")
    app.selectbox(key=state.CHOSEN_RECORD).set_value(1).run()
    app.button(key="open_record").click().run()
    view = view_of(app)
    assert view.recording
    assert view.run_id != ran.run_id
    assert view.steps == ran.steps
    assert not shelf_record(app, 1).recording, "it was made here, and its row says so still"
    assert list(app.dataframe[0].value[i18n.text("en", "records.kind")]) == [i18n.text("en", "records.kind_here")] * 2
    assert banner(app)
    app.selectbox(key=state.CHOSEN_RECORD).set_value(2).run()
    app.button(key="open_record").click().run()
    assert not view_of(app).recording, "its own run is still there"
    assert not banner(app)


def test_a_recording_neither_branches_nor_reaches_the_sidebar() -> None:
    app = go_to(open_app(), "records")
    model = app.session_state[state.MODEL]
    bring(app, changed("model", "model_id", value="../../etc/passwd"))
    run = app.session_state["run_id"]
    again = open_app("en", run=run, key=app.session_state["run_key"])
    assert again.session_state[state.MODEL] == app.session_state[state.MODEL] == model
    go_to(again, "decode")
    assert again.button(key="end_now_eos").disabled
    assert i18n.text("en", "branches.recorded") in words_of(again)
    again.button(key="ask_anew").click().run()
    assert not again.exception
    assert not view_of(again).recording, "a live run of the same question"
    assert view_of(again).prompt == json.loads(GOOD)["prompt"]


def test_the_oldest_records_leave_a_full_shelf(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shelf, "MOST", 3)
    app = go_to(open_app(), "records")
    for seed in range(5):
        bring(app, changed("settings", "seed", value=seed))
    assert [one.number for one in kept(app)] == [5, 4, 3]
    one = kept(app)[0].weight
    assert one > len(kept(app)[0].record.tokens) + 2 * 48, "candidates count too"
    monkeypatch.setattr(shelf, "MOST_WEIGHT", 2 * one - 1)
    bring(app, changed("settings", "seed", value=9))
    assert [one.number for one in kept(app)] == [6], "two of them weigh more than that"


def test_files_are_written_only_when_they_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    app = bring(go_to(open_app(), "records"), GOOD)
    assert kept(app)[0].size_bytes == len(kept(app)[0].record.to_json().encode())

    def never(*given: object) -> str:
        raise AssertionError("a file is written although nobody has asked for it")

    monkeypatch.setattr(RunRecord, "to_json", never)
    monkeypatch.setattr(spreadsheet, "sheet", never)
    monkeypatch.setattr(handout, "page", never)
    app.run()
    assert not app.exception, app.exception
    assert len(app.get("download_button")) == 3


def test_the_smallest_durations_have_all_pages() -> None:
    app = bring(go_to(open_app(), "records"), shortest())
    bring(app, GOOD)
    app.button_group(key=state.PICKED_RECORDS).set_value([1, 2]).run()
    assert not app.exception, app.exception
    app.selectbox(key=state.CHOSEN_RECORD).set_value(1).run()
    app.button(key="open_record").click().run()
    for page in (*PAGES, "sweeps"):
        go_to(app, page)
        assert not app.exception, (page, app.exception)
