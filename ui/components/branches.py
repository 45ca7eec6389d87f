"""The run and its branches as a tree of lines. Knows its labels; the picture is drawn in the browser."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ui.components.mount import SHARED_LABELS, live_data, register

LABELS = (
    *SHARED_LABELS,
    "branches_ended",
    "branches_kv",
    "branches_name",
    "branches_own",
    "branches_own_tpot",
    "branches_place",
    "branches_reread",
    "branches_running",
    "branches_tokens",
    "branches_tpot",
    "branches_ttft",
    "branches_waits",
)

_render = register("branches")


def tree(
    *,
    run_id: str | None,
    path: str,
    key: str,
    labels: Mapping[str, str],
    branches: Sequence[Mapping[str, Any]],
    cursor: int | None = None,
    on_chosen: Callable[[], None] = lambda: None,
) -> None:
    """Mount it. `branches` as ui.sections.branches.rows makes them: children after their parents, the later forks first. The run's own row
    grows with it.

    A choice is a trigger: `on_chosen` finds {"run": run id} under the mounted key's `chosen`.
    """
    _render(key=key, data=live_data(run_id, path, cursor, LABELS, labels, branches=list(branches)), on_chosen_change=on_chosen)
