"""The most likely next tokens of the step at the cursor and the drawn one, as bars. Knows its labels; drawn in the browser."""

from __future__ import annotations

from collections.abc import Mapping

from ui.components.mount import SHARED_LABELS, live_data, register

LABELS = (
    *SHARED_LABELS,
    "candidates_drawn",
    "candidates_greedy",
    "candidates_head",
    "candidates_id",
    "candidates_model",
    "candidates_name",
    "candidates_none",
    "candidates_sampled",
)

_render = register("candidates")


def candidates(
    *,
    run_id: str | None,
    path: str,
    key: str,
    labels: Mapping[str, str],
    cursor: int | None = None,
) -> None:
    """Mount it. `cursor` k shows the state after generated token k; None follows the run."""
    _render(key=key, data=live_data(run_id, path, cursor, LABELS, labels))
