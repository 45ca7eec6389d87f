"""Station 4: numbers become bytes, bytes become text, and the paper is handed in."""

import streamlit as st

from engine.trace import RunStatus
from ui import numbers, panels, state
from ui.components.bytes_view import bytes_view
from ui.sections import handing
from ui.state import t

panels.head("detokenize")
view = panels.window_on_run("detokenize")
if view is None:
    st.stop()

# 1 · the picture: id → bytes → text
with panels.card("bytes"):
    panels.card_title(t("detokenize.bytes"), "measured", t("detokenize.bytes_note"))
    special = st.toggle(t("detokenize.special"), key=state.SHOW_SPECIAL, help=t("detokenize.special_help"), persist_state="session")
    bytes_view(**panels.live(view), show_special=special, labels=state.labels("bytes_view"), key="detokenize_bytes")

# 2 · what is handed in
handing.show(view)
panels.ending(view)

# 3 · the numbers
generated = view.generated
marks = sum(token.special for token in generated)
size = sum(len(token.raw) for token in generated if not token.special)
waiting = sum(1 for token in generated if not token.text and token.raw and not token.special)
panels.figures(
    [
        numbers.Figure(t("detokenize.tokens"), f"{len(generated) - marks:,} + {marks:,}", "measured", t("detokenize.tokens_help")),
        numbers.Figure(t("detokenize.size"), f"{size:,}", "measured"),
        numbers.Figure(t("detokenize.characters"), f"{len(numbers.answer_text(view)):,}", "measured"),
        numbers.Figure(t("detokenize.partial"), f"{waiting:,}", "measured", t("detokenize.partial_help")),
    ]
)

# 4 · predict, then check
ended = view.status == RunStatus.ENDED and bool(generated)
check = t("detokenize.check", waiting=waiting, tokens=len(generated))
panels.predict("detokenize", ("yes", "no"), ("no" if waiting else "yes") if ended else None, check)
panels.how("detokenize", ("engine/generate/detokenize.py", "Detokenizer.push"))
panels.go_on("home")
