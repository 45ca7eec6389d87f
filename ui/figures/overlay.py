"""Several runs over each other: the time of every token, and the parts of the first-token wait.

Pure: (named records, palette, words) → Figure. Knows traces and colours; does not know where the records come from, nor any language.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from engine.trace import RunRecord
from ui.theme import Palette, template

TALL = 320  # pixels
DASHES = ("solid", "dash", "dot", "dashdot", "longdash")
MARKS = ("circle", "square", "diamond", "triangle-up", "x")
PARTS = ("queue", "cut", "read", "sample")
NAME_MOST = 40

Named = Sequence[tuple[str, RunRecord]]


def itl(records: Named, palette: Palette, words: Mapping[str, str]) -> go.Figure:
    """One line for each run: milliseconds between a token and the one before it. Lines differ in colour, dash and mark.

    `words`: token (axis and hover), ms (axis).
    """
    figure = go.Figure(layout=_layout(palette, "overlay_itl"))
    for at, (name, record) in enumerate(records):
        figure.add_trace(
            go.Scatter(
                x=[step.index for step in record.steps],
                y=[step.itl_s * 1e3 for step in record.steps],
                name=_safe(name),
                mode="lines+markers",
                line={"width": 2, "dash": DASHES[at % len(DASHES)]},
                marker={"size": 6, "symbol": MARKS[at % len(MARKS)]},
                hovertemplate=f"{words['token']} %{{x}}: %{{y:,.1f}} ms",
            )
        )
    figure.update_xaxes(title={"text": words["token"], "standoff": 6}, type="linear", rangemode="tozero")
    figure.update_yaxes(title={"text": words["ms"], "standoff": 6}, type="linear", rangemode="tozero")
    return figure


def ttft(records: Named, palette: Palette, words: Mapping[str, str]) -> go.Figure:
    """One bar for each run: the first-token wait, split into its parts. Bars stand at numbers, so that equal names never merge.

    `words`: queue, cut, read, sample (the parts), ms (axis).
    """
    read = [(name, record.prefill) for name, record in records if record.prefill is not None]
    figure = go.Figure(layout=_layout(palette, "overlay_ttft"))
    colours = dict(zip(PARTS, (palette.template, palette.good, palette.prompt, palette.notes), strict=True))
    for part in PARTS:
        seconds = [_seconds(done, part) for _, done in read]
        figure.add_trace(
            go.Bar(
                x=[value * 1e3 for value in seconds],
                y=list(range(len(read))),
                orientation="h",
                name=words[part],
                marker={"color": colours[part]},
                hovertemplate=f"{words[part]}: %{{x:,.2f}} ms",
            )
        )
    ticks = {"tickmode": "array", "tickvals": list(range(len(read))), "ticktext": [_safe(name) for name, _ in read]}
    below = {"yanchor": "top", "y": -0.2, "traceorder": "normal", "font": {"size": 12}}
    figure.update_layout(barmode="stack", hovermode="closest", bargap=0.45, legend=below, margin={"l": 40, "t": 10, "b": 104})
    figure.update_yaxes(**ticks, type="linear", range=[len(read) - 0.5, -0.5], showgrid=False)
    figure.update_xaxes(title={"text": words["ms"], "standoff": 6}, type="linear", rangemode="tozero")
    return figure


def _seconds(read: object, part: str) -> float:
    fields = {"queue": ("queue_s",), "cut": ("template_s", "tokenize_s"), "read": ("prefill_s",), "sample": ("sample_s",)}[part]
    return float(sum(getattr(read, field) for field in fields))


def _safe(name: str) -> str:
    """Untrusted words as a chart's label: no markup, not too long."""
    return html.escape(name if len(name) <= NAME_MOST else name[: NAME_MOST - 1] + "…", quote=False)


def _layout(palette: Palette, name: str) -> go.Layout:
    return go.Layout(
        template=template(palette),
        height=TALL,
        margin={"l": 56, "r": 10, "t": 36, "b": 44},
        hovermode="x unified",
        legend={"orientation": "h", "yanchor": "bottom", "y": 1.01, "x": 0},
        showlegend=True,
        uirevision=name,
    )
