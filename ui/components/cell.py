"""One cell of the notes as a picture: the key and the value of every KV head. Knows its labels; the picture is drawn in the browser."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ui.components.mount import SHARED_LABELS, live_data, register
from ui.components.notes import packed

LABELS = (
    *SHARED_LABELS,
    "cell_down",
    "cell_figures",
    "cell_hint",
    "cell_key",
    "cell_number",
    "cell_scale",
    "cell_up",
    "cell_value",
)

_render = register("cell")


def cell(*, key: str, labels: Mapping[str, str], name: str, numbers: np.ndarray) -> None:
    """Mount it. `numbers`: float32 [2, kv_heads, head_dim], keys and values of one token in one layer. `name`: which cell, in words.

    Raises ValueError for numbers of another shape.
    """
    if numbers.ndim != 3 or numbers.shape[0] != 2:
        raise ValueError(f"a cell is [2, kv_heads, head_dim], but {list(numbers.shape)} was given")
    own = {"name": name, "numbers": packed(numbers), "heads": numbers.shape[1], "width": numbers.shape[2]}
    _render(key=key, data=live_data(None, "", None, LABELS, labels, **own))
