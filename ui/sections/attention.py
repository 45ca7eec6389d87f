"""The attention map of the current run with its picker, and the strip that shows what one token reads.

Knows a run's snapshot, what of its map is drawn, and the words; does not know how weights come about, nor which page it stands on.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import streamlit as st

from engine.errors import EngineError
from engine.trace import RunStatus, RunView, Token
from ui import failures, looking, panels, state, weights
from ui.components.attention_map import attention_map
from ui.components.token_strip import token_strip
from ui.failures import code_span
from ui.sections import heads
from ui.state import t

MAP, STRIP, END_BOX = "attention_map", "attention_strip", "map_end_box"  # keys of the widgets
ROWS_AT_ONCE = 16  # while a run plays, the answer's rows come in steps: each look is asked of the engine that is writing
SINKS: tuple[weights.Sink, ...] = ("show", "hide", "renormalise")


@dataclass(frozen=True, slots=True)
class Drawn:
    """What is drawn: of layer and head (None: the mean) the rows over `span`, of `count` tokens.

    `rows` [span, keys up to the last row's] have the first column taken out where `sink` says so; `sink_share` is its share before that.
    `found`: the strongest link, outside the template if there is one (`template_aside`).
    """

    layer: int | None
    head: int | None
    count: int
    span: range
    sink: weights.Sink
    rows: np.ndarray
    sink_share: float
    found: weights.StrongLink | None
    template_aside: bool


def show(view: RunView) -> None:
    """Draw the section."""
    if view.model is None or view.prefill is None:
        return
    top = panels.card("reader")
    left, right = st.columns([2, 1])
    with right, panels.card("heads"):
        panels.card_title(t("attention.picker"), None, t("attention.picker_note", group=view.model.shape.group_size))
        layer, head = heads.layer_and_head(view.model.shape)
        st.caption(t("attention.gloss"))
    with right, panels.card("map_look"):
        sink = _sink()
        count = _tokens_drawn_from(view)
        span = _span(count)
        st.caption(t("attention.reading"))
    with left, panels.card("map"):
        drawn: Drawn | None = None
        try:
            drawn = found = _look(view, layer, head, count, span, sink)
        except EngineError as error:
            panels.card_title(t("attention.title"))
            st.info(failures.explain(error.info), icon=":material/visibility_off:")
        else:
            _map(view, found)
    with top:
        _strip(view, drawn)


def _sink() -> weights.Sink:
    chosen = st.segmented_control(
        t("attention.sink"), SINKS, required=True, format_func=state.names("attention.sink_"), key=state.SINK, persist_state="session"
    )
    return chosen if chosen in SINKS else "show"


def _tokens_drawn_from(view: RunView) -> int:
    """How many tokens the map is about: the prompt's, or those of the answer too that have been read, up to the cursor if there is one."""
    prompt = len(view.tokens)
    wanted = st.toggle(t("attention.answer_rows"), key=state.ANSWER_ROWS, help=t("attention.answer_rows_help"), persist_state="session")
    if not wanted:
        return prompt
    written, cursor = len(view.steps), state.cursor()
    if view.status == RunStatus.RUNNING:
        written -= written % ROWS_AT_ONCE
    return prompt + (written if cursor is None else min(written, cursor))


def _span(count: int) -> range:
    """The positions that are drawn; where not all can be, the reader moves the last one."""
    query, end = state.get(state.QUERY_AT), state.get(state.MAP_END)
    span = weights.span_drawn(count, end, query)
    if count > weights.MOST_DRAWN:
        state.put(END_BOX, span.stop)
        st.slider(t("attention.end"), weights.MOST_DRAWN, count, key=END_BOX, on_change=_end_moved)
    return span


def _end_moved() -> None:
    state.put(state.MAP_END, state.get(END_BOX))


def _look(view: RunView, layer: int | None, head: int | None, count: int, span: range, sink: weights.Sink) -> Drawn:
    """The rows, as they are to be drawn. Raises EngineError."""
    if _read_again(view):
        st.caption(f":material/replay: {t('attention.again')}")
        with st.spinner(t("attention.reading_again")):
            rows = looking.attention(view, layer, head, rows=len(span), until=span.stop)
    else:
        rows = looking.attention(view, layer, head, rows=len(span), until=span.stop)
    shown = weights.without_sink(rows) if sink == "renormalise" else rows
    ours = np.array([token.kind != "template" for token in looking.tokens_read(view)[: span.stop]])
    own = None if ours.all() else weights.strongest(shown, ours)
    return Drawn(layer, head, count, span, sink, shown, weights.sink_share(rows), own or weights.strongest(shown), own is not None)


def _read_again(view: RunView) -> bool:
    """Whether the queries were too many to be kept, so that a look costs another reading."""
    if view.prefill is None or view.model is None or view.model.attention_reason is not None or not view.settings.capture_attention:
        return False
    newest = view.steps[-1] if view.steps else view.prefill
    return newest.recorded_bytes == 0


def _map(view: RunView, drawn: Drawn) -> None:
    assert view.model is not None
    tokens, names = looking.tokens_read(view), heads.names(drawn.layer, drawn.head)
    window = heads.window_of(view.model.shape, drawn.layer)
    panels.card_title(_finding(drawn, tokens), "measured", t("attention.map_note", **names))
    query, key = _picked(drawn)
    attention_map(
        key=MAP,
        labels=state.labels(MAP),
        name=t("attention.map_note", **names),
        tokens=tokens[drawn.span.start : drawn.span.stop],
        weights=drawn.rows,
        window=window,
        first_shown=drawn.sink == "show",
        query=query,
        key_at=key,
        on_picked=_picked_in_map,
    )
    st.caption(_sink_words(drawn))
    if window is not None:
        st.caption(t("attention.window" if window < drawn.count else "attention.window_wide", window=f"{window:,}"))
    if len(drawn.span) < drawn.count:
        st.caption(_hidden_words(drawn))


def _finding(drawn: Drawn, tokens: tuple[Token, ...]) -> str:
    found = drawn.found
    if found is None:
        return t("attention.no_link")
    places = {"query": _quoted(tokens[found.query]), "q": found.query, "key": _quoted(tokens[found.key]), "k": found.key}
    return t("attention.finding_own" if drawn.template_aside else "attention.finding", **places, weight=f"{found.weight:.2f}")


def _quoted(token: Token) -> str:
    return code_span(panels.visible(token.text, token.raw), 24)


def _sink_words(drawn: Drawn) -> str:
    words = {"show": "sink_share", "hide": "sink_hidden", "renormalise": "sink_taken"}
    return t(f"attention.{words[drawn.sink]}", share=f"{drawn.sink_share:.0%}")


def _hidden_words(drawn: Drawn) -> str:
    span = drawn.span
    places = {"shown": len(span), "count": f"{drawn.count:,}", "from": f"{span.start:,}", "to": f"{span.stop - 1:,}"}
    if not span.start:
        return t("attention.hidden_after", **places)
    share = weights.hidden_share(drawn.rows, span.start, drawn.sink)
    return t("attention.hidden", **places, before=f"{span.start:,}", share=f"{share:.0%}")


def _picked(drawn: Drawn) -> tuple[int | None, int | None]:
    """Row and column that are picked; before the reader has picked any, those of the strongest link."""
    query, key = state.get(state.QUERY_AT), state.get(state.KEY_AT)
    if query is not None and query < drawn.count:
        return query, key if key is not None and key <= query else None
    return (None, None) if drawn.found is None else (drawn.found.query, drawn.found.key)


def _picked_in_map() -> None:
    picked = state.get(MAP).picked
    if picked is not None:
        state.put(state.QUERY_AT, int(picked["query"]))
        state.put(state.KEY_AT, None if picked["key"] is None else int(picked["key"]))


def _picked_in_strip(span: range) -> None:
    """The row of a token that is not drawn is brought into the map."""
    picked = state.get(STRIP).picked
    if picked is not None:
        state.put(state.QUERY_AT, int(picked))
        state.put(state.KEY_AT, None)
        if picked not in span:
            state.put(state.MAP_END, None)


def _strip(view: RunView, drawn: Drawn | None) -> None:
    """All tokens, and what the picked one looks at."""
    panels.card_title(t("attention.strip"), "measured" if drawn else None, t("attention.strip_note"))
    query, key = (None, None) if drawn is None else _picked(drawn)
    token_strip(
        **panels.live(view),
        show="all" if state.get(state.ANSWER_ROWS) else "prompt",
        weights=None if drawn is None or query is None else _row(view, drawn, query).tolist(),
        reader=query,
        target=key,
        pick=drawn is not None,
        on_picked=partial(_picked_in_strip, range(0) if drawn is None else drawn.span),
        labels=state.labels("token_strip"),
        key=STRIP,
    )
    if drawn is not None and query is not None:
        st.caption(_reader_words(drawn, query, looking.tokens_read(view)[query]))


def _reader_words(drawn: Drawn, query: int, reader: Token) -> str:
    asked = state.get(state.QUERY_AT)
    if state.get(state.ANSWER_ROWS) and asked is not None and asked >= drawn.count:
        return t("attention.unread", q=asked)
    words = t("attention.reader", query=_quoted(reader), q=query)
    return words if query in drawn.span else f"{words} {t('attention.not_in_map')}"


def _row(view: RunView, drawn: Drawn, query: int) -> np.ndarray:
    """float32 [query + 1]: what the token at `query` reads, the first token as in the map. Raises EngineError."""
    if query in drawn.span:
        row = drawn.rows[query - drawn.span.start, : query + 1].copy()
    else:
        row = looking.row(view, drawn.layer, drawn.head, query)
        row = weights.without_sink(row[None])[0] if drawn.sink == "renormalise" else row.copy()
    if drawn.sink != "show":
        row[0] = 0
    return row
