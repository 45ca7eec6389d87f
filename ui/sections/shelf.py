"""The session's finished runs as a table, and the picked ones over each other.

Knows the shelf and the words; does not know which page it stands on.
"""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from engine.measure.latency import summarize
from ui import comparing, ends, handout, literal, numbers, panels, shelf, state
from ui.figures import overlay
from ui.shelf import Filed
from ui.state import t

PROMPT_MOST = 48  # characters in a cell
PICTURES_MOST = 5  # as many lines as a reader can tell apart


def show() -> None:
    """Draw the section."""
    kept = shelf.records()
    with panels.card("shelf"):
        panels.card_title(t("records.shelf"), "measured" if kept else None, t("records.shelf_note", most=shelf.MOST), anchor="shelf")
        if not kept:
            st.markdown(t("records.shelf_empty"))
            examples("records")
            return
        st.dataframe([_row(one) for one in kept], hide_index=True, width="stretch", key="shelf_table", row_height=32)
        st.caption(t("records.not_kept"))
        picked = _pick(kept)
    if len(picked) > 1:
        _overlay(picked)
    elif len(kept) > 1:
        st.caption(f":material/layers: {t('records.pick_two')}")


def examples(where: str) -> None:
    """The recordings that came with the app, each one click away. `where`: begins the buttons' keys."""
    with st.container(horizontal=True, key=f"{where}_recordings"):
        for name in shelf.EXAMPLES:
            words, icon = t(f"records.example_{name}"), ":material/smart_display:"
            st.button(words, key=f"{where}_{name}", icon=icon, on_click=shelf.replay_example, args=(name,))


def _row(filed: Filed) -> dict[str, str | int]:
    """One line of the table. Text cells are shown as they are: nothing in them is interpreted."""
    record, summary = filed.record, summarize(filed.record)
    made, newest = handout.origin_words(record.created, record.model), record.steps[-1] if record.steps else record.prefill
    asked = record.settings
    drawn = f"T {asked.temperature:g} · top-k {asked.top_k} · top-p {asked.top_p:g} · {asked.seed}"
    return {
        "#": filed.number,
        t("records.prompt"): literal.beginning(record.prompt, PROMPT_MOST),
        t("records.model"): made["model"],
        "TTFT": numbers.milliseconds(summary.ttft_s),
        "TPOT": numbers.milliseconds(summary.tpot_s),
        t("records.tokens"): summary.tokens,
        t("records.end"): _end(filed),
        t("records.settings"): drawn if asked.temperature else t("records.greedy"),
        t("records.device"): f"{made['device']} · {made['dtype']}",
        t("records.kv"): numbers.NOTHING if newest is None else numbers.mebibytes(newest.kv_bytes),
        "p50": numbers.milliseconds(summary.p50_itl_s),
        "p95": numbers.milliseconds(summary.p95_itl_s),
        t("records.made_at"): made["date"],
        t("records.kind"): t("records.kind_file" if filed.recording else "records.kind_here"),
        t("records.versions"): " · ".join(f"{name} {version}" for name, version in record.model.versions.items()),
    }


def _end(filed: Filed) -> str:
    name = ends.name_of(handout.view_of(filed.record))
    return numbers.NOTHING if name is None else t(f"endings.{name}")


def _pick(kept: Sequence[Filed]) -> list[Filed]:
    """Which records are laid over each other, by their numbers: those are the same in both languages."""
    known = [one.number for one in reversed(kept)]
    before = state.get(state.PICKED_RECORDS) or []
    state.put(state.PICKED_RECORDS, [number for number in before if number in known])
    chosen = st.pills(
        t("records.pick"), known, selection_mode="multi", format_func=_number, key=state.PICKED_RECORDS, persist_state="session"
    )  # fmt: skip
    if len(chosen) > PICTURES_MOST:
        st.caption(f":material/info: {t('records.pick_most', most=PICTURES_MOST)}")
    return [one for one in reversed(kept) if one.number in chosen][:PICTURES_MOST]


def _number(number: int) -> str:
    return f"#{number}"


def _overlay(picked: Sequence[Filed]) -> None:
    """Both pictures, and the differences in words."""
    named = [(f"{one.name} {one.record.model.name}", one.record) for one in picked]
    short = [(one.name, one.record) for one in picked]
    words = {name: t(f"records.key_{name}") for name in overlay.PARTS} | {"token": t("records.axis_token"), "ms": t("records.axis_ms")}
    with panels.card("overlay"):
        panels.card_title(t("records.overlay"), "measured", t("records.overlay_note"), anchor="overlay")
        left, right = st.columns([3, 2])
        with left:
            st.markdown(f"**{t('records.itl_title')}**")
            figure = overlay.itl(named, state.palette(), words)
            st.plotly_chart(figure, theme=None, key="overlay_itl", alt=t("records.itl_alt"), config={"displayModeBar": False})
        with right:
            st.markdown(f"**{t('records.ttft_title')}**")
            figure = overlay.ttft(short, state.palette(), words)
            st.plotly_chart(figure, theme=None, key="overlay_ttft", alt=t("records.ttft_alt"), config={"displayModeBar": False})
        for title, lines in (
            ("faster", comparing.speeds(picked)), ("different", comparing.differences(picked)), ("wrote", comparing.answers(picked)),
        ):  # fmt: skip
            st.markdown("\n".join([f"**{t('records.' + title)}**\n", *(f"- {line}" for line in lines)]))
