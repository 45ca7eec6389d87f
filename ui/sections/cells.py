"""The notes as a grid, lit by what the step on screen reads, and one cell of them opened.

Knows a run's snapshot, its live memory's answers and the words; does not know which page it stands on.
"""

from __future__ import annotations

import numpy as np
import streamlit as st

from engine.errors import EngineError
from engine.kv import sizes
from engine.model.shape import ModelShape
from engine.trace import ModelInfo, RunStatus, RunView, Token
from ui import failures, literal, looking, numbers, panels, state
from ui.components.cell import cell
from ui.components.notes import notes
from ui.state import t

NAME_MOST = 24  # characters of a token in a heading


def show(view: RunView) -> None:
    """Draw the section."""
    with panels.card("notes", stretch=True):
        panels.card_title(t("decode.notes"), looking.vouched(view), t("decode.notes_note"), anchor="notes")
        glance, unlit = _light(view)
        opened = _opened(view)
        notes(
            **panels.live(view),
            **numbers.reading_formula(view),
            glance=glance,
            unlit=unlit,
            pace_s=state.pace_s() if state.may_steer() else view.pace_s,
            opened=opened,
            on_opened=_picked,
            labels=state.labels("notes"),
            key=state.NOTES_PICKS,
        )
        if opened is not None and view.model is not None:
            with st.container(border=True, key="opened_cell"):
                _cell(view, view.model, *opened)


def _light(view: RunView) -> tuple[tuple[int, np.ndarray] | None, str | None]:
    """How the step on screen read the notes, or why that is not shown. While a run plays, nothing is asked."""
    index = looking.index_shown(view)
    if index is None or looking.moving(view):
        return None, None
    if looking.reads_again(view):  # a light that nobody switched on must not cost another reading of a long text
        return None, t("cells.unlit_long")
    try:
        return (index, looking.glance(view, index)), None
    except EngineError as error:
        return None, failures.explain(error.info)


def _opened(view: RunView) -> tuple[int, int] | None:
    """(layer, position) of the cell that is open, if this run can have it."""
    layer, position = state.get(state.CELL_LAYER), state.get(state.CELL_POSITION)
    if view.model is None or layer is None or position is None:
        return None
    there = 0 <= layer < len(view.model.shape.layer_windows) and 0 <= position < len(view.tokens) + view.settings.max_new_tokens
    return (layer, position) if there else None


def _picked() -> None:
    """The reader opened a cell. One of a picture that is gone stays shut."""
    picked = state.get(state.NOTES_PICKS).opened
    if not isinstance(picked, dict) or picked.get("run") != state.run_id():
        return
    layer, position = state.whole(picked.get("layer")), state.whole(picked.get("position"))
    if layer is not None and position is not None:
        state.put(state.CELL_LAYER, layer)
        state.put(state.CELL_POSITION, position)


def _close() -> None:
    state.put(state.CELL_LAYER, None)
    state.put(state.CELL_POSITION, None)


def _cell(view: RunView, info: ModelInfo, layer: int, position: int) -> None:
    """One cell: whose it is, how large, and its two vectors; or why there is nothing to see."""
    index = looking.index_shown(view)
    written = 0 if index is None else len(view.tokens) + index
    token = (*view.tokens, *view.generated)[position] if position < written else None
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        st.markdown(_heading(token, layer, position), width="content")
        st.button(t("cells.close"), key="close_cell", on_click=_close, type="tertiary", icon=":material/close:", shortcut="Esc")
    if token is None:
        st.markdown(f":material/draft: {t('cells.blank', position=position)}")
        return
    window = info.shape.layer_windows[layer]
    found = None if info.shape.kv_lora_rank else _look(view, layer, position, window)
    _facts(info, found)
    if window is not None:
        st.caption(t("cells.window", window=f"{window:,}"))
    if found is None:
        return
    if window is not None and position < len(looking.tokens_read(view)) - window + 1:
        st.caption(f":material/history: {t('cells.left')}")
    cell(key="cell_vectors", labels=state.labels("cell"), name=t("cells.name", layer=layer, position=position), numbers=found)


def _heading(token: Token | None, layer: int, position: int) -> str:
    if token is None:
        return f"**{t('cells.name', layer=layer, position=position)}**"
    kind = "special" if token.special else "answer" if token.kind == "generated" else token.kind
    name = failures.code_span(literal.short(token.text, token.raw, NAME_MOST))
    return f"**{t('cells.name_token', layer=layer, token=name, position=position)}** · {t(f'components.live_{kind}')}"


def _look(view: RunView, layer: int, position: int, window: int | None) -> np.ndarray | None:
    """Key and value, float32 [2, kv_heads, head_dim]; None where it has been said why there are none.

    A run that plays answers between two tokens; one that waits for its turn has no live memory yet, and is not asked.
    """
    if view.status == RunStatus.QUEUED:
        st.caption(f":material/hourglass_empty: {t('cells.waits')}")
        return None
    try:
        return looking.cell(view, layer, position)
    except EngineError as error:
        forgotten = window is not None and error.info.code == "out_of_range"
        words = t("cells.forgotten", window=f"{window:,}") if forgotten else failures.explain(error.info)
        st.info(words, icon=":material/visibility_off:")
        return None


def _facts(info: ModelInfo, found: np.ndarray | None) -> None:
    """Shapes, bytes, and who shares them. `found`: what the tensors hold; without it the model's own numbers say what they should."""
    shape = info.shape
    each = sizes.layer_token_width(shape) * info.dtype_bytes
    if shape.kv_lora_rank is not None:
        words = t("cells.latent", rank=shape.kv_lora_rank, rope=shape.qk_rope_head_dim, dtype=info.dtype)
        product = f"({shape.kv_lora_rank} + {shape.qk_rope_head_dim}) × {info.dtype_bytes} B"
    else:
        heads, width = (shape.num_key_value_heads, shape.head_dim) if found is None else found.shape[1:]
        words = t("cells.shapes", shape=f"`[{heads}, {width}]`", heads=heads, width=width, dtype=info.dtype)
        words = f"{words} {panels.badge('computed' if found is None else 'measured')}"
        product = f"2 × {shape.num_key_value_heads} × {shape.head_dim} × {info.dtype_bytes} B"
    size = f"{t('cells.bytes', product=product, size=f'{each:,} B')} {panels.badge('computed')}"
    st.markdown("  \n".join((words, size, _sharing(shape))))


def _sharing(shape: ModelShape) -> str:
    """How many query heads read each set of notes."""
    kind = "latent" if shape.kv_lora_rank else "own" if shape.group_size == 1 else "one" if shape.num_key_value_heads == 1 else "groups"
    return t(f"cells.share_{kind}", heads=shape.num_attention_heads, kv_heads=shape.num_key_value_heads, group=shape.group_size)
