"""The run on the clock, to scale: queue, template, tokenize, prefill, first sample, each decode step. Drawn in the browser."""

from __future__ import annotations

from ui.components.mount import SHARED_LABELS, run_picture

LABELS = (
    *SHARED_LABELS,
    "clock_alt",
    "clock_decode",
    "clock_none",
    "clock_prefill",
    "clock_queue",
    "clock_sample",
    "clock_template",
    "clock_tokenize",
    "clock_wait",
)

clock = run_picture("clock", LABELS)
