"""The most likely next tokens of the step at the cursor and the drawn one, as bars. Knows its labels; drawn in the browser."""

from __future__ import annotations

from ui.components.mount import SHARED_LABELS, run_picture

LABELS = (
    *SHARED_LABELS,
    "candidates_drawn",
    "candidates_greedy",
    "candidates_head",
    "candidates_id",
    "candidates_model",
    "candidates_name",
    "candidates_none",
    "candidates_sampled",
)

candidates = run_picture("candidates", LABELS)
