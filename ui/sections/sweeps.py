"""A sweep over lengths: ask for it, follow its progress, cancel it; what it found is drawn by ui.sections.growth.

Knows the words and what the engine's client tells; does not know which page it stands on, nor how a curve is fitted.
"""

from __future__ import annotations

from typing import Any, cast

import streamlit as st

from engine.errors import EngineError
from engine.sweep import KINDS, Measuring, SweepKind, SweepView, lengths_until
from ui import model, panels, resources, state
from ui.components.pulse import pulse
from ui.sections import growth
from ui.state import t

POLL_S = 0.3
LOOK_S = 5.0  # on the other pages; well within the lease of a sweep (engine.serve.sweeping.LEASES)
UNTIL = (256, 512, 1024, 2048, 4096)
FIRST_UNTIL = 2048


def show() -> None:
    """Draw the section."""
    view = _shown()
    with panels.card("sweep"):
        panels.card_title(t("sweeps.ask"), None, t("sweeps.ask_note"))
        _controls()
        with panels.slot():
            if view is not None and view.moving:
                st.fragment(_moving)(view.sweep_id)
    _predict()
    with panels.slot():
        if view is not None and not view.moving:
            growth.ended(view)
            growth.show(view)


def keep_in_sight() -> None:
    """On every page: a sweep that is under way goes on while its reader looks something up elsewhere."""
    with panels.slot():
        if any(view.moving for view in _known().values()):
            st.fragment(_look)()


def _look() -> None:
    if any(view.moving for view in _known().values()):
        pulse(key="sweep_look", every_s=LOOK_S)


def _controls() -> None:
    kind, until, begin = st.columns([5, 4, 2], vertical_alignment="bottom")
    if state.get(state.SWEEP_KIND) not in KINDS:
        state.put(state.SWEEP_KIND, KINDS[0])
    with kind:
        st.segmented_control(
            t("sweeps.kind"), KINDS, required=True, format_func=state.names("sweeps.kind_"), key=state.SWEEP_KIND, persist_state="session"
        )
    with until:
        options = _longest_there_may_be()
        if state.get(state.SWEEP_UNTIL) not in options:
            state.put(state.SWEEP_UNTIL, max((one for one in options if one <= FIRST_UNTIL), default=options[0]))
        st.select_slider(t("sweeps.until"), options, format_func=_grouped, key=state.SWEEP_UNTIL, persist_state="session")
    with begin:
        moving = any(view.moving for view in _known().values())
        look: dict[str, Any] = {"type": "primary", "icon": ":material/play_arrow:", "width": "stretch"}
        st.button(t("sweeps.begin"), key="sweep_begin", on_click=_begin, disabled=moving or not state.may_steer(), **look)


def _grouped(number: int) -> str:
    return f"{number:,}"


def _longest_there_may_be() -> list[int]:
    """The longest lengths on offer: none beyond the context of the model, where it is known."""
    info = model.chosen_status().info
    context = UNTIL[-1] if info is None else info.context_length
    return sorted({one for one in UNTIL if one <= context} | {min(context, UNTIL[-1])})


def _ids() -> dict[str, str]:
    """This session's newest sweep of each kind, by its id. The URL names them too, so that a reload finds them."""
    return dict(state.get(state.SWEEPS) or {})


def _known() -> dict[str, SweepView]:
    """This session's newest sweep of each kind that the engine's client still has."""
    views = {kind: resources.engine().sweep_view(sweep_id) for kind, sweep_id in _ids().items()}
    return {kind: view for kind, view in views.items() if view is not None}


def _shown() -> SweepView | None:
    """The sweep on screen: one that is under way, whatever is chosen; else the chosen kind's."""
    known = _known()
    under_way = next((view for view in known.values() if view.moving), None)
    return under_way or known.get(state.get(state.SWEEP_KIND) or KINDS[0])


def _begin() -> None:
    kind, until = cast(SweepKind, state.get(state.SWEEP_KIND)), int(state.get(state.SWEEP_UNTIL))
    chosen = {"model": state.get(state.MODEL), "device": state.get(state.DEVICE), "session": state.session_id()}
    try:
        sweep_id = resources.engine().sweep(kind, lengths_until(until), **chosen)
    except EngineError as error:
        state.notify(error.info)
    else:
        state.put(state.SWEEPS, _ids() | {kind: sweep_id})


def _stop(sweep_id: str) -> None:
    resources.engine().stop_sweep(sweep_id)


def _moving(sweep_id: str) -> None:
    """Progress, the way out, and the points so far; asked again with every beat. At the end the whole page is drawn once."""
    view = resources.engine().sweep_view(sweep_id)
    if view is None or not view.moving:
        st.rerun()
    bar, way_out = st.columns([5, 1], vertical_alignment="center")
    with bar:
        st.progress(share(view), text=_now(view))
        pulse(key="sweep_pulse", every_s=POLL_S)
    with way_out:
        st.button(t("sweeps.cancel"), key="sweep_cancel", icon=":material/stop:", on_click=_stop, args=(sweep_id,), width="stretch")
    if view.points:
        growth.picture(view)


def share(view: SweepView) -> float:
    """How much of it is done, by tokens read: time goes mostly with these."""
    now = view.measuring
    if now is None:
        return 0.0
    done = sum(length for length in view.lengths if length < now.length) + now.length * max(now.number - 1, 0) / now.most
    return min(done / sum(view.lengths), 1.0)


def _now(view: SweepView) -> str:
    now = view.measuring
    if now is None:
        status = resources.engine().model_status(view.model_id, view.device)  # the sidebar may name another one by now
        return t("sweeps.waiting" if status.state == "ready" else "sweeps.waiting_model")
    return t(f"sweeps.now_{_doing(view.kind, now)}", **_places(view, now))


def _doing(kind: SweepKind, now: Measuring) -> str:
    return "read" if now.number == 0 else kind


def _places(view: SweepView, now: Measuring) -> dict[str, str]:
    at = sum(length <= now.length for length in view.lengths)
    return {"length": _grouped(now.length), "at": str(at), "of": str(len(view.lengths)), "number": str(now.number), "most": str(now.most)}


def _predict() -> None:
    """Twice the tokens: how much longer? The newest sweep of the first-token wait tells."""
    view = _known().get(KINDS[0])
    found = None if view is None or view.moving else growth.doubling(view)
    if found is None:
        panels.predict("sweeps", growth.ANSWERS, None, "")
    else:
        panels.predict("sweeps", growth.ANSWERS, found.answer, t("sweeps.check", **found.words()))
