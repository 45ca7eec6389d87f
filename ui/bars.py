"""A bar with its number, as lists of weights need it. Knows shares and colours; does not know what is weighed."""

from __future__ import annotations

import html

import streamlit as st

from ui import state

_BAR = (
    '<div style="display:flex;align-items:center;gap:0.6rem;font-variant-numeric:tabular-nums">'
    '<div style="flex:1;min-width:3rem"><div style="width:{width:.1f}%;min-width:2px;height:0.8rem;background:{colour};border-radius:3px">'
    '</div></div><span style="min-width:{room}em">{words}</span></div>'
)


def bar(share: float, words: str) -> None:
    """A bar over `share` (0 … 1) of the room there is, in the colour of the notes, and `words` behind it."""
    width = min(max(share, 0.0), 1.0) * 100
    st.html(_BAR.format(width=width, colour=state.palette().notes, room=0.6 * len(words), words=html.escape(words)), width="stretch")
