"""One step opened up as a chain of six panels, with its time to scale. Knows its labels; drawn in the browser."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ui.components.mount import SHARED_LABELS, live_data, register

LABELS = (
    *SHARED_LABELS,
    "step_all",
    "step_append",
    "step_bar",
    "step_between",
    "step_blank",
    "step_by_hand",
    "step_choose",
    "step_columns",
    "step_computed",
    "step_drawn",
    "step_first",
    "step_forced",
    "step_greedy",
    "step_grown",
    "step_head",
    "step_head_first",
    "step_hidden",
    "step_in",
    "step_look",
    "step_looked",
    "step_looked_at",
    "step_matrices",
    "step_name",
    "step_none",
    "step_notes",
    "step_of",
    "step_own",
    "step_part_append",
    "step_part_forward",
    "step_part_head",
    "step_part_prefill",
    "step_part_read",
    "step_part_rest",
    "step_part_sample",
    "step_part_weights",
    "step_position",
    "step_rank",
    "step_read",
    "step_unseen",
    "step_unsplit",
)
WEIGHT_DIGITS = 5  # behind the point, as on the token strip

_render = register("step")


def step(
    *,
    run_id: str | None,
    path: str,
    key: str,
    labels: Mapping[str, str],
    cursor: int | None = None,
    windows: Sequence[int | None] | None = None,
    layer_token_bytes: int | None = None,
    weights_read_bytes: int | None = None,
    greedy: bool = True,
    sees: bool = True,
    looked: int | None = None,
    weights: Sequence[float] | None = None,
) -> None:
    """Mount it. `cursor` k shows the step that wrote generated token k; None follows the run.

    `windows`, `layer_token_bytes` and `weights_read_bytes` as for the notes. `greedy`: tokens are not drawn.
    `sees`: whether this run's attention can be seen at all; `weights`: how the
    step that wrote generated token `looked` read the notes, by position. Without them the channel's own glances are shown.
    """
    thick = None if weights is None else [round(float(weight), WEIGHT_DIGITS) for weight in weights]
    glance = None if thick is None or looked is None else {"index": looked, "weights": thick}
    notes = {"windows": None if windows is None or layer_token_bytes is None else list(windows), "layer_token_bytes": layer_token_bytes}
    own = {"weights_read_bytes": weights_read_bytes, "greedy": greedy, "sees": sees, "glance": glance}
    _render(key=key, data=live_data(run_id, path, cursor, LABELS, labels, **notes, **own))
