"""The most likely next tokens of the step at the cursor and the drawn one, as bars; another one can be chosen. Drawn in the browser."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ui.components.mount import SHARED_LABELS, live_data, register

LABELS = (
    *SHARED_LABELS,
    "candidates_drawn",
    "candidates_forced",
    "candidates_greedy",
    "candidates_head",
    "candidates_held",
    "candidates_hint",
    "candidates_id",
    "candidates_model",
    "candidates_name",
    "candidates_none",
    "candidates_other",
    "candidates_partial",
    "candidates_reader",
    "candidates_reader_drawn",
    "candidates_sampled",
    "candidates_write",
)

_render = register("candidates")


def candidates(
    *,
    run_id: str | None,
    path: str,
    key: str,
    labels: Mapping[str, str],
    cursor: int | None = None,
    at: int | None = None,
    choosable: bool = False,
    on_chosen: Callable[[], None] = lambda: None,
) -> None:
    """Mount it. `cursor` k shows the state after generated token k; None follows the run. `at` k: always that of token k.

    `choosable`: rows that were not written are buttons. A choice is a trigger: `on_chosen` finds {"run": run id, "index": generated
    token, "id": the token to write instead} under the mounted key's `chosen`, as it stood in the picture that was clicked.
    """
    _render(key=key, data=live_data(run_id, path, cursor, LABELS, labels, at=at, choosable=choosable), on_chosen_change=on_chosen)
