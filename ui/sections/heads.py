"""The picker of layer and head, in which heads that share notes stand in one box.

Knows widgets and a model's shape; does not know what is drawn of the head that is picked.
"""

from __future__ import annotations

import streamlit as st

from engine.model.shape import ModelShape
from ui import state
from ui.state import t

MOST_HEAD_BUTTONS = 24
BUTTON_PX = 52  # wide enough for a finger, and for the last row of a class
BESIDE = 3  # heads of one set of notes that leave room for its name beside them


def layer_and_head(shape: ModelShape) -> tuple[int | None, int | None]:
    """Which attention map: a layer or (None) the mean over layers, and a head or (None) the mean over heads."""
    return _layer(shape.num_hidden_layers), _head(shape)


def names(layer: int | None, head: int | None) -> dict[str, str]:
    """The picked layer and head in words."""
    return {
        "layer": t("attention.layer_all") if layer is None else t("attention.layer_n", layer=layer),
        "head": t("attention.head_all") if head is None else t("attention.head_n", head=head),
    }


def window_of(shape: ModelShape, layer: int | None) -> int | None:
    """The window of the picked layer in tokens; of the mean over layers the widest, where every layer has one. None: no such border."""
    windows = shape.layer_windows if layer is None else shape.layer_windows[layer : layer + 1]
    seen = [window for window in windows if window is not None]
    return max(seen) if seen and len(seen) == len(windows) else None


def _layer(layers: int) -> int | None:
    if layers == 1:
        return 0
    chosen = state.get(state.LAYER)
    state.put(state.LAYER, layers // 2 if chosen is None else min(max(int(chosen), 0), layers - 1))
    mean = bool(state.get(state.LAYER_MEAN))
    layer = st.slider(t("attention.layer"), 0, layers - 1, key=state.LAYER, disabled=mean, persist_state="session")
    st.toggle(t("attention.layer_mean"), key=state.LAYER_MEAN, persist_state="session")
    return None if mean else int(layer)


def _head(shape: ModelShape) -> int | None:
    heads, head = shape.num_attention_heads, state.get(state.HEAD)
    if head is not None and head >= heads:
        state.choose_head(head := None)
    if heads > MOST_HEAD_BUTTONS:
        state.put(state.HEAD_NUMBER, head)  # `value=None` only says that the field may be emptied
        st.number_input(t("attention.head_number"), 0, heads - 1, value=None, key=state.HEAD_NUMBER, on_change=_number_to_head)
        return head
    with st.container(horizontal=True, gap="small", key="heads"):
        for group in range(shape.num_key_value_heads):
            _group(group, range(group * shape.group_size, (group + 1) * shape.group_size), head)
    _button(None, head)
    return head


def _group(group: int, heads: range, chosen: int | None) -> None:
    """One set of notes and the heads that read it."""
    beside = len(heads) <= BESIDE
    with st.container(border=True, width="content", horizontal=beside, vertical_alignment="center", gap="xsmall", key=f"notes_{group}"):
        st.caption(t("attention.notes_group", group=group), width="content")
        with st.container(horizontal=True, width="content", gap="xsmall"):
            for number in heads:
                _button(number, chosen)


def _button(number: int | None, chosen: int | None) -> None:
    st.button(
        t("attention.head_mean") if number is None else str(number),
        key=f"head_{number}",
        type="primary" if number == chosen else "secondary",
        width="content" if number is None else BUTTON_PX,
        help=None if number is None else t("attention.head_button", head=number),
        on_click=state.choose_head,
        args=(number,),
    )


def _number_to_head() -> None:
    state.choose_head(state.get(state.HEAD_NUMBER))
