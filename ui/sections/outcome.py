"""How a run ended, explained: what stayed, what was lost, what engineers do about it.

Knows a run's snapshot and the words; does not know which page it stands on, nor how an end is brought about (ui.sections.endings).
"""

from __future__ import annotations

import streamlit as st

from engine.trace import RunSettings, RunStatus, RunView, StopReason
from ui import literal, numbers, panels
from ui.failures import code_span
from ui.state import t

CAP = "KV cache"  # begins the detail of an OutOfMemory that is our own limit; a device's allocator says other things


def name_of(view: RunView) -> str | None:
    """The end that came, by its name in the texts: a stop reason, but "paper" or "power" where memory ended it. None: not ended."""
    if view.status != RunStatus.ENDED or view.stop_reason is None:
        return None
    if view.stop_reason != StopReason.OUT_OF_MEMORY:
        return str(view.stop_reason)
    detail = str(view.error.params.get("detail", "")) if view.error is not None else ""
    return "paper" if detail.startswith(CAP) else "power"


def intended(settings: RunSettings) -> str | None:
    """The end that these settings were to bring about, besides the usual ones."""
    limits = {
        "power": settings.power_cut_at,
        "paper": settings.kv_limit_bytes,
        "timeout": settings.time_limit_s,
        "context_full": settings.context_limit,
    }
    return next((name for name, limit in limits.items() if limit is not None), None)


def show(view: RunView) -> None:
    """Draw the explanation; nothing while the run has not ended."""
    name = name_of(view)
    if name is None:
        return
    with panels.card("outcome"):
        panels.card_title(t("endings.ended", name=t(f"endings.{name}")), "measured" if view.prefill else None)
        st.markdown(reached(view, name))
        wanted = intended(view.settings)
        if wanted not in {None, name} and view.origin is None:
            st.caption(f":material/alt_route: {t('endings.earlier', name=t(f'endings.{name}'))}")
        told = {"stayed": _stayed(view), "lost": t(f"endings.{name}_lost"), "engineers": t(f"endings.{name}_engineers")}
        for column, (key, words) in zip(st.columns(len(told)), told.items(), strict=True):
            column.markdown(f"**{t('endings.' + key)}**\n\n{words}")


def _stayed(view: RunView) -> str:
    newest, latency = view.steps[-1] if view.steps else view.prefill, numbers.latency(view)
    if newest is None or latency is None:
        return t("endings.stayed_nothing")
    return t(
        "endings.stayed_text",
        tokens=f"{len(view.generated):,}",
        columns=f"{newest.kv_tokens:,}",
        size=numbers.mebibytes(newest.kv_bytes),
        ttft=numbers.milliseconds(latency.ttft_s),
        tpot=numbers.milliseconds(latency.tpot_s),
    )


def reached(view: RunView, name: str) -> str:
    """The limit and where the run stood, in numbers."""
    settings, count, last = view.settings, len(view.generated), view.generated[-1] if view.generated else None
    places = {"n": f"{count:,}"}
    match name:
        case "eos":
            places["token"] = code_span(literal.short(last.text, last.raw, 24)) if last is not None else numbers.NOTHING
        case "length":
            places["limit"] = f"{settings.max_new_tokens:,}"
        case "context_full":
            most = view.model.context_length if view.model is not None else 0
            places |= {"prompt": f"{len(view.tokens):,}", "limit": f"{min(most, settings.context_limit or most):,}"}
        case "timeout":
            places = {"used": numbers.milliseconds(worked_s(view)), "limit": f"{settings.time_limit_s or 0:,g}"}
        case "paper":
            places = _paper(view)
        case "power":
            detail = str(view.error.params.get("detail", "")) if view.error is not None else ""
            places = {"detail": code_span(detail)}
    return t(f"endings.{name}_reached", **places)


def worked_s(view: RunView) -> float:
    """Seconds of the run's own work, as a time limit counts them: without queue, pauses and other runs' turns."""
    reading_s = view.prefill.ttft_s - view.prefill.queue_s if view.prefill is not None else 0.0
    return reading_s + sum(step.busy_s for step in view.steps)


def _paper(view: RunView) -> dict[str, str]:
    """Sizes in full: one column less or more would not show in MiB. A prompt that did not fit was never begun."""
    newest = view.steps[-1] if view.steps else view.prefill
    held = newest.kv_bytes if newest is not None else 0
    tokens = newest.kv_tokens + 1 if newest is not None else len(view.tokens)
    needed = numbers.formula_bytes(view.model, tokens) if view.model is not None else 0
    return {"held": f"{held:,}\u00a0B", "needed": f"{needed:,}\u00a0B", "limit": f"{view.settings.kv_limit_bytes or 0:,}\u00a0B"}
