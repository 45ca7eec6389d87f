"""Station 2: the whole paper in one reading; notes are taken, the first token is read off."""

import streamlit as st

from engine.trace import RunStatus
from ui import numbers, panels, state
from ui.components.clock import clock
from ui.sections import attention, lens, links, reading, traits
from ui.state import t

panels.head("prefill")
view = panels.window_on_run("prefill")
if view is None:
    st.stop()
links.preset(view)

# 1 · the reading itself, all tokens at once
if view.prefill is None and view.status == RunStatus.ENDED:
    panels.ending(view)
    st.stop()
reading.show(view)
if view.prefill is None or view.model is None:
    st.caption(f":material/hourglass_empty: {t('prefill.waiting')}")
    st.stop()

# 2 · predict, then check
done = view.prefill
parts = {"queue": done.queue_s, "tokenize": done.template_s + done.tokenize_s, "pass": done.prefill_s, "sample": done.sample_s}
longest = max(parts, key=parts.__getitem__)
check = t("prefill.check", **{name: numbers.milliseconds(value) for name, value in parts.items()})
panels.predict("prefill", tuple(parts), longest, check)

# 3 · who reads whom, what a word refers to, and what came of it
attention.show(view)
links.show(view)
lens.show(view)

# 4 · the first-token wait, to scale, and the four traits of this reading
with panels.card("clock"):
    panels.card_title(t("prefill.clock"), "measured", t("prefill.clock_note"))
    clock(**panels.live(view), labels=state.labels("clock"), key="prefill_clock")
traits.show(view)

panels.how(
    "prefill",
    ("engine/generate/stepper.py", "Stepper.read"),
    ("engine/model/attention.py", "LayerStates.link"),
    ("engine/generate/lens.py", "lens_rows"),
    ("engine/kv/sizes.py", "kv_bytes"),
)
panels.go_on("decode")
