"""The logit lens as two Plotly figures: the picked token's probability and place layer by layer, and every layer's best guesses.

Pure: (rows, palette, words) → Figure. Knows numbers, tokens and colours; does not know which run they come from, nor any language.
"""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from engine.findings import LensRow
from engine.trace import Candidate
from ui import literal
from ui.theme import MONO, Palette, template

GUESSES = 3  # candidates of each layer that are written out; hovering names all
ROW_TALL = 23  # pixels of one layer in the table of guesses
NAME_MOST = 12  # characters of a token that are written out
LABELS_LEFT = 46  # pixels


def firm_from(rows: Sequence[LensRow]) -> int | None:
    """The first layer from which on the picked token stays the first choice; None: it is not even the last layer's."""
    wavering = [at for at, row in enumerate(rows) if row.rank != 0]
    first = wavering[-1] + 1 if wavering else 0
    return rows[first].layer if first < len(rows) else None


def name(candidate: Candidate, most: int = NAME_MOST) -> str:
    """A candidate as a chart shows it: white space visible, bytes in hex where they are no characters, markup escaped."""
    return html.escape(literal.short(candidate.text, candidate.raw, most), quote=False)  # a chart knows no &quot;


def climb(rows: Sequence[LensRow], palette: Palette, words: Mapping[str, str]) -> go.Figure:
    """The picked token over the layers: its probability above, its place among all tokens below (1 on top, each step a tenth).

    Layers in which it is the first choice have a full dot, others a ring; from where it stays so the ground is tinted.
    `words`: layer, probability, rank (axis titles and hover), firm (what the tinted layers are called).
    """
    figure = make_subplots(rows=2, cols=1, shared_xaxes=True, vertical_spacing=0.09, row_heights=[0.56, 0.44])
    figure.add_trace(_line(rows, [row.probability for row in rows], palette, words), row=1, col=1)
    figure.add_trace(_line(rows, [row.rank + 1 for row in rows], palette, words), row=2, col=1)
    figure.update_layout(_climb_layout(palette))
    figure.update_xaxes(type="linear", dtick=5, ticks="")
    figure.update_xaxes(title={"text": words["layer"], "standoff": 6}, row=2, col=1)
    titles = {name: {"text": words[name], "standoff": 6} for name in ("probability", "rank")}
    figure.update_yaxes(title=titles["probability"], range=[-0.06, 1.08], tickformat=".0%", nticks=5, row=1, col=1)
    lowest = math.log10(max(row.rank + 1 for row in rows) * 2)
    figure.update_yaxes(title=titles["rank"], type="log", range=[lowest, -0.25], tickformat=",", dtick=1, row=2, col=1)
    firm = firm_from(rows)
    if firm is not None:
        _mark_firm(figure, firm, rows, palette, words["firm"])
    return figure


def _line(rows: Sequence[LensRow], values: Sequence[float], palette: Palette, words: Mapping[str, str]) -> go.Scatter:
    """One quantity over the layers; pointing at a dot tells both."""
    hover = (
        f"{words['layer']} %{{x}}<br>{words['probability']}: %{{customdata[0]:.2%}}<br>{words['rank']}: %{{customdata[1]:,}}<extra></extra>"
    )
    inside = [palette.answer if row.rank == 0 else palette.card for row in rows]
    return go.Scatter(
        x=[row.layer for row in rows],
        y=list(values),
        customdata=[(row.probability, row.rank + 1) for row in rows],
        mode="lines+markers",
        line={"color": palette.answer, "width": 2},
        marker={"size": 8, "color": inside, "line": {"color": palette.answer, "width": 1.5}},
        hovertemplate=hover,
    )


def _mark_firm(figure: go.Figure, firm: int, rows: Sequence[LensRow], palette: Palette, words: str) -> None:
    edge, late = firm - 0.5, firm > len(rows) / 2
    figure.add_vrect(x0=edge, x1=rows[-1].layer + 0.5, fillcolor=palette.answer, opacity=0.1, line_width=0, layer="below")
    figure.add_vline(x=edge, line={"color": palette.answer, "width": 1, "dash": "dot"})
    side = {"xanchor": "right", "xshift": -4} if late else {"xanchor": "left", "xshift": 4}
    font = {"color": palette.answer, "size": 12}
    figure.add_annotation(x=edge, y=1.0, yanchor="top", text=words, showarrow=False, font=font, row=1, col=1, **side)


def _climb_layout(palette: Palette) -> go.Layout:
    return go.Layout(
        template=template(palette),
        height=320,
        margin={"l": LABELS_LEFT + 14, "r": 10, "t": 8, "b": 40},
        showlegend=False,
        uirevision="lens_climb",
    )


def guesses(rows: Sequence[LensRow], picked: int, palette: Palette, words: Mapping[str, str]) -> go.Figure:
    """Table of guesses: layers from below to above, their GUESSES best candidates side by side, as dark as they are likely.

    Cells stand at numbers, so that equal tokens never merge; the cells of `picked`, the id really chosen, are framed.
    `words`: layer, guess (title of the columns).
    """
    table = [row.candidates[:GUESSES] for row in rows]
    layers = [row.layer for row in rows]
    heat = go.Heatmap(
        z=[[candidate.probability for candidate in line] for line in table],
        x=list(range(GUESSES)),
        y=layers,
        text=[[f"{name(candidate)} {candidate.probability:.0%}" for candidate in line] for line in table],
        texttemplate="%{text}",
        textfont={"family": MONO, "size": 11},
        customdata=[[_all_of(row)] * len(line) for row, line in zip(rows, table, strict=True)],
        hovertemplate=f"{words['layer']} %{{y}}<br>%{{customdata}}<extra></extra>",
        colorscale=[(0.0, palette.card), (1.0, _blend(palette.card, palette.answer, 0.5))],
        zmin=0,
        zmax=1,
        xgap=2,
        ygap=2,
        showscale=False,
    )
    figure = go.Figure(heat, _table_layout(layers, palette, words))
    for layer, line in zip(layers, table, strict=True):
        for at, candidate in enumerate(line):
            if candidate.id == picked:
                box = {"x0": at - 0.49, "x1": at + 0.49, "y0": layer - 0.45, "y1": layer + 0.45}
                figure.add_shape(type="rect", line={"color": palette.answer, "width": 2}, **box)
    return figure


def _all_of(row: LensRow) -> str:
    return "<br>".join(f"{at}. {name(candidate, 40)} {candidate.probability:.1%}" for at, candidate in enumerate(row.candidates, 1))


def _table_layout(layers: Sequence[int], palette: Palette, words: Mapping[str, str]) -> go.Layout:
    ranks = {"tickmode": "array", "tickvals": list(range(GUESSES)), "ticktext": [f"{at + 1}." for at in range(GUESSES)]}
    return go.Layout(
        template=template(palette),
        xaxis=ranks | {"type": "linear", "side": "top", "showgrid": False, "ticks": "", "title": {"text": words["guess"], "standoff": 4}},
        yaxis={"type": "linear", "showgrid": False, "ticks": "", "dtick": 2 if len(layers) <= 40 else 5}
        | {"title": {"text": words["layer"], "standoff": 6}, "range": [layers[0] - 0.6, layers[-1] + 0.6]},
        height=ROW_TALL * len(layers) + 56,
        margin={"l": LABELS_LEFT, "r": 4, "t": 48, "b": 6},
        uirevision="lens_table",
    )


def _blend(one: str, other: str, share: float) -> str:
    """The colour `share` of the way from one hex colour to another."""
    pairs = zip(bytes.fromhex(one[1:]), bytes.fromhex(other[1:]), strict=True)
    return "#" + "".join(f"{round(a + (b - a) * share):02X}" for a, b in pairs)
