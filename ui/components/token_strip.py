"""The token strip: one chip per token, of a run or of a fixed list. Knows its labels; the picture is drawn in the browser."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from engine.trace import Token
from ui.components.mount import SHARED_LABELS, live_data, register

LABELS = (
    *SHARED_LABELS,
    "token_strip_brings",
    "token_strip_bytes",
    "token_strip_choose",
    "token_strip_hint",
    "token_strip_id",
    "token_strip_ids",
    "token_strip_later",
    "token_strip_name",
    "token_strip_none",
    "token_strip_open",
    "token_strip_position",
    "token_strip_reader",
    "token_strip_target",
    "token_strip_thick",
    "token_strip_weight",
    "token_strip_whole",
)
WEIGHT_DIGITS = 5  # behind the point: more than the picture shows, and a third of the way to the browser

_render = register("token_strip")


def token_strip(
    *,
    run_id: str | None,
    path: str,
    key: str,
    labels: Mapping[str, str],
    cursor: int | None = None,
    show: Literal["prompt", "all"] = "all",
    tokens: Sequence[Token] | Sequence[Mapping[str, Any]] | None = None,
    weights: Sequence[float] | None = None,
    reader: int | None = None,
    target: int | None = None,
    ids: bool = False,
    pick: bool = False,
    writing: bool = False,
    looked: int | None = None,
    on_picked: Callable[[], None] = lambda: None,
) -> int | None:
    """Mount it. `cursor` k shows the state after generated token k; None follows the run.

    `show`: the prompt alone, or the answer too. `tokens`: fixed tokens (Token, or its JSON as in the channel) instead of a run's.
    `weights`: how strongly the token at position `reader` reads each token, by position; drawn as underlines. `target`: the position that
    is looked at. `ids`: whether ids stand on the chips until the reader switches them. `pick`: a click, Enter or Space on a chip reports
    its position: returned in the one rerun after it, and there for `on_picked` as `state.get(key).picked`.

    `writing`: the strip follows the pen and shows what the step on screen looked at: `weights`, if they are of the step that wrote
    generated token `looked`, else what the channel tells in slow motion.
    """
    fixed = None if tokens is None else msgspec.to_builtins(list(tokens))
    thick = None if weights is None else [round(float(weight), WEIGHT_DIGITS) for weight in weights]
    links = {"weights": thick, "reader": reader, "target": target, "writing": writing, "looked": looked}
    data = live_data(run_id, path, cursor, LABELS, labels, show=show, tokens=fixed, ids=ids, pick=pick, **links)
    picked = _render(key=key, data=data, on_picked_change=on_picked).picked
    return picked if isinstance(picked, int) and picked >= 0 else None
