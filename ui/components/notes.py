"""The notes (KV cache) as a grid of layers and tokens, with its measured bytes beside their formula. Drawn in the browser."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ui.components.mount import SHARED_LABELS, live_data, register

LABELS = (
    *SHARED_LABELS,
    "notes_alt",
    "notes_cell",
    "notes_cell_blank",
    "notes_cell_gone",
    "notes_cell_read",
    "notes_computed",
    "notes_differs",
    "notes_faded",
    "notes_future",
    "notes_hidden",
    "notes_hint",
    "notes_light",
    "notes_lit",
    "notes_lit_all",
    "notes_lit_one",
    "notes_lit_sink",
    "notes_newest",
    "notes_none",
    "notes_pass",
    "notes_pass_parts",
    "notes_size",
    "notes_step",
    "notes_step_parts",
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
    weights_read_bytes: int | None = None,
    glance: tuple[int, np.ndarray] | None = None,
    unlit: str | None = None,
    pace_s: float = 0.0,
    opened: tuple[int, int] | None = None,
    on_opened: Callable[[], None] | None = None,
) -> None:
    """Mount it. `cursor` k shows the state after generated token k; None follows the run.

    `windows`: per layer, how many tokens it reads, the one that comes in included (None: all); `layer_token_bytes`: bytes of one layer and
    token. The tick appears where measured bytes == Σ over layers of min(tokens, window - 1) * layer_token_bytes; with None only the
    measured bytes are shown. `weights_read_bytes`: what every step reads besides. None: nothing is said of what a step reads.

    With `on_opened` its cells can be opened, and columns are lit. A click or Enter is a trigger: `on_opened` finds {"run", "layer",
    "position"} under the mounted key's `opened`. `opened`: the cell (layer, position) that is open. `glance`: (index, float32 [tokens])
    how the step that wrote generated token `index` read; shown while that token is the newest one on screen. `unlit`: why there is none,
    in words. `pace_s` > 0: the run is played in slow motion, so there is time to watch a column being written.
    """
    light = None if glance is None else {"index": glance[0], "weights": packed(glance[1])}
    cell = None if opened is None else {"layer": opened[0], "position": opened[1]}
    own: dict[str, Any] = {"opens": on_opened is not None, "glance": light, "unlit": unlit, "pace_s": pace_s, "opened": cell}
    own |= {"windows": None if windows is None else list(windows), "layer_token_bytes": layer_token_bytes}
    own["weights_read_bytes"] = weights_read_bytes
    _render(key=key, data=live_data(run_id, path, cursor, LABELS, labels, **own), on_opened_change=on_opened or (lambda: None))


def packed(numbers: np.ndarray) -> str:
    """float32 numbers of any shape, little-endian, in order, as base64."""
    return base64.b64encode(np.ascontiguousarray(numbers, "<f4").tobytes()).decode()
