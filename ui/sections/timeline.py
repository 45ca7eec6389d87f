"""Time travel: a slider over all that was written, and a replay at the measured pace.

Knows a run's snapshot and the words; does not know which page it stands on.
"""

from __future__ import annotations

from engine.trace import RunView


def show(view: RunView) -> None:
    """Draw the section."""
