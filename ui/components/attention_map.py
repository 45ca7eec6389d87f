"""The attention map: rows read, columns are read, one cell per pair. Knows its labels; the picture is drawn in the browser."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from engine.trace import Token
from ui import weights as rows
from ui.components.mount import SHARED_LABELS, live_data, register

LABELS = (
    *SHARED_LABELS,
    "attention_map_cell",
    "attention_map_first",
    "attention_map_hint",
    "attention_map_key",
    "attention_map_later",
    "attention_map_link",
    "attention_map_name",
    "attention_map_outside",
    "attention_map_query",
    "attention_map_reads",
    "attention_map_row",
    "attention_map_scale",
    "attention_map_thinned",
    "attention_map_unshown",
    "attention_map_window",
)

_render = register("attention_map")


def attention_map(
    *,
    key: str,
    labels: Mapping[str, str],
    name: str,
    tokens: Sequence[Token],
    weights: np.ndarray,
    window: int | None = None,
    first_shown: bool = True,
    query: int | None = None,
    key_at: int | None = None,
    on_picked: Callable[[], None] = lambda: None,
) -> None:
    """Mount it. `weights`: float32 [rows, keys], the newest rows of a map; drawn are these rows and their own columns, whose `tokens` are
    given, one per row. `name`: which map it is, in words.

    `window`: cells so far or farther back are marked as outside it. `first_shown` False: the column of position 0 stays blank.
    `query`, `key_at`: positions of the row and the column that are picked. A pick by click or Enter is a trigger: `on_picked` finds
    {"query": position, "key": position | None} under the mounted key's `picked`. Raises ValueError where rows and tokens differ.
    """
    if len(tokens) != len(weights):
        raise ValueError(f"the map has {len(weights)} rows but {len(tokens)} tokens were given")
    own: dict[str, Any] = {"name": name, "window": window, "first_shown": first_shown, "query": query, "key_at": key_at}
    own |= {"tokens": msgspec.to_builtins(list(tokens)), "first": rows.first_row(weights)}
    own["triangle"] = base64.b64encode(rows.packed(weights)).decode()
    _render(key=key, data=live_data(None, "", None, LABELS, labels, **own), on_picked_change=on_picked)
