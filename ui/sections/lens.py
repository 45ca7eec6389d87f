"""The first token: its candidates, and the same guess layer by layer.

Knows a run's snapshot and the words; does not know which page it stands on.
"""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from engine.errors import EngineError
from engine.findings import LensRow
from engine.trace import RunView, Token
from ui import failures, literal, looking, panels, state
from ui.components.candidates import candidates
from ui.figures import lens
from ui.state import t


def show(view: RunView) -> None:
    """Draw the section of a run that has been prefilled: what stands at the last position, and how it came about."""
    if view.prefill is None:
        return
    left, right = st.columns([2, 3])
    with left, panels.card("first"):
        panels.card_title(t("lens.first"), "measured", t("lens.first_note"))
        candidates(**panels.live(view), at=0, labels=state.labels("candidates"), key="prefill_candidates")
    try:
        rows = looking.lens(view)
    except EngineError as error:
        with right, panels.card("lens"):
            panels.card_title(t("lens.title"))
            st.info(failures.explain(error.info), icon=":material/visibility_off:")
        return
    with left:
        _line(rows, view.prefill.first)
    with right:
        _table(rows, view.prefill.first)


def _line(rows: Sequence[LensRow], first: Token) -> None:
    with panels.card("lens_line"):
        panels.card_title(t("lens.line"), "measured", t("lens.line_note"))
        seen = literal.visible(first.text, first.raw)
        st.markdown(finding(rows, failures.code_span(seen)))
        words = {name: t(f"lens.{name}") for name in ("layer", "probability", "rank", "firm")}
        figure = lens.climb(rows, state.palette(), words)
        alt = t(
            "lens.line_alt",
            finding=finding(rows, seen),
            values=", ".join(f"{row.layer}: {row.probability:.1%} ({row.rank + 1:,})" for row in rows),
        )
        st.plotly_chart(figure, theme=None, key="lens_line", config={"displayModeBar": False}, alt=alt)


def _table(rows: Sequence[LensRow], first: Token) -> None:
    with panels.card("lens"):
        panels.card_title(t("lens.title"), "measured", t("lens.note"))
        st.caption(t("lens.gloss"))
        words = {name: t(f"lens.{name}") for name in ("layer", "guess")}
        figure = lens.guesses(rows, first.id, state.palette(), words)
        best = ", ".join(f"{row.layer}: {literal.visible(row.candidates[0].text, row.candidates[0].raw)}" for row in rows if row.candidates)
        alt = t("lens.table_alt", layers=len(rows), guesses=best)
        st.plotly_chart(figure, theme=None, key="lens_table", config={"displayModeBar": False}, alt=alt)


def finding(rows: Sequence[LensRow], token: str) -> str:
    """Where the answer firms up, in one sentence about the first `token`, named as it is to be shown."""
    firm, last = lens.firm_from(rows), rows[-1]
    if firm is None:
        return t("lens.never", token=token, rank=f"{last.rank + 1:,}", share=f"{last.probability:.0%}")
    if firm == last.layer:
        return t("lens.last", token=token, last=last.layer)
    if firm == rows[0].layer:
        return t("lens.always", token=token)
    return t("lens.from", token=token, layer=firm, last=last.layer)
