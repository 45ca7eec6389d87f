"""The run on the clock, to scale: queue, template, tokenize, prefill, first sample, each decode step. Drawn in the browser."""

from __future__ import annotations

from collections.abc import Mapping

from ui.components.mount import SHARED_LABELS, live_data, register

LABELS = (
    *SHARED_LABELS,
    "clock_alt",
    "clock_decode",
    "clock_none",
    "clock_prefill",
    "clock_queue",
    "clock_sample",
    "clock_template",
    "clock_tokenize",
    "clock_wait",
)

_render = register("clock")


def clock(
    *,
    run_id: str | None,
    path: str,
    key: str,
    labels: Mapping[str, str],
    cursor: int | None = None,
) -> None:
    """Mount it. `cursor` k shows the state after generated token k; None follows the run."""
    _render(key=key, data=live_data(run_id, path, cursor, LABELS, labels))
