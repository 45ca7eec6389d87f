"""What does a word refer to: the heads in which one token reads another most, ready examples, and two runs side by side.

Knows a run's snapshot and the words; does not know which page it stands on. Opening a head sets what the attention map shows.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np
import streamlit as st

from engine.errors import EngineError
from engine.trace import RunView, Token
from ui import asking, failures, linking, literal, looking, panels, resources, scale, state
from ui import weights as map_rows
from ui.linking import Example
from ui.sections import pair
from ui.state import t

log = logging.getLogger(__name__)

GEMMA = "gemma3-270m"
MOST_LISTED = 300  # tokens; a longer list is no help, a number is
ROWS_SEARCHED = 64  # the newest of the prompt, for a first suggestion
NAME_MOST = 24  # characters of a token in a list


def preset(view: RunView) -> None:
    """Once per run, when its prompt has been read and before anything is drawn: pick the pair that strip, map and list begin with,
    that is the words of a ready example, else the strongest link of all heads."""
    if view.prefill is None or state.get(state.PRESET_RUN) == view.run_id:
        return
    state.put(state.PRESET_RUN, view.run_id)
    if state.get(state.QUERY_AT) is not None:
        return
    example = linking.example_of(view.prompt)
    if example is not None:
        _pick_words(view.tokens, *example.pairs[0])
    elif not looking.reads_again(view):
        try:
            looking.pick(*_strongest_pair(view))
        except EngineError as error:  # the sections ask the engine too, and tell the reader
            log.info("no link to begin with: %s", error)


def show(view: RunView) -> None:
    """Draw the section; the prompt has been read."""
    with panels.card("links"):
        panels.card_title(t("links.title"), "measured", t("links.note"), anchor="heads")
        st.markdown(t("links.lead"))
        _examples()
        try:
            _link(view)
        except EngineError as error:
            st.info(failures.explain(error.info), icon=":material/visibility_off:")
    pair.show()


def _examples() -> None:
    """Each click starts a run of the bare sentence, without a chat template."""
    st.caption(t("links.try"))
    with st.container(horizontal=True, key="link_examples"):
        for example in linking.EXAMPLES:
            _example(example)
    gemma = state.get(state.MODEL) == GEMMA
    st.caption(t("links.gloss") if gemma else f"{t('links.gloss')} {t('links.gemma')}")


def _example(example: Example) -> None:
    words, given = t(f"links.{example.key}_short"), (example.sentence,)
    st.button(words, key=f"link_{example.key}", help=example.sentence, icon=":material/play_arrow:", on_click=asking.start_raw, args=given)


def _link(view: RunView) -> None:
    """The two tokens, their link in the mean, and the heads where it is strongest. Raises EngineError."""
    tokens = looking.tokens_read(view)
    query, key = _chosen(view, len(tokens))
    left, right = st.columns([2, 3], gap="large")
    with left:
        _sentence(view, query, key)
        names = [token_name(token) for token in tokens]
        _select(state.LINK_QUERY, t("links.query"), names, query)
        _select(state.LINK_KEY, t("links.key"), names[: query + 1], key)
    if looking.reads_again(view) and state.get(state.LINK_ASKED) != (view.run_id, query, key):
        _costly((view.run_id, query, key))
        return
    with left:
        weights = looking.links(view, query, key)
        _mean(view, tokens, (query, key), weights)
    with right:
        _heads(tokens, (query, key), weights)


def _costly(wanted: tuple[str, int, int]) -> None:
    """A look that costs another reading is taken only when asked for."""
    st.caption(t("links.again"))
    st.button(t("links.look"), key="link_look", icon=":material/replay:", on_click=state.put, args=(state.LINK_ASKED, wanted))


def token_name(token: Token) -> str:
    """A token as a list shows it, the same in every language: its position, its text."""
    return f"{token.position}\u2002{literal.short(token.text, token.raw, NAME_MOST)}"


def _chosen(view: RunView, count: int) -> tuple[int, int]:
    """The two positions: as picked here, in the strip or in the map; what is not picked is the strongest there is."""
    query, key = state.get(state.QUERY_AT), state.get(state.KEY_AT)
    if looking.reads_again(view):
        query = count - 1 if query is None else min(query, count - 1)
        return query, query if key is None else min(key, query)
    if query is None or not 0 <= query < count:
        return state.remembered(state.STRONGEST_PAIR, view.run_id, lambda: _strongest_pair(view))
    if key is None or not 0 <= key <= query:
        key = state.remembered(state.STRONGEST_KEY, (view.run_id, query), lambda: _strongest_key(view, query))
    return query, key


def _strongest_pair(view: RunView) -> tuple[int, int]:
    """Two of the reader's own tokens; where nothing links any, the last token with itself. Raises EngineError."""
    count, own = len(view.tokens), np.array([token.kind == "prompt" for token in view.tokens])
    weights = resources.engine().attention(view.run_id, None, None, rows=min(count, ROWS_SEARCHED), until=count)
    found = map_rows.strongest(weights, own)
    return (count - 1, count - 1) if found is None else (found.query, found.key)


def _strongest_key(view: RunView, query: int) -> int:
    return linking.strongest_key(resources.engine().attention(view.run_id, None, None, rows=1, until=query + 1)[0])


def _sentence(view: RunView, query: int, key: int) -> None:
    """In a ready example: its telling pairs as buttons, and what only holds for one of them."""
    example = linking.example_of(view.prompt)
    if example is None:
        return
    st.caption(t("links.pairs"))
    with st.container(horizontal=True, gap="xsmall", key="link_pairs"):
        for number, (reading, read) in enumerate(example.pairs):
            here = (linking.place_of(view.tokens, reading), linking.place_of(view.tokens, read)) == (query, key)
            icon = ":material/check:" if here else None
            st.button(f"{reading} → {read}", key=f"link_pair_{number}", icon=icon, on_click=_pick_words, args=(view.tokens, reading, read))
    if example == linking.CHINESE:
        _continued(view)


def _continued(view: RunView) -> None:
    """What the model makes of the unfinished Chinese sentence, and whether it can read its words as wholes."""
    own = [token for token in view.tokens if token.kind == "prompt"]
    if parts := sum(not token.text for token in own):
        st.caption(t("links.bytes", parts=parts, tokens=len(own)))
    if view.prefill is not None and view.prefill.candidates:
        best = view.prefill.candidates[0]
        word = failures.code_span(literal.visible(best.text, best.raw))
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
    """A pair was chosen; a token that comes after its reader is none. A choice from a list that has been replaced meanwhile (another
    question, another reader) comes as its words and not as a position: nobody can say which token it means now."""
    query, key = state.get(state.LINK_QUERY), state.get(state.LINK_KEY)
    if isinstance(query, int) and isinstance(key, int):
        looking.pick(query, key if key <= query else None)


def _pick_words(tokens: Sequence[Token], reading: str, read: str) -> None:
    query, key = linking.place_of(tokens, reading), linking.place_of(tokens, read)
    if query is not None:
        looking.pick(query, key)


def _quoted(token: Token) -> str:
    """A token inside a sentence of ours."""
    return failures.code_span(literal.visible(token.text, token.raw))


def _mean(view: RunView, tokens: Sequence[Token], link: tuple[int, int], weights: np.ndarray) -> None:
    """The same link in the mean over all heads, beside what the first token gets there."""
    query, key = link
    places = {"query": _quoted(tokens[query]), "key": _quoted(tokens[key]), "heads": f"{weights.size:,}", "mean": f"{weights.mean():.1%}"}
    if key == 0 or looking.reads_again(view):
        st.markdown(t("links.mean_first" if key == 0 else "links.mean_only", **places))
    else:
        first = looking.links(view, query, 0, state.FIRST_SEEN)
        st.markdown(t("links.mean", **places, first=f"{first.mean():.1%}"))
    st.caption(t("links.caution"))


def _heads(tokens: Sequence[Token], link: tuple[int, int], weights: np.ndarray) -> None:
    """The heads where the link is strongest, one button each."""
    query, key = link
    found = linking.strongest(weights)
    places = {"query": _quoted(tokens[query]), "key": _quoted(tokens[key])}
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
        scale.bar(link.weight / most, f"{link.weight:.3f}")


def _open(layer: int, head: int, query: int, key: int) -> None:
    """The map above shows this layer and head, with this link picked."""
    state.put(state.LAYER, layer)
    state.choose_head(head)
    state.put(state.LAYER_MEAN, False)
    looking.pick(query, key)
