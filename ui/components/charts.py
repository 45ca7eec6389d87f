"""One of three charts of a run, drawn in the browser as it plays: times from token to token, the notes in bytes, memory by owner.

Knows its labels, the resting figures' template and where plotly.js is; does not know what a chart says of a run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Literal

from ui import comfort, plotly_script, theme
from ui.components.mount import SHARED_LABELS, live_data, register

Chart = Literal["intervals", "notes", "owners"]
LABELS = (
    *SHARED_LABELS,
    "charts_axis_ms",
    "charts_axis_s",
    "charts_axis_token",
    "charts_band",
    "charts_band_characters",
    "charts_band_says",
    "charts_band_words",
    "charts_comfort",
    "charts_computed",
    "charts_few",
    "charts_formula",
    "charts_formula_bytes",
    "charts_from_nvml",
    "charts_from_process",
    "charts_from_system",
    "charts_from_tensors",
    "charts_from_torch",
    "charts_itl_faster",
    "charts_itl_none",
    "charts_itl_slower",
    "charts_itl_waited",
    "charts_itl_within",
    "charts_jump",
    "charts_jump_short",
    "charts_memory_gaps",
    "charts_memory_hidden",
    "charts_memory_known",
    "charts_memory_none",
    "charts_memory_of",
    "charts_memory_says",
    "charts_missing",
    "charts_noted",
    "charts_notes",
    "charts_notes_differ",
    "charts_notes_equal",
    "charts_notes_grow",
    "charts_notes_jump",
    "charts_notes_none",
    "charts_notes_plain",
    "charts_others",
    "charts_points",
    "charts_points_bytes",
    "charts_queries",
    "charts_rest",
    "charts_table",
    "charts_thinned",
    "charts_tpot",
    "charts_tpot_ms",
    "charts_unknown",
    "charts_wait",
    "charts_wait_ms",
    "charts_weights",
    "charts_work",
    "charts_work_ms",
)

_render = register("charts")


def charts(
    *,
    run_id: str | None,
    path: str,
    key: str,
    labels: Mapping[str, str],
    chart: Chart,
    cursor: int | None = None,
    windows: Sequence[int | None] | None = None,
    layer_token_bytes: int | None = None,
) -> None:
    """Mount one. `cursor` k shows the state after generated token k; None follows the run.

    `windows` and `layer_token_bytes` as for the notes: the formula beside the measured bytes.
    """
    own: dict[str, Any] = {"chart": chart, "script": plotly_script.path(), "templates": templates()}
    own["comfort_ms"] = [round(seconds * 1000) for seconds in comfort.TPOT_S]
    own |= {"windows": None if windows is None or layer_token_bytes is None else list(windows), "layer_token_bytes": layer_token_bytes}
    _render(key=key, data=live_data(run_id, path, cursor, LABELS, labels, **own))


@cache
def templates() -> Mapping[str, Any]:
    """The one Plotly template as data, for both themes: a switch in the browser needs no word from here."""
    return {kind: theme.template(theme.palette(kind)).to_plotly_json() for kind in ("light", "dark")}
