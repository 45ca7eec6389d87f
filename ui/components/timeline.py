"""Time travel: a slider over the tokens of the answer, and a replay of them. Knows its labels; drawn in the browser."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ui.components.mount import SHARED_LABELS, live_data, register

LABELS = (
    *SHARED_LABELS,
    "timeline_first",
    "timeline_fork",
    "timeline_help",
    "timeline_name",
    "timeline_none",
    "timeline_now",
    "timeline_own",
    "timeline_pause",
    "timeline_place",
    "timeline_play",
    "timeline_resume",
    "timeline_speed",
    "timeline_took",
)

_render = register("timeline")


def timeline(
    *,
    run_id: str | None,
    path: str,
    key: str,
    labels: Mapping[str, str],
    speeds: Sequence[tuple[str, str, float]],
    speed: str,
    forks: Sequence[int] = (),
    cursor: int | None = None,
    on_looked: Callable[[], None] = lambda: None,
) -> None:
    """Mount it. `speeds`: (name, words, least seconds from one token to the next); `speed`: the one that a replay begins with.

    `forks`: generated tokens at which branches left this run. Moving the hand moves all pictures in the browser; where it comes to rest
    is a trigger: `on_looked` finds {"run": run id, "cursor": generated token | None} under the mounted key's `looked`.
    """
    own = {"speeds": [list(each) for each in speeds], "speed": speed, "forks": list(forks)}
    _render(key=key, data=live_data(run_id, path, cursor, LABELS, labels, **own), on_looked_change=on_looked)
