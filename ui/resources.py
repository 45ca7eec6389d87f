"""What all sessions share: the one client of the engine process. The only place that uses `st.cache_resource`.

Knows when the engine starts and ends; knows no session and no run.
"""

from __future__ import annotations

import streamlit as st

from engine.serve.client import EngineClient
from engine.settings import Settings


@st.cache_resource(show_spinner=False)
def settings() -> Settings:
    """Settings of this installation, read once."""
    return Settings.from_env()


@st.cache_resource(show_spinner=False)
def engine() -> EngineClient:
    """The running client. The first call starts the engine process, which begins to load the default model."""
    client = EngineClient(settings())
    client.start()
    client.load_model(settings().model, settings().device)
    return client


def close() -> None:
    """End the engine process and forget the client; the next call of `engine` starts afresh."""
    engine().close()
    engine.clear()
    settings.clear()
