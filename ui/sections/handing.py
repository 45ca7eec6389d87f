"""The text that a reader receives beside the raw answer.

Knows a run's snapshot and the words; does not know which page it stands on.
"""

from __future__ import annotations

import streamlit as st

from engine.trace import RunView
from ui import numbers, panels, state
from ui.state import t


def show(view: RunView) -> None:
    """Draw the section."""
    with panels.card("paper"):
        panels.card_title(t("detokenize.paper"))
        text = numbers.answer_text(view, special=bool(state.get(state.SHOW_SPECIAL)))
        st.text(text if text else t("detokenize.nothing"))
