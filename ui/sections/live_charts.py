"""The run on the clock and its charts, fed by the live channel: the timeline, ITL with TPOT, KV bytes, memory.

Knows a run's snapshot and the words; does not know which page it stands on.
"""

from __future__ import annotations

from engine.trace import RunView


def show(view: RunView) -> None:
    """Draw the section."""
