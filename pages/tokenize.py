"""Station 1: text becomes pieces, pieces become numbers."""

import streamlit as st

from ui import panels, state
from ui.components.token_strip import token_strip
from ui.sections import counting, cutting, wrapping
from ui.state import t

panels.head("tokenize")
view = panels.window_on_run("tokenize")
if view is None:
    st.stop()

# 1 · the picture: one chip per token
with panels.card("strip"):
    panels.card_title(t("tokenize.strip"), "measured", t("tokenize.strip_note"))
    token_strip(**panels.live(view), show="prompt", tokens=None, labels=state.labels("token_strip"), key="tokenize_strip")

# 2 · what was added to the reader's words
wrapping.show(view)

# 3 · how a word is cut
cutting.show(view)

# 4 · predict, then check; the numbers; the same sentence in two languages
counting.show(view)

# 5 · how it is done
panels.how(
    "tokenize",
    ("engine/generate/tokens.py", "encode"),
    ("engine/generate/merges.py", "_cut_word"),
    ("engine/generate/rules.py", "MergeRules.best"),
)
panels.go_on("prefill")
