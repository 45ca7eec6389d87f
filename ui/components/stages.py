"""How one token was chosen: candidates by stages, and the ruler of the draw. Knows its labels; drawn in the browser."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from engine.findings import Stages
from ui.components.mount import live_data, register

LABELS = (
    "live_measured",
    "stages_best",
    "stages_candidate",
    "stages_computed",
    "stages_flatter",
    "stages_id",
    "stages_idle",
    "stages_kept",
    "stages_kept_there",
    "stages_likely",
    "stages_likely_gloss",
    "stages_logit",
    "stages_logit_gloss",
    "stages_name",
    "stages_note",
    "stages_note_idle",
    "stages_off",
    "stages_others",
    "stages_piece",
    "stages_pin",
    "stages_ruler",
    "stages_same",
    "stages_sharper",
    "stages_tempered",
    "stages_top_k",
    "stages_top_p",
    "stages_unused",
    "stages_would",
    "stages_written",
)

_render = register("stages")


def stages(*, key: str, labels: Mapping[str, str], found: Stages, own: bool) -> None:
    """Mount it. `own`: these are the run's own settings, so that every stage was really gone through."""
    _render(key=key, data=live_data(None, "", None, LABELS, labels, found=msgspec.to_builtins(found), own=own))
