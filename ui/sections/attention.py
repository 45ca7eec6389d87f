"""The attention map of the current run with its picker, and the strip that shows what one token reads.

Knows a run's snapshot, what of its map is drawn, and the words; does not know how weights come about, nor which page it stands on.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import numpy as np
import streamlit as st

from engine.errors import EngineError
from engine.trace import RunStatus, RunView, Token
from ui import failures, linking, literal, looking, panels, state
from ui import weights as map_rows
from ui.components.attention_map import attention_map
from ui.components.token_strip import token_strip
from ui.numbers import Evidence
from ui.sections import heads
from ui.state import t

NEW_ROWS = 16  # that the answer brings at once while a run plays: each look is asked of the engine that is writing
NAME_MOST = 24  # characters of a token in a sentence
SINKS: tuple[map_rows.Sink, ...] = ("show", "hide", "renormalise")


@dataclass(frozen=True, slots=True)
class Drawn:
    """What is drawn: of layer and head (None: the mean) the rows over `span`, of `count` tokens.

    `rows` [span, keys up to the last row's] have the first column taken out where `sink` says so; `sink_share` is its share before that.
    `found`: the strongest link, outside the template if there is one (`template_aside`). `query`, `key`: positions of the row and the
    column that are picked; `row` [query + 1]: what the token there reads, with or without the first one as in the map.
    """

    layer: int | None
    head: int | None
    count: int
    span: range
    sink: map_rows.Sink
    rows: np.ndarray
    sink_share: float
    found: map_rows.StrongLink | None
    template_aside: bool
    query: int | None
    key: int | None
    row: np.ndarray | None

    @property
    def evidence(self) -> Evidence:
        """Shares of what is left without the first token are no weights of the model's."""
        return "computed" if self.sink == "renormalise" else "measured"


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
        drawn = None
        try:
            drawn = _look(view, layer, head, count, span, sink)
        except EngineError as error:
            panels.card_title(t("attention.title"))
            st.info(failures.explain(error.info), icon=":material/visibility_off:")
        if drawn is not None:
            _map(view, drawn)
    with top:
        _strip(view, drawn)


def _sink() -> map_rows.Sink:
    chosen = st.segmented_control(
        t("attention.sink"), SINKS, required=True, format_func=state.names("attention.sink_"), key=state.SINK, persist_state="session"
    )
    return chosen if chosen in SINKS else "show"


def _tokens_drawn_from(view: RunView) -> int:
    """How many tokens the map is about: the prompt's, or those of the answer too that have been read, up to the cursor if there is one.
    While a run plays, some of the newest ones may wait for each other, but none for which the reader has asked."""
    prompt = len(view.tokens)
    wanted = st.toggle(t("attention.answer_rows"), key=state.ANSWER_ROWS, help=t("attention.answer_rows_help"), persist_state="session")
    if not wanted:
        return prompt
    written, cursor = len(view.steps), state.cursor()
    if view.status == RunStatus.RUNNING:
        asked = state.get(state.QUERY_AT)
        written = min(written, max(written - written % NEW_ROWS, 0 if asked is None else asked + 1 - prompt))
    return prompt + (written if cursor is None else min(written, cursor))


def _span(count: int) -> range:
    """The positions that are drawn; where not all can be, the reader moves the last one."""
    query, end = state.get(state.QUERY_AT), state.get(state.MAP_END)
    span = map_rows.span_drawn(count, end, query)
    if count > map_rows.MOST_DRAWN:
        state.put(state.MAP_END_BOX, span.stop)
        st.slider(t("attention.end"), map_rows.MOST_DRAWN, count, key=state.MAP_END_BOX, on_change=_end_moved)
    return span


def _end_moved() -> None:
    state.put(state.MAP_END, state.get(state.MAP_END_BOX))


def _look(view: RunView, layer: int | None, head: int | None, count: int, span: range, sink: map_rows.Sink) -> Drawn:
    """The rows, as they are to be drawn. Raises EngineError."""
    with _waiting(view):
        seen = looking.attention(view, layer, head, rows=len(span), until=span.stop)
        shown = map_rows.without_sink(seen) if sink == "renormalise" else seen
        ours = np.array([token.kind != "template" for token in looking.tokens_read(view)[: span.stop]])
        own = None if ours.all() else map_rows.strongest(shown, ours)
        found = own or map_rows.strongest(shown)
        query, key = _picked(count, found)
        if query is None:
            row = None
        elif query in span:
            row = _one_row(seen[query - span.start, : query + 1], sink)
        else:
            row = _one_row(looking.row(view, layer, head, query), sink)
    share = map_rows.sink_share(seen)
    return Drawn(layer, head, count, span, sink, shown, share, found, own is not None, query, key, row)


def _waiting(view: RunView) -> AbstractContextManager[None]:
    """Says what a look costs where the queries have not been kept."""
    if not looking.reads_again(view):
        return nullcontext()
    st.caption(f":material/replay: {t('attention.again')}")
    return st.spinner(t("attention.reading_again"))


def _picked(count: int, found: map_rows.StrongLink | None) -> tuple[int | None, int | None]:
    """Row and column that are picked; before the reader has picked any, those of the strongest link."""
    query, key = state.get(state.QUERY_AT), state.get(state.KEY_AT)
    if query is not None and query < count:
        return query, key if key is not None and key <= query else None
    return (None, None) if found is None else (found.query, found.key)


def _one_row(row: np.ndarray, sink: map_rows.Sink) -> np.ndarray:
    """A row of the map as the strip shows it, where the first token has a chip but need not have a line."""
    if sink == "show":
        return row
    shown = map_rows.without_sink(row[None])[0] if sink == "renormalise" else row.copy()
    shown[0] = 0
    return shown


def _map(view: RunView, drawn: Drawn) -> None:
    assert view.model is not None
    tokens, names = looking.tokens_read(view), heads.names(drawn.layer, drawn.head)
    window = heads.window_of(view.model.shape, drawn.layer)
    panels.card_title(_finding(drawn, tokens), drawn.evidence, t("attention.map_note", **names), anchor="map")
    attention_map(
        key=state.MAP_PICKS,
        labels=state.labels("attention_map"),
        name=t("attention.map_note", **names),
        tokens=tokens[drawn.span.start : drawn.span.stop],
        weights=drawn.rows,
        window=window,
        first_shown=drawn.sink == "show",
        query=drawn.query,
        key_at=drawn.key,
        on_picked=_picked_in_map,
    )
    st.caption(_sink_words(drawn))
    if window is not None:
        words = "window" if drawn.layer is not None else "windows"
        st.caption(t(f"attention.{words}" if window < drawn.count else f"attention.{words}_wide", window=f"{window:,}"))
    if len(drawn.span) < drawn.count:
        st.caption(_hidden_words(drawn))


def _finding(drawn: Drawn, tokens: tuple[Token, ...]) -> str:
    found = drawn.found
    if found is None:
        return t("attention.no_link")
    places = {"query": _quoted(tokens[found.query]), "q": found.query, "key": _quoted(tokens[found.key]), "k": found.key}
    return t("attention.finding_own" if drawn.template_aside else "attention.finding", **places, weight=f"{found.weight:.2f}")


def _quoted(token: Token) -> str:
    return failures.code_span(literal.short(token.text, token.raw, NAME_MOST))


def _sink_words(drawn: Drawn) -> str:
    words = {"show": "sink_share", "hide": "sink_hidden", "renormalise": "sink_taken"}
    said = t(f"attention.{words[drawn.sink]}", share=f"{drawn.sink_share:.0%}")
    return said if len(drawn.span) == drawn.count else f"{said} {t('attention.sink_drawn')}"


def _hidden_words(drawn: Drawn) -> str:
    span = drawn.span
    places = {"shown": len(span), "count": f"{drawn.count:,}", "from": f"{span.start:,}", "to": f"{span.stop - 1:,}"}
    if not span.start:
        return t("attention.hidden_after", **places)
    share = map_rows.hidden_share(drawn.rows, span.start, drawn.sink)
    return t("attention.hidden", **places, before=f"{span.start:,}", share=f"{share:.0%}")


def _picked_in_map() -> None:
    picked = state.get(state.MAP_PICKS).picked
    if picked is not None:
        looking.pick(int(picked["query"]), None if picked["key"] is None else int(picked["key"]))


def _picked_in_strip() -> None:
    picked = state.get(state.STRIP_PICKS).picked
    if picked is not None:
        looking.pick(int(picked), None)


def _strip(view: RunView, drawn: Drawn | None) -> None:
    """All tokens, and what the picked one looks at."""
    panels.card_title(t("attention.strip"), drawn.evidence if drawn else None, t("attention.strip_note"))
    if linking.example_of(view.prompt) is not None:  # the reader came from the list of heads, which now lies further down
        st.caption(f":material/arrow_downward: {t('attention.to_links')}")
    token_strip(
        **panels.live(view),
        show="all" if state.get(state.ANSWER_ROWS) else "prompt",
        weights=None if drawn is None or drawn.row is None else drawn.row.tolist(),
        reader=None if drawn is None else drawn.query,
        target=None if drawn is None else drawn.key,
        pick=drawn is not None,
        on_picked=_picked_in_strip,
        labels=state.labels("token_strip"),
        key=state.STRIP_PICKS,
    )
    if drawn is not None and drawn.query is not None:
        st.caption(_reader_words(drawn, drawn.query, looking.tokens_read(view)[drawn.query]))


def _reader_words(drawn: Drawn, query: int, reader: Token) -> str:
    asked = state.get(state.QUERY_AT)
    if state.get(state.ANSWER_ROWS) and asked is not None and asked >= drawn.count:
        return t("attention.unread", q=asked)
    words = t("attention.reader", query=_quoted(reader), q=query)
    return words if query in drawn.span else f"{words} {t('attention.not_in_map')}"
