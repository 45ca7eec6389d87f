"""Station 1: text becomes pieces, pieces become numbers."""

import streamlit as st

from ui import numbers, panels, state
from ui.components.token_strip import token_strip
from ui.state import t

panels.head("tokenize")
view = panels.window_on_run("tokenize")
if view is None:
    st.stop()

# 1 · the picture: one chip per token
with panels.card("strip"):
    panels.card_title(t("tokenize.strip"), "measured", t("tokenize.strip_note"))
    token_strip(**panels.live(view), show="prompt", tokens=None, labels=state.labels("token_strip"), key="tokenize_strip")

# 2 · predict, then check
typed = [token for token in view.tokens if token.kind == "prompt"]
template = len(view.tokens) - len(typed)
characters, size = len(view.prompt), len(view.prompt.encode("utf-8", "surrogatepass"))
counts = f"{len(typed):,} + {template:,}" if view.tokens else numbers.NOTHING
per_character = len(typed) / characters if characters else 0.0
panels.predict(
    "tokenize",
    ("few", "near", "more"),
    ("few" if per_character < 0.5 else "near" if per_character <= 1 else "more") if typed else None,
    t("tokenize.check", tokens=len(typed), characters=characters, ratio=f"{per_character:.2f}"),
)

# 3 · the numbers
panels.figures(
    [
        numbers.Figure(t("tokenize.characters"), f"{characters:,}", "measured"),
        numbers.Figure(t("tokenize.bytes"), f"{size:,}", "measured", t("tokenize.bytes_help")),
        numbers.Figure(t("tokenize.tokens"), counts, "measured", t("tokenize.tokens_help")),
        numbers.Figure(t("tokenize.ratio"), f"{per_character:.2f}" if typed else numbers.NOTHING, "computed", t("tokenize.ratio_help")),
        numbers.Figure(
            t("tokenize.time"),
            numbers.milliseconds(view.prefill.tokenize_s + view.prefill.template_s if view.prefill else None),
            "measured",
            t("tokenize.time_help"),
        ),
    ]
)
if view.settings.use_chat_template and template:
    st.markdown(t("tokenize.template", template=template, typed=len(typed)))
else:
    st.markdown(t("tokenize.raw"))

# 4 · how it is done
panels.how("tokenize", ("engine/generate/tokens.py", "encode"))
panels.go_on("prefill")
