"""One answer streamed on two sheets: at the measured times and at chosen ones. Knows its labels; drawn and timed in the browser."""

from __future__ import annotations

from collections.abc import Mapping

from ui.components.mount import SHARED_LABELS, live_data, register

LABELS = (
    *SHARED_LABELS,
    "pace_again",
    "pace_characters",
    "pace_chosen",
    "pace_done",
    "pace_measured",
    "pace_name",
    "pace_none",
    "pace_over",
    "pace_pending",
    "pace_start",
    "pace_stop",
    "pace_stopped",
    "pace_time",
    "pace_times",
    "pace_waiting",
    "pace_words",
)

_render = register("pace")


def pace(
    *, run_id: str | None, path: str, key: str, labels: Mapping[str, str], ttft_s: float, tpot_s: float, cursor: int | None = None
) -> None:
    """Mount it. `ttft_s`, `tpot_s`: the chosen seconds up to the first token and from each to the next; they may change while it plays.

    It streams the whole run whatever `cursor` says, which only keeps it in step with the other pictures.
    """
    _render(key=key, data=live_data(run_id, path, cursor, LABELS, labels, ttft_s=ttft_s, tpot_s=tpot_s))
