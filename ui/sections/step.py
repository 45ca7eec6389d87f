"""One step opened up: what goes in, what is read, what comes out, and what it would have cost without the notes.

Knows a run's snapshot and the words; does not know which page it stands on.
"""

from __future__ import annotations

from engine.trace import RunView
from ui import panels, state
from ui.components.token_strip import token_strip
from ui.state import t


def show(view: RunView) -> None:
    """Draw the section."""
    with panels.card("strip"):
        panels.card_title(t("decode.strip"), "measured", t("decode.strip_note"))
        token_strip(**panels.live(view), show="all", tokens=None, labels=state.labels("token_strip"), key="decode_strip")
