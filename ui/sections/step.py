"""One step opened up: what goes in, what is read, what comes out, and where the model looked meanwhile.

Knows a run's snapshot and the words; does not know which page it stands on. What the step would have cost without the notes is told by
`ui.sections.without`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import streamlit as st

from engine.errors import EngineError
from engine.trace import RunView
from ui import failures, looking, numbers, panels, state
from ui.components.step import step
from ui.components.token_strip import token_strip
from ui.sections import without
from ui.state import t


def show(view: RunView) -> None:
    """Draw the section."""
    index = looking.index_shown(view)
    with panels.card("strip"):
        panels.card_title(t("step.title"), looking.vouched(view), t("step.note"), anchor="step")
        st.markdown(t("step.lead"))
        chain, strip = st.container(), st.container()
        run = panels.live(view)
        looks = None if index is None or looking.moving(view) else _looks(view, index)
        weights: list[float] | None = None if looks is None else looks.tolist()
        seen: dict[str, Any] = {"weights": weights, "looked": index}
        sees = looking.moving(view) or weights is not None
        with chain:
            step(
                **run,
                **numbers.reading_formula(view),
                **seen,
                greedy=view.settings.temperature == 0,
                sees=sees and _may_see(view),
                labels=state.labels("step"),
                key="decode_chain",
            )
        with strip:
            token_strip(**run, **seen, show="all", writing=True, labels=state.labels("token_strip"), key="decode_strip")
        st.caption(t("step.gloss"))
    without.show(view, index)


def _may_see(view: RunView) -> bool:
    """Whether glances can be expected from this run at all."""
    return view.settings.capture_attention and (view.model is None or view.model.attention_reason is None)


def _looks(view: RunView, index: int) -> np.ndarray | None:
    """float32 [tokens]: how the step on screen read the notes; None, with the reason on the page, where that cannot be seen."""
    if looking.reads_again(view) and state.get(state.LOOK_ASKED) != (view.run_id, index):
        st.caption(f":material/replay: {t('step.again')}")
        st.button(t("step.look"), key="step_look", icon=":material/visibility:", on_click=_ask, args=(view.run_id, index))
        return None
    try:
        return looking.glance(view, index)
    except EngineError as error:
        st.caption(f":material/visibility_off: {failures.explain(error.info)}")
        return None


def _ask(run_id: str, index: int) -> None:
    """A look that costs another reading is taken only when asked for."""
    state.put(state.LOOK_ASKED, (run_id, index))
