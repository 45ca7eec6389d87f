"""The notes (KV cache) as a grid of layers and tokens, with its measured bytes beside their formula. Drawn in the browser."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ui.components.mount import SHARED_LABELS, live_data, register

LABELS = (
    *SHARED_LABELS,
    "notes_alt",
    "notes_differs",
    "notes_faded",
    "notes_future",
    "notes_hidden",
    "notes_newest",
    "notes_none",
    "notes_size",
)

_render = register("notes")


def notes(
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

    `windows`: per layer, the most tokens it keeps (None: all); `layer_token_bytes`: bytes of one layer and token. The tick appears where
    measured bytes == Σ over layers of min(tokens, window) * layer_token_bytes; with None only the measured bytes are shown.
    """
    _render(
        key=key,
        data=live_data(
            run_id, path, cursor, LABELS, labels, windows=None if windows is None else list(windows), layer_token_bytes=layer_token_bytes
        ),
    )
