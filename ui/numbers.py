"""Numbers as readers see them: units, and the figures that follow from a run's snapshot.

Knows definitions (latency, cache arithmetic) through the engine's own functions; does not know where a number is shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from engine.errors import UnsupportedConfig
from engine.generate import detokenize
from engine.kv import sizes
from engine.measure.latency import LatencySummary, summarize
from engine.measure.reading import step_reads
from engine.trace import ModelInfo, RunView
from ui.state import t

UNTOLD = "?"  # there is a number; the reader is to guess it first
NOTHING = "—"  # there is no such number for this run
Evidence = Literal["measured", "computed", "illustrative"]


@dataclass(frozen=True, slots=True)
class Figure:
    """One number on a page: its name, its value as text, where it comes from, and a sentence for the tooltip."""

    label: str
    value: str
    evidence: Evidence
    help: str | None = None


def milliseconds(seconds: float | None) -> str:
    """0.0873 → "87 ms"; None → "—" (there is no such number for this run)."""
    if seconds is None:
        return NOTHING
    value = seconds * 1e3
    if value >= 1_000:
        return f"{seconds:,.2f} s"
    return f"{value:,.0f} ms" if value >= 10 else f"{value:,.1f} ms" if value >= 1 else f"{value:,.2f} ms"


def mebibytes(size_bytes: float) -> str:
    """Bytes in the unit that reads best: B, KiB, MiB, GiB (1024-based)."""
    for unit, factor in (("GiB", 1024**3), ("MiB", 1024**2), ("KiB", 1024)):
        if size_bytes >= factor:
            return f"{size_bytes / factor:,.2f} {unit}"
    return f"{size_bytes:,.0f} B"


def in_full(size_bytes: float) -> str:
    """The same size in full and in decimal units, for tooltips."""
    return t("shell.bytes_in_full", exact=f"{size_bytes:,.0f}", decimal=f"{size_bytes / 1e6:,.3f}")


def latency(view: RunView) -> LatencySummary | None:
    """TTFT, TPOT and intervals of what the run has done so far; None before the first token."""
    return None if view.prefill is None else summarize(view)


def formula_bytes(info: ModelInfo, tokens: int) -> int:
    """KV bytes of `tokens` positions by the formula, as the cache holds them between two steps."""
    return sizes.kv_bytes(info.shape, tokens=tokens, dtype_bytes=info.dtype_bytes, between_steps=True)


def formula_words(info: ModelInfo, tokens: int) -> str:
    """The formula with its numbers: 2 × layers × KV heads × head dim × bytes × tokens (windows differ per layer, if any)."""
    shape = info.shape
    product = f"2 × {len(shape.layer_windows)} × {shape.num_key_value_heads} × {shape.head_dim} × {info.dtype_bytes} B × {tokens:,}"
    plain = not any(window is not None and window < tokens for window in shape.layer_windows)
    size = f"{formula_bytes(info, tokens):,} B"
    return f"{product} = {size}" if plain else t("shell.formula_windowed", product=product, size=size)


def kv_formula(info: ModelInfo, tokens: int) -> Figure:
    size = formula_bytes(info, tokens)
    return Figure(t("shell.kv_formula"), mebibytes(size), "computed", t("shell.kv_formula_help", full=in_full(size)))


def answer_text(view: RunView, *, special: bool = False) -> str:
    """The answer as text, as the engine hands it in: bytes that are none become U+FFFD, an unfinished character at its end is left out."""
    return detokenize.answer_text(view.generated, skip_special=not special)


def notes_formula(view: RunView | None) -> dict[str, Any]:
    """What the browser needs to multiply the formula out itself: per layer the tokens that it reads, bytes per layer and token."""
    if view is None or view.model is None:
        return {}
    shape = view.model.shape
    return {"windows": list(shape.layer_windows), "layer_token_bytes": sizes.layer_token_width(shape) * view.model.dtype_bytes}


def reading_formula(view: RunView | None) -> dict[str, Any]:
    """The same, and the bytes of weights that every step reads: all that it takes to say at any context what engine.measure.reading says.
    Without the latter where the model does not tell what its steps read."""
    if view is None or view.model is None:
        return {}
    try:
        return {**notes_formula(view), "weights_read_bytes": step_reads(view.model, 1).weights_bytes}
    except UnsupportedConfig:
        return notes_formula(view)
