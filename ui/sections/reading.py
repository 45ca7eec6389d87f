"""Reading all at once: the pass over the prompt, layer by layer, to its measured time.

Knows a run's snapshot and the words; does not know which page it stands on.
"""

from __future__ import annotations

import streamlit as st

from engine.trace import RunView
from ui import panels, state
from ui.components.reading import reading
from ui.state import t


def show(view: RunView) -> None:
    """Draw the section; before the prompt has been read it is the sheet that waits."""
    with panels.card("reading"):
        panels.card_title(t("reading.title"), "measured" if view.prefill else None, t("reading.note"))
        reading(**panels.live(view), labels=state.labels("reading"), key="prefill_reading")
        st.caption(t("reading.gloss"))
