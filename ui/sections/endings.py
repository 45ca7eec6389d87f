"""The ways in which an exam ends, each brought about on purpose.

Knows a run's snapshot and the words; does not know which page it stands on.
"""

from __future__ import annotations

from engine.trace import RunView


def show(view: RunView) -> None:
    """Draw the section."""
