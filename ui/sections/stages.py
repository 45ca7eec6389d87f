"""How the token on screen was chosen, stage by stage: scores, temperature, top-k, top-p, the draw; and what other settings would do.

Knows a run's snapshot and the words; does not know which page it stands on. Asks the engine only while the pen rests, and never
touches the run.
"""

from __future__ import annotations

from typing import NamedTuple

import streamlit as st

from engine.errors import EngineError
from engine.findings import StageRow, Stages
from engine.trace import ChosenBy, DecodeStep, PrefillTrace, RunSettings, RunView
from ui import failures, literal, looking, panels, state
from ui.components.stages import stages
from ui.state import t

TOP_KS = (0, 1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 40, 50, 75, 100, 150, 200, 300, 500, 750, state.TOP_K_LIMIT)
NAME_MOST = 24  # characters of a token in a sentence
GLOSSES = ("logit", "temperature", "top_k", "top_p", "draw")


class Choice(NamedTuple):
    """Settings that decide which token is written."""

    temperature: float
    top_k: int
    top_p: float

    @classmethod
    def of(cls, settings: RunSettings) -> Choice:
        return cls(settings.temperature, settings.top_k, settings.top_p)


def show(view: RunView) -> None:
    """Draw the section."""
    index = looking.index_shown(view)
    with panels.slot():
        if index is None and not looking.moving(view):
            return
        with panels.card("stages"):
            if index is None or looking.moving(view):
                panels.card_title(t("stages.title"), None, t("stages.note"), anchor="choice")
                st.caption(f":material/hourglass_empty: {t('stages.moving')}")
            else:
                st.fragment(_taken_apart)(view, index)


def _taken_apart(view: RunView, index: int) -> None:
    """A slider moves this part of the page alone."""
    own = Choice.of(view.settings)
    _begin(own)
    asked = _asked(own)
    what_if = asked != own
    panels.card_title(
        t("stages.title_if" if what_if else "stages.title"), "computed" if what_if else "measured", t("stages.note"), anchor="choice"
    )
    _sliders(own)
    try:
        found = looking.stages(view, index, *(asked if what_if else (None, None, None)))
    except EngineError as error:
        st.info(failures.explain(error.info), icon=":material/visibility_off:")
        return
    st.markdown(verdict(found, what_if=what_if, chosen_by=_step(view, index).chosen_by))
    stages(found=found, own=not what_if, labels=state.labels("stages"), key="decode_stages")
    with st.grid(len(GLOSSES), min_column_width=170):
        for name in GLOSSES:
            st.caption(t(f"stages.gloss_{name}"))


def _begin(own: Choice) -> None:
    """The sliders stand at the run's own settings until the reader moves them, and do so again for another question."""
    asker = state.run_key() or state.run_id()
    if state.get(state.WHAT_IF) != asker or state.get(state.WHAT_TEMPERATURE) is None:
        state.put(state.WHAT_IF, asker)
        _reset(own)


def _reset(own: Choice) -> None:
    state.put(state.WHAT_TEMPERATURE, float(own.temperature))
    state.put(state.WHAT_TOP_K, own.top_k)
    state.put(state.WHAT_TOP_P, float(own.top_p))


def _asked(own: Choice) -> Choice:
    """What the sliders say, brought into range: they are checked in the browser only."""
    temperature = min(max(float(state.get(state.WHAT_TEMPERATURE)), 0.0), _hottest(own))
    top_k = min(max(int(state.get(state.WHAT_TOP_K)), 0), max(state.TOP_K_LIMIT, own.top_k))
    return Choice(temperature, top_k, min(max(float(state.get(state.WHAT_TOP_P)), 0.0), 1.0))


def _hottest(own: Choice) -> float:
    return max(state.TEMPERATURE_LIMIT, own.temperature)


def _sliders(own: Choice) -> None:
    """What if: these move the picture, never the run."""
    asked = _asked(own)
    greedy = asked.temperature == 0
    choices = sorted({*TOP_KS, own.top_k, asked.top_k})
    heat, keep, nucleus, back = st.columns([3, 3, 3, 2], vertical_alignment="bottom")
    with heat:
        name, about = t("shell.temperature"), t("shell.temperature_help")
        st.slider(name, 0.0, _hottest(own), step=0.05, key=state.WHAT_TEMPERATURE, help=about, persist_state="session")
    with keep:
        name, about = t("stages.top_k"), t("shell.top_k_help")
        st.select_slider(name, choices, key=state.WHAT_TOP_K, help=about, disabled=greedy, persist_state="session")
    with nucleus:
        name, about = t("stages.top_p"), t("shell.top_p_help")
        st.slider(name, 0.0, 1.0, step=0.01, key=state.WHAT_TOP_P, help=about, disabled=greedy, persist_state="session")
    with back:
        words = t("stages.back")
        st.button(words, key="what_back", icon=":material/undo:", on_click=_reset, args=(own,), disabled=asked == own, width="stretch")


def _step(view: RunView, index: int) -> PrefillTrace | DecodeStep:
    """What wrote generated token `index`."""
    step = view.prefill if index == 0 else view.steps[index - 1]
    assert step is not None, "a token that is shown has been written"
    return step


def verdict(found: Stages, *, what_if: bool, chosen_by: ChosenBy) -> str:
    """What was written and why, or what would be written, in one sentence. `chosen_by`: who put the written token there."""
    written, would = _row(found, found.written_id), _row(found, found.would_write_id)
    places = {"written": _named(written), "would": _named(would), "share": _share(would.share), "likely": _share(would.likely)}
    places["drawn"] = f"{found.drawn:.4f}"
    same = found.written_id == found.would_write_id
    greedy = "_greedy" if found.temperature == 0 else ""
    if what_if:
        return t(f"stages.if_{'same' if same else 'other'}{greedy}", **places)
    if chosen_by == "sampler" and same:
        return t(f"stages.was{greedy}", **places)
    return t(f"stages.{'by_hand' if chosen_by == 'reader' else 'put'}{'_same' if same else ''}", **places)


def _row(found: Stages, id: int) -> StageRow:
    return next(row for row in found.rows if row.id == id)


def _named(row: StageRow) -> str:
    return failures.code_span(literal.short(row.text, row.raw, NAME_MOST))


def _share(share: float) -> str:
    """As the component writes shares: 0.4213 → "42%", 0.0421 → "4.2%", next to nothing → "<0.1%"."""
    if share == 0:
        return "0%"
    return "<0.1%" if share < 0.001 else f"{share:.1%}" if share < 0.0995 else f"{share:.0%}"
