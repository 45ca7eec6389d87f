"""What was added to the reader's words: three stages of one prompt, literal. Knows its labels; drawn in the browser."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from engine.trace import Token
from ui.components.mount import live_data, register

LABELS = (
    "wrapping_bare",
    "wrapping_ids",
    "wrapping_more",
    "wrapping_prompt",
    "wrapping_system",
    "wrapping_template",
    "wrapping_typed",
    "wrapping_whole",
)
MOST_IDS = 96  # written in full; the others are counted
Role = Literal["prompt", "template", "system"]

_render = register("wrapping")


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of the prompt with one author: the reader, the template, or whoever wrote the system prompt. `special`: a control token."""

    raw: bytes
    role: Role
    special: bool = False


def wrapping(*, key: str, labels: Mapping[str, str], parts: Sequence[Part], tokens: Sequence[Token]) -> None:
    """Mount it. `parts` joined are the whole prompt, `tokens` its tokens; of these the first MOST_IDS are written in full."""
    written = [{"id": token.id, "role": token.kind} for token in tokens[:MOST_IDS]]
    told = [{"raw": base64.b64encode(part.raw).decode(), "role": part.role, "special": part.special} for part in parts]
    _render(key=key, data=live_data(None, "", None, LABELS, labels, parts=told, tokens=written, total=len(tokens)))
