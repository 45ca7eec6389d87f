"""The mark sheet: the wall clock of this run, its memory, and what such times feel like."""

import streamlit as st

from ui import panels
from ui.sections import live_charts, memory, pace

panels.head("marks")
view = panels.window_on_run("marks")
if view is None:
    st.stop()

# 1 · the clock and the charts, drawn as the run plays
live_charts.show(view)

# 2 · who holds the memory
memory.show(view)

# 3 · what such times feel like
pace.show(view)
panels.how("marks", ("engine/measure/latency.py", "summarize"))
panels.go_on("sweeps")
