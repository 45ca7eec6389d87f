"""Station 4: per generated token id, bytes, text; unfinished characters wait. Knows its labels; drawn in the browser."""

from __future__ import annotations

from collections.abc import Mapping

from ui.components.mount import SHARED_LABELS, live_data, register

LABELS = (
    *SHARED_LABELS,
    "bytes_view_broken",
    "bytes_view_bytes",
    "bytes_view_dropped",
    "bytes_view_earlier",
    "bytes_view_id",
    "bytes_view_lost",
    "bytes_view_name",
    "bytes_view_none",
    "bytes_view_number",
    "bytes_view_text",
    "bytes_view_waiting",
    "bytes_view_waits",
)

_render = register("bytes_view")


def bytes_view(
    *,
    run_id: str | None,
    path: str,
    key: str,
    labels: Mapping[str, str],
    cursor: int | None = None,
    show_special: bool = False,
) -> None:
    """Mount it. `cursor` k shows the state after generated token k; None follows the run.

    `show_special` False: special tokens are crossed out, as in the finished text; True: they are kept.
    """
    _render(key=key, data=live_data(run_id, path, cursor, LABELS, labels, show_special=show_special))
