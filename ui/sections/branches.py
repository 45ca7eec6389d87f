"""The branches of the run as a small tree.

Knows a run's snapshot and the words; does not know which page it stands on.
"""

from __future__ import annotations

from engine.trace import RunView
from ui import panels, state
from ui.components.candidates import candidates
from ui.state import t


def show(view: RunView) -> None:
    """Draw the section."""


def candidates_card(view: RunView) -> None:
    """What could have come next; another candidate can be chosen."""
    with panels.card("next", stretch=True):
        panels.card_title(t("decode.next"), "measured" if view.prefill else None, t("decode.next_note"))
        candidates(**panels.live(view), labels=state.labels("candidates"), key="decode_candidates")
