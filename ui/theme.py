"""Colours by role, in light and dark, and the one Plotly template. Knows roles and hex codes; knows no session and no chart."""

from __future__ import annotations

from dataclasses import dataclass

import plotly.graph_objects as go


@dataclass(frozen=True, slots=True)
class Palette:
    """Role → colour. The roles keep their meaning on every page: prompt, answer, notes (KV cache), template, good."""

    prompt: str
    answer: str
    notes: str
    template: str
    good: str
    ink: str
    muted: str
    paper: str
    card: str
    grid: str


LIGHT = Palette(
    prompt="#2F5DA8",
    answer="#C8402F",
    notes="#E0A526",
    template="#7C7A72",
    good="#3B8C5A",
    ink="#1F2A44",
    muted="#5E5C55",
    paper="#FBF8F1",
    card="#FFFFFF",
    grid="#E3DCC8",
)
DARK = Palette(
    prompt="#7BA6EA",
    answer="#EE7A69",
    notes="#E0A526",
    template="#9A9890",
    good="#69BC8A",
    ink="#E8E6DF",
    muted="#B5B2A8",
    paper="#14171F",
    card="#1D212C",
    grid="#343A48",
)
FONT = "'Chinese Marks', 'Source Sans', 'Source Sans 3', 'Noto Sans', 'Noto Sans CJK SC', system-ui, sans-serif"
MONO = "'JetBrains Mono', 'DejaVu Sans Mono', Menlo, Consolas, 'Noto Sans Mono CJK SC', monospace"


def palette(kind: str | None) -> Palette:
    """The colours for a theme kind ("light" or "dark", as `st.context.theme.type` gives it)."""
    return DARK if kind == "dark" else LIGHT


def template(colours: Palette) -> go.layout.Template:
    """The one Plotly template: transparent paper, quiet grid, role colours in a fixed order."""
    axis = {
        "gridcolor": colours.grid,
        "zeroline": False,
        "linecolor": colours.grid,
        "title": {"font": {"color": colours.muted, "size": 13}},
    }
    return go.layout.Template(
        layout={
            "font": {"family": FONT, "color": colours.ink, "size": 13},
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "colorway": [colours.prompt, colours.answer, colours.notes, colours.good, colours.template],
            "margin": {"l": 8, "r": 8, "t": 8, "b": 8},
            "xaxis": axis,
            "yaxis": axis,
            "hoverlabel": {"bgcolor": colours.card, "bordercolor": colours.grid, "font": {"family": MONO, "color": colours.ink}},
        }
    )
