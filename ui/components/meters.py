"""TTFT and its parts, TPOT, speed and KV bytes of a run, live. Definitions as in engine.measure.latency. Drawn in the browser."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ui.components.mount import SHARED_LABELS, live_data, register

LABELS = (
    *SHARED_LABELS,
    "meters_differs",
    "meters_equal",
    "meters_kv",
    "meters_mha",
    "meters_overall",
    "meters_percentiles",
    "meters_prefill",
    "meters_queue",
    "meters_rate",
    "meters_sample",
    "meters_speed",
    "meters_template",
    "meters_tokenize",
    "meters_tpot",
    "meters_ttft",
    "meters_two",
    "meters_waited",
)

_render = register("meters")


def meters(
    *,
    run_id: str | None,
    path: str,
    key: str,
    labels: Mapping[str, str],
    cursor: int | None = None,
    windows: Sequence[int | None] | None = None,
    layer_token_bytes: int | None = None,
) -> None:
    """Mount it. `cursor` k shows the state after generated token k; None follows the run.

    `windows` and `layer_token_bytes` as for the notes: the formula beside the measured bytes.
    """
    _render(
        key=key,
        data=live_data(
            run_id,
            path,
            cursor,
            LABELS,
            labels,
            windows=None if windows is None or layer_token_bytes is None else list(windows),
            layer_token_bytes=layer_token_bytes,
        ),
    )
