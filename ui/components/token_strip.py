"""The token strip: one chip per token, of a run or of a fixed list. Knows its labels; the picture is drawn in the browser."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from engine.trace import Token
from ui.components.mount import SHARED_LABELS, live_data, register

LABELS = (*SHARED_LABELS, "token_strip_hint", "token_strip_name", "token_strip_none")

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
) -> None:
    """Mount it. `cursor` k shows the state after generated token k; None follows the run.

    `show`: the prompt alone, or the answer too. `tokens`: fixed tokens (Token, or its JSON as in the channel) instead of a run's.
    """
    fixed = None if tokens is None else msgspec.to_builtins(list(tokens))
    _render(key=key, data=live_data(run_id, path, cursor, LABELS, labels, show=show, tokens=fixed))
