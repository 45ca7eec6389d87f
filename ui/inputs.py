"""The questions to the reader: language, device, sampling, chat template, the question itself, layer and head.

Knows widgets and their ranges; what the answers mean for a run is read by `asking.run_settings`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import streamlit as st

from engine.errors import EngineError
from ui import asking, choice, i18n, model, panels, sharing, state, upload
from ui.state import t

EXAMPLES = ("example_1", "example_2", "example_3", "example_4")
LONG = 20_000  # characters; a longer question is shown by its beginning
BEGINNING = 600
FIELD_PX, LABEL_PX = 96, 28  # a text area counts its label in


def language() -> None:
    """The language switch. It changes words only: the run goes on."""
    st.segmented_control(
        t("shell.language"),
        i18n.LANGUAGES,
        required=True,
        format_func=i18n.LANGUAGE_NAMES.__getitem__,
        key=state.LANGUAGE,
        label_visibility="collapsed",
        persist_state="session",
        width="stretch",
    )


def answer() -> None:
    """How the answer is drawn: length, sampling, chat template, device."""
    with st.expander(t("shell.settings"), icon=":material/tune:", key="settings_box"):
        st.number_input(t("shell.max_new"), 1, state.MAX_NEW_LIMIT, key=state.MAX_NEW, persist_state="session")
        _sampling()
        _chat_template()
        device = state.get(state.DEVICE)
        options = sharing.DEVICES if device in sharing.DEVICES else (*sharing.DEVICES, device)
        choice.select(state.DEVICE, t("shell.device"), options, partial(_device_name, t("shell.device_auto")), model.load_chosen)


def _sampling() -> None:
    kept: dict[str, Any] = {"persist_state": "session"}
    st.slider(
        t("shell.temperature"), 0.0, state.TEMPERATURE_LIMIT, step=0.05, key=state.TEMPERATURE, help=t("shell.temperature_help"), **kept
    )
    kept["disabled"] = not state.get(state.TEMPERATURE)  # greedy: the filters change nothing
    st.number_input(t("shell.top_k"), 0, state.TOP_K_LIMIT, key=state.TOP_K, help=t("shell.top_k_help"), **kept)
    st.slider(t("shell.top_p"), 0.0, 1.0, step=0.01, key=state.TOP_P, help=t("shell.top_p_help"), **kept)
    st.number_input(t("shell.seed"), 0, state.SEED_LIMIT, key=state.SEED, help=t("shell.seed_help"), **kept)


def _chat_template() -> None:
    has_one = asking.has_template()
    st.toggle(t("shell.template"), key=state.TEMPLATE, disabled=not has_one, help=t("shell.template_help"), persist_state="session")
    off = not (has_one and state.get(state.TEMPLATE))
    st.toggle(t("shell.system"), key=state.SYSTEM_ON, disabled=off, help=t("shell.system_help"), persist_state="session")
    info = model.chosen_status().info
    st.text_area(
        t("shell.system_text"),
        key=state.SYSTEM_TEXT,
        placeholder=(info.default_system_prompt if info else "") or None,
        disabled=off or not state.get(state.SYSTEM_ON),
        height=80,
        max_chars=4000,
        persist_state="session",
    )


def _device_name(auto: str, device: str) -> str:
    return auto if device == "auto" else device


def question() -> None:
    """Ready questions and the reader's own. Each click starts a run."""
    with panels.card("ask"):
        st.markdown(f"**{t('home.try')}**")
        with st.container(horizontal=True, key="examples"):
            for name in EXAMPLES:
                words = t(f"home.{name}")
                st.button(words, key=name, icon=":material/play_arrow:", on_click=asking.start_run, args=(words,))
        own, file = st.columns([5, 2])
        with own:
            _own_question()
        with file:
            _question_file()
        with st.container(horizontal=True, vertical_alignment="center", key="ask_row"):
            st.button(t("home.ask"), key="ask_own", type="primary", icon=":material/ink_pen:", on_click=_ask_own)
            _long_question_tools()


def _own_question() -> None:
    """The question to be written, pasted or read. Of a long one only the beginning stands here: a text field sends all it holds,
    both ways, with every click.
    """
    text = str(state.get(state.QUESTION) or "")
    if len(text) > LONG and not state.get(state.WHOLE):
        with st.container(gap="xxsmall"):
            st.caption(t("upload.long", chars=f"{len(text):,}", shown=f"{BEGINNING:,}"))
            with st.container(border=True, height=FIELD_PX, key="long_question"):
                st.text(text[:BEGINNING] + "…")
        return
    st.text_area(
        t("home.own"),
        key=state.QUESTION,
        height=FIELD_PX + LABEL_PX,
        max_chars=state.QUESTION_LIMIT,
        placeholder=t("home.own_hint"),
        persist_state="session",
    )


def _long_question_tools() -> None:
    if len(state.get(state.QUESTION) or "") > LONG:
        st.button(t("upload.clear"), key="clear_question", icon=":material/delete:", on_click=state.put, args=(state.QUESTION, ""))
        st.toggle(t("upload.whole"), key=state.WHOLE, help=t("upload.whole_help"), persist_state="session")


def _question_file() -> None:
    """A text file put on the desk goes into the question field. The uploader then gets a new key: nothing lies in it twice."""
    key = f"question_file_{state.get(state.FILES_READ) or 0}"
    st.file_uploader(t("upload.label"), key=key, help=t("upload.help"), on_change=_take_file, args=(key,))


def _take_file(key: str) -> None:
    file = state.get(key)
    if file is None:
        return
    state.put(state.FILES_READ, (state.get(state.FILES_READ) or 0) + 1)
    try:
        state.put(state.QUESTION, upload.text_of(file.getvalue()))
    except EngineError as error:
        state.notify(error.info)


def _ask_own() -> None:
    asking.start_run(str(state.get(state.QUESTION) or ""))
