"""The router script, run for every page: page config, sidebar, transport bar, then the page.

Knows the order of things; each of them lives in its own module.
"""

from __future__ import annotations

import sys
from pathlib import Path

import streamlit as st

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from engine.errors import EngineError  # noqa: E402  (needs the path above)
from ui import failures, inputs, model, navigation, panels, shelf, state, transport  # noqa: E402
from ui.sections import sweeps  # noqa: E402
from ui.state import t  # noqa: E402

state.begin()
shelf.collect()
st.set_page_config(
    page_title=t("shell.product"), page_icon=ROOT / "assets" / "images" / "icon.svg", layout="wide", initial_sidebar_state=272
)
st.html(ROOT / "assets" / "shell.css")
if state.language() == "zh":
    st.html(ROOT / "assets" / "chinese.css")
known = navigation.pages()
page = st.navigation(list(known.values()), position="hidden")
state.write_url()

with st.sidebar:
    with st.container(gap="xxsmall", key="brand"):
        st.header(t("shell.product"), anchor=False)
        st.caption(t("shell.tagline"))
    navigation.menu(known)
    inputs.language()
    model.choice()
    inputs.answer()
    sweeps.keep_in_sight()
model.terms_dialog()

with st.bottom:
    panels.notice()
transport.bar(navigation.spec_of(page))
panels.recording()
try:
    page.run()
except EngineError as error:
    st.error(failures.explain(error.info), icon=":material/error:")
