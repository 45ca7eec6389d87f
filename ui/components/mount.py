"""Registers the browser components from their asset files and mounts them. Knows files and Streamlit; knows no component's meaning.

A component is `assets/components/<name>/<name>.{html,css,js}`, and further scripts beside it where one would be long. The shared
scripts of `assets/components/live/` are put before its own, so that every component brings the same live channel (one connection
per page and run, see `live.js`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import streamlit as st
from streamlit.components.v2.types import ComponentRenderer

ASSETS = Path(__file__).resolve().parents[2] / "assets" / "components"
SHARED_SCRIPTS = ("words", "ink", "store", "link", "live")
BORROWED: Mapping[str, Sequence[str]] = {"progress": ("timeline/player.js",)}  # scripts that live with another component
SHARED_LABELS = ("live_template", "live_prompt", "live_answer", "live_special", "live_token", "live_measured", "live_ms", "live_s")


def script(name: str) -> str:
    """A component's whole script: what all share, what it borrows, then its own, the file with its name last."""
    shared = [ASSETS / "live" / f"{part}.js" for part in SHARED_SCRIPTS] + [ASSETS / part for part in BORROWED.get(name, ())]
    own = sorted((ASSETS / name).glob("*.js"), key=lambda path: (path.stem == name, path.stem))
    return "\n".join(path.read_text(encoding="utf-8") for path in (*shared, *own))


def style(name: str) -> str:
    """A component's whole style sheet: role colours and what all share, then its own."""
    return "\n".join(path.read_text(encoding="utf-8") for path in (ASSETS / "live" / "live.css", ASSETS / name / f"{name}.css"))


def register(name: str) -> ComponentRenderer:
    """Register one component; call it once, at import."""
    html = (ASSETS / name / f"{name}.html").read_text(encoding="utf-8")
    return st.components.v2.component(f"openbook_{name}", html=html, css=style(name), js=script(name))


class RunPicture(Protocol):
    """Mounts a picture of a run. `cursor` k shows the state after generated token k; None follows the run."""

    def __call__(self, *, run_id: str | None, path: str, key: str, labels: Mapping[str, str], cursor: int | None = None) -> None: ...


def run_picture(name: str, needed: Sequence[str]) -> RunPicture:
    """Register a component that needs no more than the run and its words."""
    render = register(name)

    def picture(*, run_id: str | None, path: str, key: str, labels: Mapping[str, str], cursor: int | None = None) -> None:
        render(key=key, data=live_data(run_id, path, cursor, needed, labels))

    return picture


def live_data(
    run_id: str | None, path: str, cursor: int | None, needed: Sequence[str], labels: Mapping[str, str], **own: Any
) -> dict[str, Any]:
    """What every live component is given, and its own values. Raises KeyError for a label that is missing."""
    return {"run_id": run_id, "path": path, "cursor": cursor, "labels": {name: labels[name] for name in needed}, **own}
