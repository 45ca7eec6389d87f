"""The attention map as a Plotly figure: query rows, key columns. Pure: (weights, tokens, palette, words) → Figure.

Knows numbers, tokens and colours; does not know which run they come from, nor any language: words are given.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go

from engine.trace import Token
from ui.theme import MONO, Palette, template

MOST_TOKENS = 256  # beyond it a cell is smaller than a pixel, and hover texts alone would weigh megabytes
TICKS_ACROSS = 18  # labels that fit side by side on a narrow screen
TICKS_DOWN = 44  # labels that fit below each other at the greatest height
HOVER = (("query", "customdata[0]"), ("key", "customdata[1]"), ("weight", "z:.3f"))


def window(weights: np.ndarray, most: int = MOST_TOKENS) -> range:
    """Which positions are drawn, as queries and as keys: those of the newest rows, `most` at most (the caller says what is hidden)."""
    return range(weights.shape[1] - min(len(weights), most), weights.shape[1])


def label_steps(span: range, rows: int) -> tuple[int, int]:
    """Every how many columns, and rows, one is named: as many as fit without touching each other."""
    return max(1, -(-len(span) // TICKS_ACROSS)), max(1, -(-rows // TICKS_DOWN))


def hidden_share(weights: np.ndarray, span: range) -> float:
    """Share of the drawn rows' attention that falls on keys outside the drawn columns, 0 … 1. `weights`: [newest queries, keys]."""
    rows = weights[-len(span) :]
    total = float(rows.sum())
    return float(rows[:, : span.start].sum()) / total if total else 0.0


def attention_map(weights: np.ndarray, tokens: Sequence[Token], palette: Palette, words: Mapping[str, str]) -> go.Figure:
    """Heatmap of float32 [newest queries, keys] over `tokens` (one per key, in order); the last row is the last token's.

    Positions are numbers with tick texts, so that equal tokens never merge; the triangle above the diagonal stays blank.
    `words`: query, key, weight (axis titles and hover). Raises ValueError where the counts differ.
    """
    if weights.shape[1] != len(tokens):
        raise ValueError(f"attention covers {weights.shape[1]} positions but {len(tokens)} tokens were given")
    span = window(weights)
    labels = [label(tokens[position]) for position in span]
    drawn = weights[-len(span) :, span.start :].astype(np.float32)
    cells = np.where(np.tri(*drawn.shape) > 0, drawn, np.nan)
    trace = go.Heatmap(
        z=cells,
        x=list(span),
        y=list(span)[: len(cells)],
        customdata=_hover(labels, span, len(cells)),
        hovertemplate="<br>".join(f"{words[name]}: %{{{place}}}" for name, place in HOVER) + "<extra></extra>",
        hoverongaps=False,
        colorscale=_scale(palette),
        zmin=0,
        zmax=1,
        xgap=1 if len(span) <= 96 else 0,
        ygap=1 if len(span) <= 96 else 0,
        colorbar={"thickness": 10, "outlinewidth": 0, "tickformat": ".1f", "title": {"text": words["weight"], "side": "right"}},
    )
    return go.Figure(trace, _layout(labels, span, len(cells), palette, words))


def _scale(palette: Palette) -> list[tuple[float, str]]:
    """Paper to notes to ink, steep at the start: most weights are small, and their order should be seen."""
    return [
        (0.0, palette.card),
        (0.08, _blend(palette.card, palette.notes, 0.35)),
        (0.4, palette.notes),
        (1.0, _blend(palette.notes, palette.ink, 0.55)),
    ]


def _blend(one: str, other: str, share: float) -> str:
    """The colour `share` of the way from one hex colour to another."""
    pairs = zip(bytes.fromhex(one[1:]), bytes.fromhex(other[1:]), strict=True)
    return "#" + "".join(f"{round(a + (b - a) * share):02X}" for a, b in pairs)


def label(token: Token) -> str:
    """A token as an axis shows it: white space visible, bytes in hex where they are no characters, markup escaped."""
    in_hex = " ".join(f"{byte:02X}" for byte in token.raw)
    seen = token.text.replace("\n", "↵").replace("\t", "⇥").replace(" ", "·") or in_hex
    return html.escape(seen if len(seen) <= 14 else seen[:13] + "…")


def _hover(labels: Sequence[str], span: range, rows: int) -> list[list[tuple[str, str] | None]]:
    """Query and key of every cell that is drawn, with their positions; nothing above the diagonal."""
    named = [f"{position} {name}" for position, name in zip(span, labels, strict=True)]
    return [[(named[row], named[column]) if column <= row else None for column in range(len(named))] for row in range(rows)]


def _layout(labels: Sequence[str], span: range, rows: int, palette: Palette, words: Mapping[str, str]) -> go.Layout:
    across, down = label_steps(span, rows)
    ticks = {
        "tickmode": "array",
        "type": "linear",
        "showgrid": False,
        "tickfont": {"family": MONO, "size": 12 if len(labels) <= 32 else 10},
    }
    x = ticks | {"tickvals": list(span)[::across], "ticktext": list(labels)[::across], "title": {"text": words["key"], "standoff": 6}}
    y = ticks | {"tickvals": list(span)[:rows:down], "ticktext": list(labels)[:rows:down], "title": {"text": words["query"], "standoff": 6}}
    return go.Layout(
        template=template(palette),
        xaxis=x | {"side": "top", "tickangle": -90, "automargin": True, "ticks": ""},
        yaxis=y | {"autorange": "reversed", "automargin": True, "ticks": ""},
        height=min(max(330, 23 * rows + 150), 760),
        margin={"l": 8, "r": 8, "t": 8, "b": 8},
        uirevision="attention",
    )
