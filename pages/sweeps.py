"""Longer papers: how the first-token wait grows with the prompt, and the time per token with what has been read."""

from ui import panels
from ui.sections import calibration, sweeps

panels.head("sweeps")

# 1 · the sweep: progress, points, fit
sweeps.show()

# 2 · what this machine can do
calibration.show()
panels.how(
    "sweeps",
    ("engine/experiments/ttft_over_length.py", "first_token_s"),
    ("engine/experiments/tpot_over_context.py", "tpot_over_context"),
    ("engine/measure/fit.py", "fit"),
)
panels.go_on("records")
