"""The ways in which an exam ends, each brought about on purpose, and what the end that came means.

Knows a run's snapshot and the words; does not know which page it stands on, nor how a run is made to end (engine.generate.decode).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import streamlit as st

from engine.trace import RunStatus, RunView, Token, room_left
from ui import asking, branching, ends, literal, looking, numbers, panels, state, transport
from ui.failures import code_span
from ui.sections import outcome
from ui.state import t

# What a provoked run takes over from the run on screen, so that one thing alone is different.
SAME = ("temperature", "top_k", "top_p", "seed", "use_chat_template", "system_prompt")
# Ends that have no button: the last place tells of the one of them that came, else of accidents.
UNASKED = ("memory", "refused")
BEYOND = 4  # tokens that an answer may be longer than its provoked end, so that this end comes first


@dataclass(frozen=True, slots=True)
class Exit:
    """A way out: its name in the texts, its icon, and the number that the reader may choose (`key` "": none)."""

    name: str
    icon: str
    key: str = ""
    default: float = 0
    low: float = 0
    high: float = 0
    step: float = 1


EXITS = (
    Exit("eos", "task_alt"),
    Exit("length", "article", state.END_LENGTH, 8, 1, state.MAX_NEW_LIMIT - BEYOND),
    Exit("context_full", "table_restaurant", state.END_ROOM, 6, 0, state.MAX_NEW_LIMIT - BEYOND),
    Exit("stopped", "front_hand"),
    Exit("timeout", "notifications_active", state.END_BELL_S, 1.0, 0.1, 600.0, 0.1),
    Exit("paper", "layers_clear", state.END_PAPER, 6, 0, state.MAX_NEW_LIMIT - BEYOND),
    Exit("power", "power_off", state.END_CUT, 6, 1, state.MAX_NEW_LIMIT - BEYOND),
    Exit("error", "warning"),
)


def show(view: RunView) -> None:
    """Draw the section."""
    with st.container(key="endings"):
        panels.card_title(t("endings.title"), None, t("endings.note"), anchor="endings")
        st.caption(t("endings.again") if state.may_steer() else f":material/visibility: {t('endings.follower')}")
        happened = ends.name_of(view)
        last = Exit(happened, "warning") if happened in UNASKED else EXITS[-1]
        with st.grid(4, min_column_width=230):
            for way in (*EXITS[:-1], last):
                with panels.card(f"end_{way.name}", stretch=True), st.container(gap="xsmall", height="stretch"):
                    _way(view, way, happened)
        outcome.show(view)


def _way(view: RunView, way: Exit, happened: str | None) -> None:
    here = happened in {way.name, f"{way.name}_hand"}
    mark = f"\u2002:red-badge[:material/flag: {t('endings.happened')}]" if here else ""
    st.markdown(f":material/{way.icon}: **{t('endings.' + way.name)}**{mark}")
    st.markdown(t(f"endings.{way.name}_exam"))
    st.markdown(f":gray[:small[{t(f'endings.{way.name}_machine')}]]")
    st.space("stretch")
    if way.name not in {"error", *UNASKED}:
        _control(view, way)
    if here:
        st.markdown(f"[{t('endings.see')}](#outcome)")


def _control(view: RunView, way: Exit) -> None:
    """The number, the button, and what the button is about to do, or why it cannot."""
    mine, reason = state.may_steer(), obstacle(view, way.name)
    if way.key:
        _number(way, disabled=not mine)
    anew = way.name == "stopped" and view.status == RunStatus.ENDED
    st.button(
        t("endings.stopped_first") if anew else t(f"endings.{way.name}_do"),
        key=f"end_now_{way.name}",
        icon=f":material/{way.icon}:",
        on_click=_bring_about,
        args=(way.name,),
        disabled=not mine or reason is not None,
        width="stretch",
    )
    told = _how(view, way) if reason is None else f":material/block: {t('endings.off_' + reason)}"
    st.caption(told)


def _number(way: Exit, *, disabled: bool) -> None:
    if state.get(way.key) is None:
        state.put(way.key, way.default)
    st.number_input(
        t(f"endings.{way.name}_input"),
        way.low,
        way.high,
        step=way.step,
        format="%.1f" if isinstance(way.step, float) else "%d",
        key=way.key,
        disabled=disabled,
        persist_state="session",
    )


def _chosen(way: Exit) -> float:
    """The reader's number, clamped: widgets check in the browser only."""
    value = state.get(way.key) if way.key else None
    return way.default if not isinstance(value, int | float) else min(max(value, way.low), way.high)


def _how(view: RunView, way: Exit) -> str:
    """What pressing the button means, with this run's numbers."""
    count, prompt = _chosen(way), len(view.tokens)
    match way.name:
        case "eos":
            at = looking.index_shown(view)
            assert at is not None
            if looking.moving(view):
                return t("endings.eos_how_moving")
            return t("endings.eos_how", token=_named(view.generated[at]), n=f"{at + 1:,}")
        case "stopped":
            return t(f"endings.{_how_to_stop(view)}")
        case "context_full":
            assert view.model is not None
            context = f"{view.model.context_length:,}"
            return t("endings.context_full_how", prompt=f"{prompt:,}", n=f"{count:,}", limit=f"{prompt + count:,}", context=context)
        case "paper":
            assert view.model is not None
            size = f"{numbers.formula_bytes(view.model, prompt + int(count)):,}\u00a0B"
            return t("endings.paper_how", prompt=f"{prompt:,}", n=f"{count:,}", size=size, tokens=f"{int(count) + 1:,}")
        case "power":
            return t("endings.power_how", next=f"{count + 1:,}")
        case _:
            return t(f"endings.{way.name}_how", n=f"{count:,}")


def _how_to_stop(view: RunView) -> str:
    match view.status:
        case RunStatus.ENDED:
            return "stopped_how_first"
        case RunStatus.PAUSED:
            return "stopped_how_paused"
        case RunStatus.QUEUED:
            return "stopped_how_queued"
        case _:
            return "stopped_how" if view.prefill is not None else "stopped_how_reading"


def _named(token: Token) -> str:
    return code_span(literal.short(token.text, token.raw, 24))


def obstacle(view: RunView, name: str) -> str | None:
    """Why an end cannot be brought about now, as the end of its text's key; None: it can."""
    if name == "eos":
        return _no_hand_in(view)
    if name == "stopped":
        return None if view.status != RunStatus.ENDED or view.model_id == state.get(state.MODEL) else "model"
    if view.model_id != state.get(state.MODEL):
        return "model"
    if name in {"context_full", "paper"}:
        if view.model is None or not view.tokens:
            return "waiting"
        written = len(view.tokens) + int(_chosen(next(way for way in EXITS if way.name == name)))
        same = numbers.formula_bytes(view.model, written) == numbers.formula_bytes(view.model, written + 1)
        return "window" if name == "paper" and same else None
    return None


def _no_hand_in(view: RunView) -> str | None:
    at = looking.index_shown(view)
    if view.recording:
        return "recording"
    if at is None or view.model is None:
        return "first"
    if not view.model.eos_ids:
        return "no_eos"
    if view.settings.ignore_eos:
        return "ignored"
    return "is_eos" if view.generated[at].id in view.model.eos_ids else None


def _bring_about(name: str) -> None:
    """For the buttons: by now the run may have moved on."""
    view = state.current_view()
    if view is None or obstacle(view, name) is not None:
        return
    if name == "eos":
        at = looking.index_shown(view)
        assert at is not None
        assert view.model is not None
        branching.branch(at, view.model.eos_ids[0])
    elif name == "stopped" and view.status != RunStatus.ENDED:
        transport.stop()
    else:
        way = next(way for way in EXITS if way.name == name)
        asking.start_run(view.prompt, changes=changes(view, name, _chosen(way), asking.run_settings().max_new_tokens))


def changes(view: RunView, name: str, count: float, longest: int) -> Mapping[str, Any]:
    """What is different from the sidebar's settings in a run that is to end so. `longest`: the sidebar's own longest answer."""
    base = {field: getattr(view.settings, field) for field in SAME}
    prompt, whole = len(view.tokens), int(count)
    enough = {"max_new_tokens": max(longest, whole + BEYOND)}
    room = room_left(view.model, prompt) if view.model is not None else state.MAX_NEW_LIMIT
    long = {"max_new_tokens": max(min(room, state.MAX_NEW_LIMIT), 1)}
    match name:
        case "length":
            return base | {"max_new_tokens": whole}
        case "context_full":
            return base | enough | {"context_limit": prompt + whole}
        case "timeout":
            return base | long | {"time_limit_s": float(count)}
        case "paper":
            assert view.model is not None
            return base | enough | {"kv_limit_bytes": numbers.formula_bytes(view.model, prompt + whole)}
        case "power":
            return base | enough | {"power_cut_at": whole}
        case _:
            return base | long
