"""Station 4: numbers become bytes, bytes become text, and the paper is handed in."""

import streamlit as st

from engine.trace import RunStatus
from ui import numbers, panels
from ui.sections import handing
from ui.state import t

panels.head("detokenize")
view = panels.window_on_run("detokenize")
if view is None:
    st.stop()

# 1 · the picture: id → bytes → text, and the text that a reader gets
handing.show(view)
panels.ending(view, told=True)

# 2 · the numbers, of what is shown
special = handing.special_shown()
generated = view.generated
marks = sum(token.special for token in generated)
size = sum(len(token.raw) for token in generated if special or not token.special)
waiting = sum(1 for token in generated if not token.text and token.raw and not token.special)
panels.figures(
    [
        numbers.Figure(t("detokenize.tokens"), f"{len(generated) - marks:,} + {marks:,}", "measured", t("detokenize.tokens_help")),
        numbers.Figure(t("detokenize.size"), f"{size:,}", "measured"),
        numbers.Figure(t("detokenize.characters"), f"{len(numbers.answer_text(view, special=special)):,}", "measured"),
        numbers.Figure(t("detokenize.partial"), f"{waiting:,}", "measured", t("detokenize.partial_help")),
    ]
)

# 3 · the whole answer, decoded once more in one go
handing.check(view)

# 4 · predict, then check
ended = view.status == RunStatus.ENDED and bool(generated)
check = t("detokenize.check", waiting=waiting, tokens=len(generated))
panels.predict("detokenize", ("yes", "no"), ("no" if waiting else "yes") if ended else None, check)
panels.how("detokenize", ("engine/generate/detokenize.py", "Detokenizer.push"))
panels.go_on("home")
