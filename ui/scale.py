"""Numbers of one kind as bars, to scale. Knows bars and role colours; does not know what is counted."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import streamlit as st

from ui import state

Role = Literal["prompt", "answer", "notes", "template", "good"]

_ROW = (
    '<div style="display:grid;grid-template-columns:{columns};gap:0.8em;align-items:center;padding:0.2em 0;'
    'font-variant-numeric:tabular-nums">{name}{bar}<span style="text-align:right">{words}</span></div>'
)
_NAMED, _BARE = "minmax(5em,min(15em,35%)) ", "minmax(3em,1fr) minmax(4.5em,auto)"
_BAR = '<span style="display:block;width:{width:.2f}%;min-width:2px;height:0.95em;background:{colour};border-radius:3px"></span>'
_NO_BAR = '<span style="display:block;height:0.95em;border:1px dashed {colour};border-radius:3px"></span>'


@dataclass(frozen=True, slots=True)
class Row:
    """One bar: its name (none: ""), its value (None: there is none yet), the value in words, and whose colour it has."""

    name: str
    value: float | None
    words: str
    role: Role


def scale(rows: Sequence[Row], full: float | None = None) -> None:
    """Draw the rows; the value `full` fills the room there is (None: the largest does)."""
    largest = max((row.value for row in rows if row.value), default=1.0) if full is None else full
    st.html("".join(_drawn(row, largest) for row in rows), width="stretch")


def bar(share: float, words: str) -> None:
    """One bar of a list that others draw around it: over `share` (0 … 1) of the room there is, in the colour of the notes."""
    scale([Row("", min(max(share, 0.0), 1.0), words, "notes")], full=1.0)


def _drawn(row: Row, largest: float) -> str:
    colour = getattr(state.palette(), row.role)
    bar = _NO_BAR.format(colour=colour) if row.value is None else _BAR.format(width=row.value / largest * 100, colour=colour)
    name = f"<span>{html.escape(row.name)}</span>" if row.name else ""
    return _ROW.format(columns=_NAMED + _BARE if name else _BARE, name=name, bar=bar, words=html.escape(row.words))
