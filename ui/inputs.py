"""The sidebar's questions: language, model, device, sampling, chat template; and where the model stands.

Knows widgets and their ranges; what the answers mean for a run is read by `state.run_settings`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import streamlit as st

from engine.errors import EngineError
from engine.model import registry
from engine.model.shape import ModelShape
from engine.serve.client import ModelStatus
from ui import i18n, numbers, panels, resources, state
from ui.state import t

EXAMPLES = ("example_1", "example_2", "example_3", "example_4")
MOST_HEAD_BUTTONS = 24
DEVICES = ("auto", "cpu", "cuda", "mps")
MODEL_POLL_S = 0.7


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


def model() -> None:
    """Which model answers the next question; a change begins to load it at once."""
    keys = [spec.key for spec in registry.MODELS]
    chosen = state.get(state.MODEL)
    options = keys if chosen in keys else [chosen, *keys]
    st.selectbox(
        t("shell.model"),
        options,
        format_func=_model_name,
        key=state.MODEL,
        help=t("shell.model_help"),
        accept_new_options=True,
        on_change=load_chosen,
        persist_state="session",
    )
    if chosen_status().state == "absent":  # the model of a found run, say; a name that cannot be one stays absent, and is said to be
        load_chosen()
    status = chosen_status()
    if status.state == "loading":
        st.fragment(_model_state, run_every=MODEL_POLL_S)(status.state)
    else:  # not in a fragment: its buttons change the whole page
        _model_state(status.state)


def _model_name(key: str) -> str:
    return next((spec.name for spec in registry.MODELS if spec.key == key), key)


def load_chosen() -> None:
    """Ask the engine for the sidebar's model and device; a name that cannot be one becomes a notice."""
    try:
        registry.find(str(state.get(state.MODEL)))
        resources.engine().load_model(state.get(state.MODEL), state.get(state.DEVICE))
    except EngineError as error:
        state.notify(error.info)


def chosen_status() -> ModelStatus:
    return resources.engine().model_status(state.get(state.MODEL), state.get(state.DEVICE))


def _model_state(drawn: str) -> None:
    """One line about the model, and the way out where it failed. When it arrives or fails, the whole page is drawn once."""
    status = chosen_status()
    if status.state != drawn:
        st.rerun()
    if status.state == "ready" and status.info is not None:
        info = status.info
        size = f"{info.parameters / 1e6:,.0f} M"
        st.caption(t("shell.model_ready", dtype=info.dtype, device=info.device, parameters=size))
    elif status.state == "failed" and status.error is not None:
        _model_failed(status)
    elif status.state == "loading":
        _model_loading(status)


def _model_loading(status: ModelStatus) -> None:
    stage = t(f"shell.stage_{status.stage}") if status.stage else t("shell.stage_waiting")
    share = min(status.done / status.total, 1.0) if status.total else 0.0
    amount = f" · {numbers.mebibytes(status.done)} / {numbers.mebibytes(status.total)}" if status.total else ""
    st.progress(share, text=stage + amount)


def _model_failed(status: ModelStatus) -> None:
    if status.error is not None and status.error.code == "terms_not_accepted":
        st.caption(t("shell.terms_needed"))
        st.button(t("shell.terms_open"), key="terms_open", on_click=state.open_terms, width="stretch")
        return
    st.error(panels.explain(status.error))
    st.button(t("shell.retry"), key="model_retry", icon=":material/refresh:", on_click=load_chosen, width="stretch")


def terms_dialog() -> None:
    """The terms of the chosen model, where the reader asked for them."""
    if state.take_terms():
        st.dialog(t("shell.terms_title"), width="large")(_terms)()


def _terms() -> None:
    name = str(state.get(state.MODEL))
    try:
        words = resources.engine().terms(name)
    except EngineError as error:
        st.error(panels.explain(error.info))
        return
    with st.container(height=380):
        st.text(words)
    if st.button(t("shell.terms_accept"), type="primary"):
        try:
            resources.engine().accept_terms(name)
        except EngineError as error:
            st.error(panels.explain(error.info))
            return
        load_chosen()
        st.rerun()


def answer() -> None:
    """How the answer is drawn: length, sampling, chat template, device."""
    with st.expander(t("shell.settings"), icon=":material/tune:", key="settings_box"):
        st.number_input(t("shell.max_new"), 1, state.MAX_NEW_LIMIT, key=state.MAX_NEW, persist_state="session")
        _sampling()
        _chat_template()
        device = state.get(state.DEVICE)
        st.selectbox(
            t("shell.device"),
            DEVICES if device in DEVICES else (*DEVICES, device),
            format_func=partial(_device_name, t("shell.device_auto")),
            key=state.DEVICE,
            on_change=load_chosen,
            persist_state="session",
        )


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
    info = chosen_status().info
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
