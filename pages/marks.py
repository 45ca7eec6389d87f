"""The mark sheet: the wall clock of this run, its memory, and what such times feel like."""

import streamlit as st

from ui import looking, numbers, panels
from ui.sections import live_charts, memory, pace
from ui.state import t

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

# 4 · predict, then check: how much of all the time was the wait for the first token?
latency = numbers.latency(view)
first_s = latency.ttft_s if latency and latency.ttft_s and not looking.moving(view) else None
whole_s = first_s + sum(latency.itl_s) if latency and first_s else None
share = first_s / whole_s if first_s and whole_s else None
panels.predict(
    "marks",
    ("little", "some", "most"),
    None if share is None else "little" if share < 0.1 else "some" if share <= 0.5 else "most",
    t("marks.check", ttft=numbers.milliseconds(first_s), whole=numbers.milliseconds(whole_s), share=f"{share or 0:.0%}"),
)
panels.how("marks", ("engine/measure/latency.py", "summarize"))
panels.go_on("sweeps")
