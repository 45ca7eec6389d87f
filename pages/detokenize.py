"""Station 4: numbers become bytes, bytes become text, and the paper is handed in."""

import streamlit as st

from engine.generate.detokenize import answer_text
from engine.trace import RunStatus, Token
from ui import looking, numbers, panels
from ui.sections import handing
from ui.state import t

panels.head("detokenize")
view = panels.window_on_run("detokenize")
if view is None:
    st.stop()

# 1 · the picture: id → bytes → text, and the text that a reader gets
handing.show(view)
with panels.slot():
    panels.ending(view, told=True)


def partial(tokens: tuple[Token, ...]) -> int:
    """How many of them hold no whole character."""
    return sum(1 for token in tokens if not token.text and token.raw and not token.special)


# 2 · the numbers, of what is shown: where the reader looks back, up to there
special, at = handing.special_shown(), looking.index_shown(view)
shown = () if at is None else view.generated[: at + 1]
marks = sum(token.special for token in shown)
size = sum(len(token.raw) for token in shown if special or not token.special)
counts = {
    "tokens": f"{len(shown) - marks:,} + {marks:,}",
    "size": f"{size:,}",
    "characters": f"{len(answer_text(shown, skip_special=not special)):,}",
    "partial": f"{partial(shown):,}",
}
if looking.moving(view):  # the pen is ahead of this picture
    counts = dict.fromkeys(counts, numbers.NOTHING)
helps = {name: t(f"detokenize.{name}_help") for name in ("tokens", "partial")}
panels.figures([numbers.Figure(t(f"detokenize.{name}"), count, "measured", helps.get(name)) for name, count in counts.items()])

# 3 · the whole answer, decoded once more in one go
handing.check(view)

# 4 · predict, then check, of the whole answer
ended, waiting = view.status == RunStatus.ENDED and bool(view.generated), partial(view.generated)
check = t("detokenize.check", waiting=waiting, tokens=len(view.generated))
panels.predict("detokenize", ("yes", "no"), ("no" if waiting else "yes") if ended else None, check)
panels.how("detokenize", ("engine/generate/detokenize.py", "Detokenizer.push"))
panels.go_on("marks")
