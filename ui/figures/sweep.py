"""A sweep as one Plotly figure: every measurement, the fitted curve, its straight part and what the square adds, the comfortable range.

Pure: (points, curve, palette, words) → Figure. Knows tokens, times and colours; does not know how the curve was found.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from engine.sweep import SweepPoint
from ui.theme import Palette, template

TALL = 400  # pixels
HEADROOM = 1.12


@dataclass(frozen=True, slots=True)
class Curve:
    """The fitted curve at `tokens`: all of it, and without its quadratic part. `bends`: whether it has one."""

    tokens: Sequence[float]
    total_s: Sequence[float]
    straight_s: Sequence[float]
    bends: bool


def growth(
    points: Sequence[SweepPoint], curve: Curve | None, colour: str, band_s: tuple[float, float], palette: Palette, words: Mapping[str, str]
) -> go.Figure:
    """Seconds over tokens; milliseconds where all is far from a second. `band_s`: the comfortable range, drawn where it is in reach.

    `words`: tokens, seconds, milliseconds (axes), each, median (measurements), curve, straight, square (of the fit), band.
    """
    most_s = max((value for point in points for value in point.seconds), default=band_s[1])
    top_s = max(most_s * HEADROOM, band_s[0] * 1.25 if most_s > band_s[0] / 3 else 0.0)
    unit, factor = ("seconds", 1.0) if top_s >= 1 else ("milliseconds", 1e3)
    top = top_s * factor
    figure = go.Figure(layout=_layout(palette, words, unit, top))
    if top > band_s[0] * factor:
        _comfort(figure, (band_s[0] * factor, min(band_s[1] * factor, top)), palette, words["band"])
    if curve is not None:
        figure.add_traces(_fitted(curve, factor, colour, palette, words))
    figure.add_traces(_measured(points, factor, colour, palette, words, unit))
    return figure


def _measured(
    points: Sequence[SweepPoint], factor: float, colour: str, palette: Palette, words: Mapping[str, str], unit: str
) -> list[go.Scatter]:
    every = [(point.length, value * factor) for point in points for value in point.seconds]
    hover = f"%{{x:,}} {words['tokens']}<br>%{{y:.4g}} {words[unit]}<extra>%{{fullData.name}}</extra>"
    ring = {"size": 7, "symbol": "circle-open", "color": colour, "opacity": 0.6}
    dot = {"size": 10, "color": colour, "line": {"color": palette.card, "width": 1.5}}
    return [
        go.Scatter(x=[x for x, _ in every], y=[y for _, y in every], mode="markers", marker=ring, name=words["each"], hovertemplate=hover),
        go.Scatter(
            x=[point.length for point in points],
            y=[point.median_s * factor for point in points],
            mode="markers",
            marker=dot,
            name=words["median"],
            hovertemplate=hover,
        ),
    ]


def _fitted(curve: Curve, factor: float, colour: str, palette: Palette, words: Mapping[str, str]) -> list[go.Scatter]:
    """The straight part, what the square adds on top of it as a tinted area, and the sum."""
    x = list(curve.tokens)
    straight = [value * factor for value in curve.straight_s]
    total = [value * factor for value in curve.total_s]
    quiet = {"x": x, "mode": "lines", "hoverinfo": "skip"}
    lines = []
    if curve.bends:
        dashed = {"color": palette.muted, "width": 2, "dash": "dash"}
        lines.append(go.Scatter(y=straight, line=dashed, name=words["straight"], **quiet))
        area = {"fill": "tonexty", "fillcolor": _tint(palette.notes, 0.3), "line": {"width": 0}}
        lines.append(go.Scatter(y=total, name=words["square"], **area, **quiet))
    lines.append(go.Scatter(y=total, line={"color": colour, "width": 2.5}, name=words["curve"], **quiet))
    return lines


def _comfort(figure: go.Figure, band: tuple[float, float], palette: Palette, words: str) -> None:
    figure.add_hrect(y0=band[0], y1=band[1], fillcolor=palette.good, opacity=0.13, line_width=0, layer="below")
    font = {"color": palette.good, "size": 12}
    figure.add_annotation(
        x=1, xref="paper", xanchor="right", xshift=-6, y=band[1], yanchor="top", text=words, showarrow=False, font=font
    )  # fmt: skip


def _layout(palette: Palette, words: Mapping[str, str], unit: str, top: float) -> go.Layout:
    return go.Layout(
        template=template(palette),
        height=TALL,
        margin={"l": 70, "r": 12, "t": 8, "b": 84},
        xaxis={"title": {"text": words["tokens"], "standoff": 8}, "type": "linear", "rangemode": "tozero", "tickformat": ",", "nticks": 8},
        yaxis={"title": {"text": words[unit], "standoff": 8}, "type": "linear", "range": [0, top]},
        legend={"orientation": "h", "x": 0, "y": -0.2, "yanchor": "top", "font": {"size": 12}},
        uirevision="sweep",
    )


def _tint(colour: str, opacity: float) -> str:
    red, green, blue = bytes.fromhex(colour[1:])
    return f"rgba({red},{green},{blue},{opacity})"
