"""When a picture that stands still may ask the engine."""

from __future__ import annotations

import pytest

from engine.trace import RunSettings, RunStatus, RunView
from ui import looking


@pytest.mark.parametrize(
    ("status", "moves"),
    [(RunStatus.QUEUED, True), (RunStatus.RUNNING, True), (RunStatus.PAUSED, False), (RunStatus.ENDED, False)],
)
def test_a_run_that_waits_for_its_turn_is_about_to_move(status: RunStatus, moves: bool) -> None:
    """A new branch has its stem's tokens at once and no notes of its own yet."""
    view = RunView("r", "why?", RunSettings(), "m", "today", status, None, (), None, (), None, None)
    assert looking.moving(view) is moves
