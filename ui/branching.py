"""Branches of the session's run: going on with another token, and switching between what was written.

Knows the client and the session; does not know how branches are drawn.
"""

from __future__ import annotations

from engine.errors import EngineError
from engine.trace import RunView
from ui import resources, state


def branch(index: int, token_id: int) -> None:
    """Go on from generated token `index` with another one in its place: a new branch becomes the current run. For callbacks; a refusal
    becomes the notice of the next picture."""
    view = state.current_view()
    if view is None:
        return
    try:
        ticket = resources.engine().branch(view.run_id, state.run_key(), index, token_id, session=state.session_id(), pace_s=state.pace_s())
    except EngineError as error:
        state.notify(error.info)
        return
    state.switch(ticket.run_id, ticket.key)


def switch(run_id: str) -> None:
    """Look at another branch; whoever may steer one may steer all."""
    state.switch(run_id, state.run_key())


def family(view: RunView) -> tuple[RunView, ...]:
    """The run and all its branches: the one that all began with first, then as they were made."""
    return resources.engine().family(view.run_id)
