"""Longer papers: how the first-token wait grows with the prompt, and the time per token with what has been read."""

from ui import panels
from ui.sections import calibration, sweeps

panels.head("sweeps")

# 1 · the sweep: progress, points, fit
sweeps.show()

# 2 · what this machine can do
calibration.show()
panels.how("sweeps", ("engine/run.py", "Run.prefill"))
panels.go_on("records")
