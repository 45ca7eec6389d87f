"""The notes as a grid, and one cell of them opened.

Knows a run's snapshot and the words; does not know which page it stands on.
"""

from __future__ import annotations

from engine.trace import RunView
from ui import numbers, panels, state
from ui.components.notes import notes
from ui.state import t


def show(view: RunView) -> None:
    """Draw the section."""
    with panels.card("notes", stretch=True):
        panels.card_title(t("decode.notes"), "measured" if view.prefill else None, t("decode.notes_note"))
        notes(**panels.live(view), **numbers.notes_formula(view), labels=state.labels("notes"), key="decode_notes")
