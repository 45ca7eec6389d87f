"""Station 3: the answer, one token at a time, with the notes growing beside it."""

import statistics

import streamlit as st

from ui import looking, numbers, panels, state
from ui.components.answer import answer
from ui.components.clock import clock
from ui.components.meters import meters
from ui.sections import branches, cells, contents, endings, stages, step, timeline
from ui.state import t

panels.head("decode")
view = panels.window_on_run("decode")
if view is None:
    st.stop()
run = panels.live(view)
with panels.slot():
    panels.little_room(view)
contents.show(view)

# 1 · the answer grows
with panels.card("answer"):
    panels.card_title(t("decode.answer"), None, t("decode.answer_note"))
    answer(**run, labels=state.labels("answer"), key="decode_answer")
    panels.ending(view, told=True)
    st.caption(t("decode.loop"))
timeline.show(view)

# 2 · the notes, and what may come next
left, right = st.columns([3, 2])
with left:
    cells.show(view)
with right:
    branches.candidates_card(view)

# 3 · one step, opened up; how its token was chosen; what else might have been written
step.show(view)
stages.show(view)
branches.show(view)

# 4 · the clock
with panels.card("meters"):
    panels.card_title(t("decode.meters"), looking.vouched(view), t("decode.meters_note"), anchor="clock")
    meters(**run, **numbers.notes_formula(view), labels=state.labels("meters"), key="decode_meters")
    clock(**run, labels=state.labels("clock"), key="decode_clock")
    at = looking.index_shown(view)
    shown = None if at is None else view.steps[at - 1] if at else view.prefill
    if shown and view.model and not looking.moving(view):  # the numbers beside their formula: they stand still
        panels.formula_check(view.model, shown.kv_tokens, shown.kv_bytes)

# 5 · every way to end
endings.show(view)

# 6 · predict, then check: are late tokens slower than early ones?
third = len(view.steps) // 3
early = statistics.median(step.busy_s for step in view.steps[:third]) if third >= 4 else 0.0
late = statistics.median(step.busy_s for step in view.steps[-third:]) if third >= 4 else 0.0
change = late / early if early else None
panels.predict(
    "decode",
    ("slower", "same", "faster"),
    None if change is None else "same" if 0.85 <= change <= 1.15 else "slower" if change > 1.15 else "faster",
    t("decode.check", early=numbers.milliseconds(early), late=numbers.milliseconds(late)),
)
panels.how("decode", ("engine/generate/decode.py", "write_next"), ("engine/generate/stepper.py", "Stepper.advance"))
panels.go_on("detokenize")
