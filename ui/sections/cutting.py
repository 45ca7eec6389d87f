"""How a word is cut: the merges of byte-pair encoding, step by step.

Knows a run's snapshot and the words; does not know which page it stands on.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from engine.errors import EngineError
from engine.findings import LONGEST_TEXT, TextCut, WordCut
from engine.trace import RunView
from ui import choice, literal, looking, panels, state
from ui.components.merges import merges
from ui.components.token_strip import token_strip
from ui.failures import code_span, explain
from ui.state import t

MOST_PIECES = 48  # bytes that a ladder has room for
_STRETCH = re.compile(r"\s?\S{1,12}")  # of a word that is too long, or of a text that is one single word to its tokenizer


def show(view: RunView) -> None:
    """Draw the section."""
    with panels.card("cutting"):
        panels.card_title(t("cutting.title"), "computed" if view.tokens else None, t("cutting.note"))
        st.markdown(t("cutting.story"))
        if not view.tokens:
            st.caption(f":material/hourglass_empty: {t('cutting.waiting')}")
            return
        with st.container(horizontal=True, vertical_alignment="bottom", key="cutting_words"):
            places = st.container(width=260), st.container(width="stretch")
        with places[1]:
            own = st.text_input(
                t("cutting.own"), key=state.CUT_TEXT, max_chars=LONGEST_TEXT, placeholder=t("cutting.own_hint"), persist_state="session"
            )
        try:
            _tell(view, own or _beginning(view.prompt), places[0])
        except EngineError as error:
            st.info(explain(error.info), icon=":material/info:")


def _beginning(text: str) -> str:
    """As much of a long question as can be told, up to the end of a word."""
    if len(text) <= LONGEST_TEXT:
        return text
    told = text.lstrip()  # a paper may begin with a page of blank lines
    return told if len(told) <= LONGEST_TEXT else told[:LONGEST_TEXT].rsplit(maxsplit=1)[0]


def _tell(view: RunView, text: str, place: DeltaGenerator) -> None:
    found = looking.cut(view, text, state.CUT_SEEN)
    if found.reason is not None:
        _untold(found)
        return
    words = choices(found, text)
    if not words:
        st.caption(t("cutting.nothing"))
        return
    if state.get(state.CUT_WORD) not in words:
        state.put(state.CUT_WORD, max(words, key=lambda word: len(word.encode())))
    with place:
        choice.select(state.CUT_WORD, t("cutting.word"), tuple(words), literal.visible)
    chosen = state.get(state.CUT_WORD)
    word = words[chosen]
    if word is None:
        stretch = looking.cut(view, chosen, state.WORD_SEEN)
        if not stretch.words:
            _untold(stretch)
            return
        word = max(stretch.words, key=lambda part: len(part.start))
    merges(word=word, rules=found.rules, labels=state.labels("merges"), key="cutting_ladder")
    _say(word)


def _untold(found: TextCut) -> None:
    """Why there are no steps to show, and the tokens all the same."""
    if found.reason is None:  # every character is one that the tokenizer leaves out
        st.caption(t("cutting.nothing"))
        return
    st.info(t(f"cutting.reason_{found.reason}"), icon=":material/info:")
    token_strip(**panels.live(None), tokens=found.tokens, labels=state.labels("token_strip"), key="cutting_strip")


def choices(found: TextCut, text: str) -> Mapping[str, WordCut | None]:
    """The distinct words of a cut text; where the tokenizer takes too much for one word, stretches of it, still to be cut (None)."""
    words: dict[str, WordCut | None] = {}
    prefixed = bool(found.words) and found.words[0].raw[:1] == b" " != text[:1].encode()  # a space that the tokenizer put there itself
    for word in found.words:
        said = word.raw.decode(errors="replace")
        if len(word.start) <= MOST_PIECES and len(said.split()) < 2:
            words[said] = word
            continue
        for stretch in _STRETCH.findall(said):
            words.setdefault(stretch.lstrip() if prefixed else stretch, None)
    return words


def _say(word: WordCut) -> None:
    """What came of it, in a sentence."""
    span = code_span(literal.visible(word.raw.decode(errors="replace")))
    if word.whole:
        st.markdown(t("cutting.whole", word=span, id=word.ids[0]))
    elif not word.merges:
        st.markdown(t("cutting.none", word=span, tokens=len(word.ids)))
    else:
        last = max(merge.rank for merge in word.merges) + 1
        st.markdown(t("cutting.done", word=span, start=len(word.start), rules=len(word.merges), tokens=len(word.ids), last=f"{last:,}"))
