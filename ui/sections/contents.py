"""The parts of a long page as a row of links, which lead there without a rerun.

Knows the anchors that the sections give their titles; does not know what stands there.
"""

from __future__ import annotations

import html

import streamlit as st

from engine.trace import RunView
from ui import looking
from ui.state import t

# No name of a property of `document`, such as timeline: Streamlit lets no such id into the page.
PARTS = ("travel", "notes", "step", "choice", "branches", "clock", "endings")


def show(view: RunView) -> None:
    """Draw the row for the Decode page. The URL keeps what it says of the run: the browser adds the place alone."""
    there = [part for part in PARTS if part != "choice" or looking.moving(view) or looking.index_shown(view) is not None]
    links = "".join(f'<a href="#{part}">{html.escape(t(f"decode.contents_{part}"))}</a>' for part in there)
    with st.container(key="contents"):
        st.html(f'<nav aria-label="{html.escape(t("decode.contents_name"))}">{links}</nav>', width="stretch")
