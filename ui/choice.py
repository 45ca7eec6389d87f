"""A select box whose options have words in both languages.

The browser knows the chosen option by its words: after a language switch the old words would come back as a value. So each language
has a box of its own, and the choice itself lives under a neutral key. Knows boxes; does not know what is chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import streamlit as st

from ui import state


def select(
    key: str, label: str, options: Sequence[str], words: Callable[[str], str], then: Callable[[], None] | None = None, **look: Any
) -> None:
    """Draw the box for the value under `key`, one of `options`; `then` is called after a change. `look`: more of st.selectbox."""
    box = f"{key}_{state.language()}"
    state.put(box, state.get(key))
    st.selectbox(label, options, format_func=words, key=box, on_change=_chosen, args=(key, box, then), **look)


def _chosen(key: str, box: str, then: Callable[[], None] | None) -> None:
    state.put(key, state.get(box))
    if then is not None:
        then()
