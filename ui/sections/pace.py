"""Feel the speed: the same answer streamed at a first-token wait and a time per token of the reader's choice.

Knows a run's snapshot and the words; does not know which page it stands on.
"""

from __future__ import annotations

import streamlit as st

from engine.trace import RunView
from ui import panels, state
from ui.components.pace import pace
from ui.state import t

TTFT_MOST_S, TPOT_LEAST_MS, TPOT_MOST_MS = 10.0, 20, 500
TTFT_FIRST_S, TPOT_FIRST_MS = 1.0, 100  # before the reader chooses: the slow ends of what is comfortable
PRESETS_MS = ("20", "50", "100", "200")


def show(view: RunView) -> None:
    """Draw the section."""
    if state.get(state.FEEL_TTFT) is None:
        state.put(state.FEEL_TTFT, TTFT_FIRST_S)
    if state.get(state.FEEL_TPOT) is None:
        state.put(state.FEEL_TPOT, TPOT_FIRST_MS)
    with panels.card("pace"):
        panels.card_title(t("pace.title"), "illustrative", t("pace.note"), anchor="feel")
        st.caption(t("pace.what"))
        _dials()
        pace(
            **panels.live(view),
            ttft_s=float(state.get(state.FEEL_TTFT)),
            tpot_s=int(state.get(state.FEEL_TPOT)) / 1000,
            labels=state.labels("pace"),
            key="marks_pace",
        )


def _dials() -> None:
    """The two sliders, and four speeds to begin with."""
    left, right = st.columns(2)
    with left:
        st.slider(t("pace.ttft"), 0.0, TTFT_MOST_S, step=0.1, format="%.1f s", key=state.FEEL_TTFT, persist_state="session")
    with right:
        st.slider(t("pace.tpot"), TPOT_LEAST_MS, TPOT_MOST_MS, step=10, format="%d ms", key=state.FEEL_TPOT, persist_state="session")
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.caption(t("pace.presets"), width="content")
        for number in PRESETS_MS:
            st.button(t("pace.preset", n=number), key=f"pace_{number}", help=t(f"pace.preset_{number}"), on_click=_choose, args=(number,))


def _choose(number: str) -> None:
    state.put(state.FEEL_TPOT, int(number))
