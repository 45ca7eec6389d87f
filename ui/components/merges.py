"""How one word is cut: a ladder from single bytes to tokens, one merge rule per rung. Knows its labels; drawn in the browser."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from engine.findings import WordCut
from ui.components.mount import live_data, register

LABELS = (
    "merges_at",
    "merges_back",
    "merges_bar",
    "merges_begin",
    "merges_bytes",
    "merges_characters",
    "merges_end",
    "merges_first",
    "merges_name",
    "merges_on",
    "merges_pause",
    "merges_play",
    "merges_rule",
    "merges_step",
    "merges_tokens",
    "merges_whole",
)

_render = register("merges")


def merges(*, key: str, labels: Mapping[str, str], word: WordCut, rules: int) -> None:
    """Mount it. `rules`: how many merge rules the tokenizer has in all."""
    _render(key=key, data=live_data(None, "", None, LABELS, labels, word=msgspec.to_builtins(word), rules=rules))
