"""The pass over the prompt as tokens × layers, replayed to the measured time of every layer. Knows its labels; drawn in the browser."""

from __future__ import annotations

from ui.components.mount import SHARED_LABELS, run_picture

LABELS = (
    *SHARED_LABELS,
    "reading_bars",
    "reading_busy",
    "reading_cell",
    "reading_embedding",
    "reading_first",
    "reading_first_wait",
    "reading_in",
    "reading_name",
    "reading_none",
    "reading_of",
    "reading_pace_fast",
    "reading_pace_real",
    "reading_pace_slow",
    "reading_pause",
    "reading_play",
    "reading_real",
    "reading_resume",
    "reading_says",
    "reading_speed",
    "reading_thinned",
    "reading_time",
    "reading_uneven",
    "reading_untimed",
    "reading_value",
    "reading_waiting",
)

reading = run_picture("reading", LABELS)  # the cursor is of no effect: the prompt is read once, before the first token
