"""How a run ended, explained: what stayed, what was lost, what engineers do about it.

Knows a run's snapshot and the words; does not know which page it stands on, nor how an end is brought about (ui.sections.endings).
"""

from __future__ import annotations

import streamlit as st

from engine.errors import EngineError
from engine.measure.latency import worked_s
from engine.trace import RunView
from ui import ends, literal, navigation, numbers, panels, resources, state
from ui.failures import code_span, explain
from ui.state import t

GONE = {"run_freed", "run_unknown", "engine_lost", "not_recorded"}  # what the engine says of notes that it does not hold any more


def show(view: RunView) -> None:
    """Draw the explanation; nothing while the run has not ended."""
    name = ends.name_of(view)
    if name is None:
        return
    with panels.card("outcome"):
        panels.card_title(t("endings.ended", name=t(f"endings.{name}")), "measured" if view.prefill else None, anchor="outcome")
        st.markdown(reached(view, name))
        wanted = ends.intended(view.settings)
        if wanted not in {None, name} and view.origin is None:
            st.caption(f":material/alt_route: {t('endings.earlier', name=t(f'endings.{name}'))}")
        told = {"stayed": stayed(view), "lost": t(f"endings.{name}_lost"), "engineers": t(f"endings.{name}_engineers")}
        for column, (key, words) in zip(st.columns(len(told)), told.items(), strict=True):
            column.markdown(f"**{t('endings.' + key)}**\n\n{words}")
        _ways_back(view)


def _ways_back(view: RunView) -> None:
    """To the ways to end, and to the answer before: a branch's is in the tree of this page, any other run's on the shelf."""
    with st.container(horizontal=True, vertical_alignment="center", key="ways_back"):
        st.markdown(f"[:material/arrow_upward: {t('endings.back_up')}](#endings)", width="content")
        if view.origin is not None:
            st.markdown(f"[:material/alt_route: {t('endings.back_branch')}](#branches)", width="content")
        else:
            navigation.link("records", t("endings.back_shelf"), icon=":material/folder_open:")


def stayed(view: RunView) -> str:
    """What is still there: the answer, the notes if the engine holds them, the times."""
    newest, latency, count = view.steps[-1] if view.steps else view.prefill, numbers.latency(view), len(view.generated)
    if newest is None or latency is None:
        return t("endings.stayed_nothing")
    lines = [counted("endings.stayed_tokens", count)]
    if notes_held(view):
        lines.append(counted("endings.stayed_columns", newest.kv_tokens, size=numbers.mebibytes(newest.kv_bytes)))
    elif view.error is None or view.error.code != "engine_lost":  # there the loss is told as such
        lines.append(t("endings.stayed_cleared"))
    ttft, tpot = numbers.milliseconds(latency.ttft_s), numbers.milliseconds(latency.tpot_s)
    lines.append(t("endings.stayed_times", ttft=ttft, tpot=tpot) if count > 1 else t("endings.stayed_time", ttft=ttft))
    return "\n".join(f"- {line}" for line in lines)


def notes_held(view: RunView) -> bool:
    """Whether the engine that wrote the notes still has them: asked once for each run and engine process."""
    if view.error is not None and view.error.code == "engine_lost":
        return False
    engine = resources.engine()
    return state.remembered(state.HELD_SEEN, (view.run_id, engine.status().restarts), lambda: _notes_held(view.run_id))


def _notes_held(run_id: str) -> bool:
    try:
        resources.engine().cell(run_id, 0, 0)
    except EngineError as error:  # also a cell that cannot be shown is one of notes that are there
        return error.info.code not in GONE
    return True


def counted(key: str, count: int, **places: str) -> str:
    """The text of `key` for a number of things; for a single one that of `key`_one."""
    return t(f"{key}_one" if count == 1 else key, n=f"{count:,}", **places)


def reached(view: RunView, name: str) -> str:
    """The limit and where the run stood, in numbers."""
    count, last = len(view.generated), view.generated[-1] if view.generated else None
    match name:
        case "stopped" | "error":
            return counted("endings.reached_after", count) if count else t("endings.reached_before")
        case "eos" | "eos_hand":
            token = code_span(literal.short(last.text, last.raw, 24)) if last is not None else numbers.NOTHING
            return t(f"endings.{name}_reached", n=f"{count:,}", token=token)
        case "refused":
            return t("endings.refused_reached", reason=explain(view.error))
        case "power" | "memory":
            detail = str(view.error.params.get("detail", "")) if view.error is not None else ""
            return t(f"endings.{name}_reached", detail=code_span(detail))
        case _:
            return t(f"endings.{name}_reached", **_limit(view, name))


def _limit(view: RunView, name: str) -> dict[str, str]:
    """The border that was met, and what met it."""
    settings, count = view.settings, f"{len(view.generated):,}"
    match name:
        case "length":
            return {"n": count, "limit": f"{settings.max_new_tokens:,}"}
        case "context_full":
            most = view.model.context_length if view.model is not None else 0
            return {"n": count, "prompt": f"{len(view.tokens):,}", "limit": f"{min(most, settings.context_limit or most):,}"}
        case "timeout":
            used_s = worked_s(view.prefill, view.steps) if view.prefill is not None else 0.0
            return {"used": numbers.milliseconds(used_s), "limit": f"{settings.time_limit_s or 0:,g}"}
        case _:
            return _paper(view)


def _paper(view: RunView) -> dict[str, str]:
    """Sizes in full: one column less or more would not show in MiB. A prompt that did not fit was never begun."""
    newest = view.steps[-1] if view.steps else view.prefill
    held = newest.kv_bytes if newest is not None else 0
    tokens = newest.kv_tokens + 1 if newest is not None else len(view.tokens)
    needed = numbers.formula_bytes(view.model, tokens) if view.model is not None else 0
    return {"held": f"{held:,}\u00a0B", "needed": f"{needed:,}\u00a0B", "limit": f"{view.settings.kv_limit_bytes or 0:,}\u00a0B"}
