"""The live part of the transport bar: how much is read and written; it says when the run has moved on. Drawn in the browser."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from engine.serve.protocol import Snapshot
from ui.components.mount import SHARED_LABELS, live_data, register

LABELS = (
    *SHARED_LABELS,
    "progress_counts",
    "progress_cursor",
    "progress_cut",
    "progress_down",
    "progress_ended",
    "progress_gone",
    "progress_name",
    "progress_none",
    "progress_paused",
    "progress_queued",
    "progress_read",
    "progress_refused",
    "progress_running",
)

_render = register("progress")


@dataclass(frozen=True, slots=True)
class ProgressResult:
    """What the browser reported.

    `moved`: set in the one rerun after the run differs from `known`. `channel`: None until it first fails, then "down", and "open" once it
    works again; "gone" (nobody knows the run) and "refused" (this page may not listen) are for good.
    """

    moved: Mapping[str, Any] | None
    channel: Literal["open", "down", "gone", "refused"] | None


def progress(
    *,
    run_id: str | None,
    path: str,
    key: str,
    labels: Mapping[str, str],
    known: Mapping[str, Any],
    cursor: int | None = None,
    fallback: Snapshot | Mapping[str, Any] | None = None,
    on_moved: Callable[[], None] = lambda: None,
    recording: bool = False,
    pace_s: float = 0.0,
    on_looked: Callable[[], None] = lambda: None,
) -> ProgressResult:
    """Mount it. `known`: what this script run shows, as {"status": str | None, "tokens": bool, "prefill": bool, "generated": int | None,
    "dark": bool} or part of it (`generated` only while the run is paused or has ended); what is not in it calls for no new picture.

    `fallback`: a snapshot of the run, used by all components of the page while the channel is down (polling).

    `recording`: Play and the steps of the bar play what was written, in the browser, no faster than `pace_s`; `on_looked` is called where
    that comes to rest, with {"run", "cursor"} in `looked` under `key`.
    """
    snapshot = None if fallback is None else msgspec.to_builtins(fallback)
    result = _render(
        key=key,
        data=live_data(run_id, path, cursor, LABELS, labels, known=dict(known), fallback=snapshot, recording=recording, pace_s=pace_s),
        default={"channel": None},
        on_channel_change=lambda: None,
        on_moved_change=on_moved,
        on_looked_change=on_looked,
    )
    return ProgressResult(moved=result.moved, channel=result.channel)
