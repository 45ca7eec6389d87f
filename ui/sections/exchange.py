"""Records as files: export of what is on the shelf, import of what comes from elsewhere, and replay.

Knows the shelf, the forms of files and the words; does not know which page it stands on.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import streamlit as st

from engine.codec import RECORD_LIMIT_BYTES
from engine.errors import EngineError
from engine.trace import RunRecord
from ui import handout, literal, navigation, panels, shelf, spreadsheet, state
from ui.sections.shelf import examples
from ui.shelf import Filed
from ui.state import t

NAME_MOST = 60  # characters of a question in the box
FORMS = (("json", "application/json", "data_object"), ("csv", "text/csv", "table"), ("html", "text/html", "article"))


def show() -> None:
    """Draw the section."""
    out, into = st.columns(2)
    with out, panels.card("export", stretch=True):
        panels.card_title(t("records.export"), None, "", anchor="export")
        _hand_out()
    with into, panels.card("import", stretch=True):
        panels.card_title(t("records.import"), None, "", anchor="import")
        _take_in()


def _hand_out() -> None:
    """One record: on all pages again, or as a file."""
    kept = shelf.records()
    if not kept:
        st.markdown(t("records.export_empty"))
        return
    named = {one.number: f"{one.name} · {literal.beginning(one.record.prompt, NAME_MOST)}" for one in kept}  # the same in both languages
    if state.get(state.CHOSEN_RECORD) not in named:
        state.put(state.CHOSEN_RECORD, kept[0].number)
    st.selectbox(t("records.which"), list(named), format_func=named.__getitem__, key=state.CHOSEN_RECORD, persist_state="session")
    chosen = shelf.numbered(state.get(state.CHOSEN_RECORD)) or kept[0]
    _open(chosen)
    with st.container(horizontal=True, key="export_files"):
        for form, kind, icon in FORMS:
            st.download_button(
                t(f"records.as_{form}"),
                _writer(form, chosen.record),
                f"openbook-{chosen.number}.{form}",
                kind,
                key=f"export_{form}",
                icon=f":material/{icon}:",
                help=t(f"records.as_{form}_help"),
                on_click="ignore",
            )
    if chosen.size_bytes > RECORD_LIMIT_BYTES:
        st.caption(f":material/info: {t('records.too_long', limit=f'{RECORD_LIMIT_BYTES:,}')}")


def _writer(form: str, record: RunRecord) -> Callable[[], str]:
    """What writes the file when somebody takes it: outside of the session, so that the language goes with it."""
    writers: dict[str, Callable[[], str]] = {
        "json": record.to_json, "csv": partial(spreadsheet.sheet, record), "html": partial(handout.page, record, state.language()),
    }  # fmt: skip
    return writers[form]


def _open(chosen: Filed) -> None:
    """The way back to all pages, and the ways there once it is on them."""
    if chosen.run_id == state.run_id():
        st.markdown(f":material/check: {t('records.is_open', name=chosen.name)}")
        with st.container(horizontal=True, gap="medium", key="open_ways"):
            for page in ("tokenize", "prefill", "decode", "detokenize", "marks"):
                navigation.link(page, t("records.see", page=t(f"shell.nav_{page}")))
    else:
        words, icon = t("records.open"), ":material/visibility:"
        st.button(words, key="open_record", type="primary", icon=icon, on_click=shelf.open_again, args=(chosen.number,))


def _take_in() -> None:
    """A file, or one of the recordings that came with the app. The uploader then gets a new key: nothing lies in it twice."""
    key = f"record_file_{state.get(state.RECORD_FILES) or 0}"
    told = t("records.upload_help", limit=f"{RECORD_LIMIT_BYTES:,}")
    st.file_uploader(t("records.upload"), key=key, help=told, on_change=_take, args=(key,))
    st.caption(t("records.import_note"))
    if shelf.records():
        st.markdown(t("records.examples"))
        examples("import")


def _take(key: str) -> None:
    """What is wrong with a file becomes the notice of the next picture; nothing has changed then."""
    file = state.get(key)
    if file is None:
        return
    state.put(state.RECORD_FILES, (state.get(state.RECORD_FILES) or 0) + 1)
    try:
        filed = shelf.take(file.getvalue())
    except EngineError as error:
        state.notify(error.info)
        return
    state.put(state.CHOSEN_RECORD, filed.number)
    shelf.open_again(filed.number)
