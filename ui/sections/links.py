"""What does a word refer to: the heads in which one token reads another most, ready examples, and two runs side by side.

Knows a run's snapshot and the words; does not know which page it stands on. Opening a head sets what the attention map shows.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import product

import numpy as np
import streamlit as st

from engine.errors import EngineError
from engine.trace import RunView, Token
from ui import asking, bars, failures, i18n, linking, looking, panels, resources, state
from ui.sections import pair
from ui.state import t

log = logging.getLogger(__name__)

EXAMPLES = ("rolled", "broke", "chinese")
CHINESE, GEMMA = "chinese", "gemma3-270m"
MOST_LISTED = 300  # tokens; a longer list is no help, a number is
ROWS_SEARCHED = 64  # the newest of the prompt, for a first suggestion
QUERY_BOX, KEY_BOX = "link_query_box", "link_key_box"


def preset(view: RunView) -> None:
    """Once per run, when its prompt has been read and before anything is drawn: pick the pair that strip, map and list begin with,
    that is the words of a ready example, else the strongest link of all heads."""
    if view.prefill is None or state.get(state.PRESET_RUN) == view.run_id:
        return
    state.put(state.PRESET_RUN, view.run_id)
    if state.get(state.QUERY_AT) is not None:
        return
    name = example_of(view.prompt)
    if name is not None:
        _pick_words(view.tokens, *pairs(state.language(), name)[0])
    elif not _unrecorded(view):
        try:
            _pick(*_strongest_pair(view))
        except EngineError as error:  # the sections ask the engine too, and tell the reader
            log.info("no link to begin with: %s", error)


def show(view: RunView) -> None:
    """Draw the section; the prompt has been read."""
    with panels.card("links"):
        panels.card_title(t("links.title"), "measured", t("links.note"))
        st.markdown(t("links.lead"))
        _examples()
        try:
            _link(view)
        except EngineError as error:
            st.info(failures.explain(error.info), icon=":material/visibility_off:")
    pair.show()


def example_of(prompt: str) -> str | None:
    """The ready example with this sentence (it is the same in every language)."""
    return next((name for name in EXAMPLES if t(f"links.{name}") == prompt), None)


def pairs(language: str, name: str) -> tuple[tuple[str, str], ...]:
    """(reading word, read word) of an example, the most telling first; each word as it stands in the sentence."""
    reading, read = (i18n.text(language, f"links.{name}_{side}").split() for side in ("reading", "read"))
    return tuple(product(reading, read))


def _examples() -> None:
    """Each click starts a run of the bare sentence, without a chat template."""
    st.caption(t("links.try"))
    with st.container(horizontal=True, key="link_examples"):
        for name in EXAMPLES:
            words, sentence = t(f"links.{name}_short"), t(f"links.{name}")
            st.button(words, key=f"link_{name}", help=sentence, icon=":material/play_arrow:", on_click=asking.start_raw, args=(sentence,))
    gemma = state.get(state.MODEL) == GEMMA
    st.caption(t("links.gloss") if gemma else f"{t('links.gloss')} {t('links.gemma')}")


def _link(view: RunView) -> None:
    """The two tokens, their link in the mean, and the heads where it is strongest. Raises EngineError."""
    tokens = looking.tokens_read(view)
    query, key = _chosen(view, len(tokens))
    left, right = st.columns([2, 3], gap="large")
    with left:
        _sentence(view, query, key)
        names = [token_name(token) for token in tokens]
        _select(QUERY_BOX, t("links.query"), names, query)
        _select(KEY_BOX, t("links.key"), names[: query + 1], key)
    if _unrecorded(view) and state.get(state.LINK_ASKED) != (view.run_id, query, key):
        _costly((view.run_id, query, key))
        return
    with left:
        weights = looking.links(view, query, key)
        _mean(view, tokens, (query, key), weights)
    with right:
        _heads(tokens, (query, key), weights)


def _unrecorded(view: RunView) -> bool:
    """Whether the queries were too many to be kept: every look then costs another reading of the whole text."""
    newest = view.steps[-1] if view.steps else view.prefill
    able = view.model is not None and view.model.attention_reason is None and view.settings.capture_attention
    return able and newest is not None and newest.recorded_bytes == 0


def _costly(wanted: tuple[str, int, int]) -> None:
    """A look that costs another reading is taken only when asked for."""
    st.caption(t("links.again"))
    st.button(t("links.look"), key="link_look", icon=":material/replay:", on_click=state.put, args=(state.LINK_ASKED, wanted))


def token_name(token: Token) -> str:
    """A token as a list shows it, the same in every language: its position, its text."""
    seen = panels.visible(token.text, token.raw)
    return f"{token.position}\u2002{seen if len(seen) <= 24 else seen[:23] + '…'}"


def _chosen(view: RunView, count: int) -> tuple[int, int]:
    """The two positions: as picked here, in the strip or in the map; what is not picked is the strongest there is."""
    query, key = state.get(state.QUERY_AT), state.get(state.KEY_AT)
    if _unrecorded(view):
        query = count - 1 if query is None else min(query, count - 1)
        return query, query if key is None else min(key, query)
    if query is None or not 0 <= query < count:
        return state.remembered("link_pair", view.run_id, lambda: _strongest_pair(view))
    if key is None or not 0 <= key <= query:
        key = state.remembered("link_key", (view.run_id, query), lambda: _strongest_key(view, query))
    return query, key


def _strongest_pair(view: RunView) -> tuple[int, int]:
    count = len(view.tokens)
    weights = resources.engine().attention(view.run_id, None, None, rows=min(count, ROWS_SEARCHED), until=count)
    return linking.strongest_pair(weights, view.tokens)


def _strongest_key(view: RunView, query: int) -> int:
    return linking.strongest_key(resources.engine().attention(view.run_id, None, None, rows=1, until=query + 1)[0])


def _sentence(view: RunView, query: int, key: int) -> None:
    """In a ready example: its telling pairs as buttons, and what only holds for one of them."""
    name = example_of(view.prompt)
    if name is None:
        return
    st.caption(t("links.pairs"))
    with st.container(horizontal=True, gap="xsmall", key="link_pairs"):
        for number, (reading, read) in enumerate(pairs(state.language(), name)):
            here = (linking.place_of(view.tokens, reading), linking.place_of(view.tokens, read)) == (query, key)
            icon = ":material/check:" if here else None
            st.button(f"{reading} → {read}", key=f"link_pair_{number}", icon=icon, on_click=_pick_words, args=(view.tokens, reading, read))
    if name == CHINESE:
        _continued(view)


def _continued(view: RunView) -> None:
    """What the model makes of the unfinished Chinese sentence, and whether it can read its words as wholes."""
    own = [token for token in view.tokens if token.kind == "prompt"]
    if parts := sum(not token.text for token in own):
        st.caption(t("links.bytes", parts=parts, tokens=len(own)))
    if view.prefill is not None and view.prefill.candidates:
        best = view.prefill.candidates[0]
        word = failures.code_span(panels.visible(best.text, best.raw))
        st.caption(t("links.continued", word=word, share=f"{best.probability:.0%}"))


def _select(box: str, label: str, names: Sequence[str], chosen: int) -> None:
    """One token of `names` by its position: from a list, or as a number where the list would be too long."""
    state.put(box, chosen)
    if len(names) <= MOST_LISTED:
        st.selectbox(label, range(len(names)), format_func=names.__getitem__, key=box, on_change=_take_boxes)
    else:
        st.number_input(label, 0, len(names) - 1, key=box, on_change=_take_boxes)
        st.text(names[chosen])


def _take_boxes() -> None:
    """A pair was chosen; a token that comes after its reader is none."""
    query, key = state.get(QUERY_BOX), state.get(KEY_BOX)
    _pick(query, key if key <= query else None)


def _pick(query: int, key: int | None) -> None:
    state.put(state.QUERY_AT, query)
    state.put(state.KEY_AT, key)


def _pick_words(tokens: Sequence[Token], reading: str, read: str) -> None:
    query, key = linking.place_of(tokens, reading), linking.place_of(tokens, read)
    if query is not None:
        _pick(query, key)


def span(token: Token) -> str:
    """A token inside a sentence of ours."""
    return failures.code_span(panels.visible(token.text, token.raw))


def _mean(view: RunView, tokens: Sequence[Token], link: tuple[int, int], weights: np.ndarray) -> None:
    """The same link in the mean over all heads, beside what the first token gets there."""
    query, key = link
    places = {"query": span(tokens[query]), "key": span(tokens[key]), "heads": f"{weights.size:,}", "mean": f"{weights.mean():.1%}"}
    if key == 0 or _unrecorded(view):
        st.markdown(t("links.mean_first" if key == 0 else "links.mean_only", **places))
    else:
        first = looking.links(view, query, 0, "links_first")
        st.markdown(t("links.mean", **places, first=f"{first.mean():.1%}"))
    st.caption(t("links.caution"))


def _heads(tokens: Sequence[Token], link: tuple[int, int], weights: np.ndarray) -> None:
    """The heads where the link is strongest, one button each."""
    query, key = link
    found = linking.strongest(weights)
    places = {"query": span(tokens[query]), "key": span(tokens[key])}
    if not found:
        st.markdown(t("links.none", **places))
        return
    st.markdown(t("links.ranking", count=len(found), heads=f"{weights.size:,}", **places))
    with st.container(gap="xsmall", key="link_heads"):
        for head in found:
            _head(head, found[0].weight, link)
    st.caption(t("links.open_note"))


def _head(link: linking.HeadLink, most: float, pair_of: tuple[int, int]) -> None:
    """One head: open it in the map above; the one that is open there is marked."""
    opened = (state.get(state.LAYER), state.get(state.HEAD), bool(state.get(state.LAYER_MEAN))) == (link.layer, link.head, False)
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.button(
            t("links.head", layer=link.layer, head=link.head),
            key=f"link_head_{link.layer}_{link.head}",
            type="primary" if opened else "secondary",
            icon=":material/visibility:" if opened else ":material/grid_on:",
            help=t("links.opened" if opened else "links.open"),
            width=190,
            on_click=_open,
            args=(link.layer, link.head, *pair_of),
        )
        bars.bar(link.weight / most, f"{link.weight:.3f}")


def _open(layer: int, head: int, query: int, key: int) -> None:
    """The map above shows this layer and head, with this link picked."""
    state.put(state.LAYER, layer)
    state.choose_head(head)
    state.put(state.LAYER_MEAN, False)
    _pick(query, key)
