"""The entry: `streamlit run app.py`. Joins the pages, the live channel and the engine process; knows nothing of their insides."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import streamlit as st

ROOT = Path(__file__).resolve().parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from ui import channel, panels, plotly_script, resources  # noqa: E402  (needs the path above)


@asynccontextmanager
async def lifespan(app: st.App) -> AsyncIterator[None]:
    """The engine starts loading before the first browser comes, and goes with the server."""
    resources.engine()
    try:
        yield
    finally:
        resources.close()


app = st.App(
    ROOT / "ui" / "shell.py",
    routes=[*channel.routes(), *plotly_script.routes()],
    lifespan=lifespan,
    on_script_error=panels.script_failed,
)
