"""The text that a reader receives beside the raw answer, and whether the whole of it is what the tokenizer itself makes of the ids.

Knows a run's snapshot and the words; does not know which page it stands on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import streamlit as st

from engine.errors import EngineError
from engine.generate.detokenize import Detokenizer
from engine.trace import RunStatus, RunView
from ui import literal, looking, panels, state
from ui.components.answer import answer
from ui.components.bytes_view import bytes_view
from ui.failures import code_span, explain
from ui.state import t

QUESTION_MOST = 300  # characters of the question that are shown
AROUND = 8  # characters shown on either side of a difference
Cause = Literal["first_space", "spaces", "broken", "other"]


@dataclass(frozen=True, slots=True)
class Difference:
    """Where two texts part: the first character `at` which they differ, each around there, and what it looks like."""

    at: int
    ours: str
    theirs: str
    cause: Cause


def special_shown() -> bool:
    """Whether the reader wants to see special tokens."""
    return bool(state.get(state.SHOW_SPECIAL))


def show(view: RunView) -> None:
    """Draw both sides, live: every token with its bytes, and what becomes of them on the screen of whoever asked."""
    with panels.card("bytes"):
        panels.card_title(t("detokenize.bytes"), looking.vouched(view), t("detokenize.bytes_note"))
        with st.container(gap=None, key="handed_question"):
            st.caption(t("detokenize.question"))
            st.text(view.prompt if len(view.prompt) <= QUESTION_MOST else view.prompt[: QUESTION_MOST - 1] + "…")
        st.toggle(t("detokenize.special"), key=state.SHOW_SPECIAL, help=t("detokenize.special_help"), persist_state="session")
        special, run = special_shown(), panels.live(view)
        raw, received = st.columns([5, 4], gap="medium")
        with raw:
            panels.card_title(t("detokenize.raw"), None, t("detokenize.raw_note"))
            bytes_view(**run, show_special=special, labels=state.labels("bytes_view"), key="detokenize_bytes")
        with received:
            panels.card_title(t("detokenize.received"), None, t("detokenize.received_note"))
            words = state.labels("answer") | {"answer_none": t("detokenize.nothing")}
            answer(**run, question=None, show_special=special, labels=words, key="detokenize_answer")
            st.caption(t("detokenize.dashed"))


def check(view: RunView) -> None:
    """Our text, which came token by token, beside the tokenizer's own decoding of all ids at once. Nothing is asked while a run plays."""
    resting = view.status in {RunStatus.PAUSED, RunStatus.ENDED} and view.prefill is not None
    with panels.card("whole"):
        try:
            theirs = looking.decoded(view, not special_shown()) if resting else None
        except EngineError as error:
            panels.card_title(t("detokenize.whole"))
            st.info(explain(error.info), icon=":material/info:")
            return
        panels.card_title(t("detokenize.whole"), None if theirs is None else "measured", t("detokenize.whole_note"))
        if theirs is None:
            st.caption(f":material/hourglass_empty: {t('detokenize.whole_wait')}")
        else:
            _compare(view, theirs)


def _compare(view: RunView, theirs: str) -> None:
    detokenizer = Detokenizer()
    shown = [token for token in view.generated if special_shown() or not token.special]
    ours = "".join(detokenizer.push(token.raw) for token in shown)
    held = detokenizer.pending
    found = difference(ours + detokenizer.finish(), theirs)
    if found is None:
        told = t("detokenize.equal", characters=f"{len(ours):,}", tokens=f"{len(view.generated):,}")
        st.markdown(f":material/check: {told}")
        if held:
            st.markdown(t("detokenize.equal_held", bytes=code_span(held.hex(" ").upper())))
        return
    st.markdown(f":material/difference: {t('detokenize.differ', position=f'{found.at + 1:,}')}")
    st.markdown(t("detokenize.differ_pair", ours=_literally(found.ours), theirs=_literally(found.theirs)))
    st.caption(t(f"detokenize.cause_{found.cause}"))


def _literally(text: str) -> str:
    return code_span(literal.visible(text))


def difference(ours: str, theirs: str) -> Difference | None:
    """Where the texts part first, and why as far as it can be told; None: they are equal."""
    if ours == theirs:
        return None
    shorter = min(len(ours), len(theirs))
    at = next((place for place in range(shorter) if ours[place] != theirs[place]), shorter)
    begin, end = max(at - AROUND, 0), at + AROUND
    return Difference(at, ours[begin:end], theirs[begin:end], _cause(ours, theirs))


def _cause(ours: str, theirs: str) -> Cause:
    if ours == f" {theirs}":
        return "first_space"
    if ours.replace(" ", "") == theirs.replace(" ", ""):
        return "spaces"
    if ours.replace("\ufffd", "") == theirs.replace("\ufffd", ""):
        return "broken"
    return "other"
