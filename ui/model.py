"""The sidebar's model: which one answers the next question, where it stands, and the terms some of them come with.

Knows the registry's names and the engine's word on each; does not know how a model is fetched or loaded.
"""

from __future__ import annotations

import streamlit as st

from engine.errors import EngineError
from engine.model import registry
from engine.serve.client import ModelStatus
from engine.trace import ModelInfo
from ui import failures, numbers, panels, resources, state
from ui.components.pulse import pulse
from ui.state import t

POLL_S = 0.7


def choice() -> None:
    """Which model answers the next question; a change begins to load it at once."""
    keys = [spec.key for spec in registry.MODELS]
    chosen = state.get(state.MODEL)
    options = keys if chosen in keys else [chosen, *keys]
    free = resources.settings().any_model
    st.selectbox(
        t("shell.model"),
        options,
        format_func=_name,
        key=state.MODEL,
        help=t("shell.model_help" if free else "shell.model_help_listed"),
        accept_new_options=free,
        on_change=load_chosen,
        persist_state="session",
    )
    status = chosen_status()
    if status.state == "loading":
        st.fragment(_standing)(status.state)
    else:  # not in a fragment: its buttons change the whole page
        _standing(status.state)


def _name(key: str) -> str:
    """A model as the list shows it: its name, a hub id, or a folder without the way to it."""
    return next((spec.name for spec in registry.MODELS if spec.key == key), failures.without_folders(key))


def load_chosen() -> None:
    """Ask the engine for the sidebar's model and device; a name that cannot be one becomes a notice."""
    try:
        registry.find(str(state.get(state.MODEL)))
        resources.engine().load_model(state.get(state.MODEL), state.get(state.DEVICE))
    except EngineError as error:
        state.notify(error.info)


def chosen_status() -> ModelStatus:
    return resources.engine().model_status(state.get(state.MODEL), state.get(state.DEVICE))


def _standing(drawn: str) -> None:
    """One line about the model, and the way out where it failed. When it arrives or fails, the whole page is drawn once."""
    status = chosen_status()
    if status.state != drawn:
        st.rerun()
    if status.state == "ready" and status.info is not None:
        _ready(status.info)
    elif status.state == "failed" and status.error is not None:
        _failed(status)
    elif status.state == "loading":
        _loading(status)
    else:
        _absent()


def _ready(info: ModelInfo) -> None:
    size = f"{info.parameters / 1e6:,.0f} M"
    st.caption(t("shell.model_ready", dtype=info.dtype, device=info.device, parameters=size))
    with st.expander(t("shell.measured_here", dtype=info.dtype), icon=":material/speed:", key="measured_here"):
        trials = " · ".join(f"{dtype} {numbers.milliseconds(seconds)}" for dtype, seconds in info.dtype_trials.items())
        st.caption(t("shell.dtype_trials", trials=trials) if trials else t("shell.dtype_untimed"))
        st.caption(t("shell.threads", prefill=info.prefill_threads, decode=info.decode_threads))
        st.markdown(panels.badge("measured"))


def _absent() -> None:
    """Nobody has asked for it in this session: another session may be using the room. A name that cannot be one is said to be."""
    try:
        registry.find(str(state.get(state.MODEL)))
    except EngineError as error:
        st.error(failures.explain(error.info))
    else:
        st.caption(f":material/schedule: {t('shell.model_absent')}")


def _loading(status: ModelStatus) -> None:
    """How far it has come; asked again with every beat."""
    stage = t(f"shell.stage_{status.stage}") if status.stage else t("shell.stage_waiting")
    share = min(status.done / status.total, 1.0) if status.total else 0.0
    amount = f" · {numbers.mebibytes(status.done)} / {numbers.mebibytes(status.total)}" if status.total else ""
    with st.container(gap=None):
        st.progress(share, text=stage + amount)
        pulse(key="model_pulse", every_s=POLL_S)


def _failed(status: ModelStatus) -> None:
    if status.error is not None and status.error.code == "terms_not_accepted":
        st.caption(t("shell.terms_needed"))
        st.button(t("shell.terms_open"), key="terms_open", on_click=state.open_terms, width="stretch")
        return
    st.error(failures.explain(status.error))
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
        st.error(failures.explain(error.info))
        return
    with st.container(height=380):
        st.text(words)
    if st.button(t("shell.terms_accept"), type="primary"):
        try:
            resources.engine().accept_terms(name)
        except EngineError as error:
            st.error(failures.explain(error.info))
            return
        load_chosen()
        st.rerun()
