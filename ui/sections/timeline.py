"""Time travel: a slider over all that was written, and a replay at the measured pace.

Knows a run's snapshot and the words; does not know which page it stands on.
"""

from __future__ import annotations

from engine.trace import RunView
from ui import branching, looking, panels, state
from ui.components.timeline import timeline
from ui.state import t


def show(view: RunView) -> None:
    """Draw the section."""
    with panels.card("timeline"):
        panels.card_title(t("timeline.title"), looking.vouched(view), t("timeline.note"), anchor="travel")
        timeline(
            **panels.live(view),
            speeds=[(name, t(f"shell.speed_{name}"), pace_s) for name, pace_s in state.SPEEDS.items()],
            speed=str(state.get(state.SPEED)),
            forks=forks(branching.family(view), view.run_id),
            labels=state.labels("timeline"),
            key=state.TIMELINE_PICKS,
            on_looked=_looked,
        )


def forks(family: tuple[RunView, ...], run_id: str) -> list[int]:
    """The generated tokens at which branches left run `run_id`, each once, in order."""
    return sorted({run.origin.index for run in family if run.origin is not None and run.origin.run_id == run_id})


def _looked() -> None:
    """The reader let go of the slider, or the replay came to rest: what Python draws follows. A word about another run is too late."""
    view, looked = state.current_view(), state.get(state.TIMELINE_PICKS).looked
    if view is None or not isinstance(looked, dict) or looked.get("run") != view.run_id:
        return
    cursor = state.whole(looked.get("cursor"))
    state.set_cursor(cursor if cursor is not None and 0 <= cursor < len(view.generated) else None)
