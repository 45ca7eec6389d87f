"""The questions to the reader: language, device, sampling, chat template, the question itself, layer and head.

Knows widgets and their ranges; what the answers mean for a run is read by `state.run_settings`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import streamlit as st

from engine.model.shape import ModelShape
from ui import choice, i18n, model, panels, state
from ui.state import t

EXAMPLES = ("example_1", "example_2", "example_3", "example_4")
MOST_HEAD_BUTTONS = 24
DEVICES = ("auto", "cpu", "cuda", "mps")


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
        options = DEVICES if device in DEVICES else (*DEVICES, device)
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
    has_one = state.has_template()
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
                st.button(words, key=name, icon=":material/play_arrow:", on_click=state.start_run, args=(words,))
        st.text_area(
            t("home.own"),
            key=state.QUESTION,
            height=80,
            max_chars=state.QUESTION_LIMIT,
            placeholder=t("home.own_hint"),
            persist_state="session",
        )
        st.button(t("home.ask"), key="ask_own", type="primary", icon=":material/ink_pen:", on_click=_ask_own)


def _ask_own() -> None:
    state.start_run(str(state.get(state.QUESTION) or ""))


def layer_and_head(shape: ModelShape) -> tuple[int, int | None]:
    """Which attention map: a layer, and a head or (None) the mean over heads. Heads that share notes stand together."""
    layers, heads = shape.num_hidden_layers, shape.num_attention_heads
    chosen = state.get(state.LAYER)
    state.put(state.LAYER, layers // 2 if chosen is None else min(int(chosen), layers - 1))
    layer = st.slider(t("prefill.layer"), 0, layers - 1, key=state.LAYER, persist_state="session") if layers > 1 else 0
    head = state.get(state.HEAD)
    if head is not None and head >= heads:
        state.choose_head(head := None)
    if heads > MOST_HEAD_BUTTONS:
        st.number_input(t("prefill.head_number"), 0, heads - 1, value=head, key="head_number", on_change=_number_to_head)
        return layer, head
    _head_button(None, head)
    with st.container(horizontal=True, gap="small", key="heads"):
        for group in range(shape.num_key_value_heads):
            with st.container(gap="xxsmall", width="content"):
                st.caption(t("prefill.notes_group", group=group))
                with st.container(horizontal=True, gap="xxsmall", width="content"):
                    for number in range(group * shape.group_size, (group + 1) * shape.group_size):
                        _head_button(number, head)
    return layer, head


def _head_button(number: int | None, chosen: int | None) -> None:
    words = t("prefill.mean") if number is None else str(number)
    st.button(words, key=f"head_{number}", type="primary" if number == chosen else "secondary", on_click=state.choose_head, args=(number,))


def _number_to_head() -> None:
    state.choose_head(state.get("head_number"))
