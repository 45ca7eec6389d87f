"""Durations side by side as bars to one scale. Pure: (durations, palette) → Figure. Knows numbers and colours; words are given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from ui.theme import Palette, template

BAR_TALL = 27  # pixels of one bar with its gap


@dataclass(frozen=True, slots=True)
class Bar:
    """One duration: its name, its value in words, its seconds, and the colour of its role."""

    name: str
    value: str
    seconds: float
    colour: str


def to_scale(bars: Sequence[Bar], palette: Palette) -> go.Figure:
    """One bar below the other, the first on top, each with its value beside it. Bars stand at numbers, so that equal names never merge."""
    longest = max((bar.seconds for bar in bars), default=0.0) or 1.0
    places = list(range(len(bars)))
    trace = go.Bar(
        x=[bar.seconds for bar in bars],
        y=places,
        orientation="h",
        marker={"color": [bar.colour for bar in bars]},
        text=[bar.value for bar in bars],
        textposition="outside",
        cliponaxis=False,
        textfont={"color": palette.ink},
        hoverinfo="skip",
    )
    layout = go.Layout(
        template=template(palette),
        xaxis={"range": [0, longest * 1.3], "visible": False, "fixedrange": True},
        yaxis={
            "type": "linear",
            "tickmode": "array",
            "tickvals": places,
            "ticktext": [bar.name for bar in bars],
            "range": [len(bars) - 0.5, -0.5],
        }
        | {"showgrid": False, "ticks": "outside", "ticklen": 6, "tickcolor": "rgba(0,0,0,0)", "fixedrange": True, "automargin": True},
        height=BAR_TALL * len(bars) + 12,
        margin={"l": 4, "r": 4, "t": 6, "b": 6},
        bargap=0.3,
        uirevision="bars",
    )
    return go.Figure(trace, layout)
