"""Feel the speed: the same answer streamed at a first-token wait and a time per token of the reader's choice.

Knows a run's snapshot and the words; does not know which page it stands on.
"""

from __future__ import annotations

from engine.trace import RunView


def show(view: RunView) -> None:
    """Draw the section."""
