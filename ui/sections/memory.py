"""Who holds the memory: weights, notes, recorded queries, the rest of the engine, everybody else; each with its source.

Knows a run's snapshot and the words; does not know which page it stands on.
"""

from __future__ import annotations

from engine.trace import RunView


def show(view: RunView) -> None:
    """Draw the section."""
