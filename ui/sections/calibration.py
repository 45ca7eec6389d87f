"""What this machine was measured to do: arithmetic and memory per second, and what reading the clock costs.

Knows the words and what the engine's client tells; does not know which page it stands on. Measures only when the reader asks for it:
everybody's runs wait a little then.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, cast

import streamlit as st

from engine.calibration import Calibration
from engine.errors import EngineError
from engine.measure.flops import prefill_flops
from engine.measure.reading import step_reads
from engine.trace import ModelInfo, RunView
from ui import failures, panels, resources, state
from ui.numbers import Figure, mebibytes
from ui.scale import Role, Row, scale
from ui.sections.traits import operations
from ui.state import t


class Wish(NamedTuple):
    """A model and the device on which it was asked for."""

    model: str
    device: str


@dataclass(frozen=True, slots=True)
class Reached:
    """What a phase of a run reached, per second, and the measured roof above it."""

    rate: float
    roof: float

    @property
    def share(self) -> float:
        return self.rate / self.roof


def show() -> None:
    """Draw the section."""
    view = state.current_view()
    own = view is not None and not view.recording
    place = Wish(view.model_id, view.device) if view is not None and own else Wish(state.get(state.MODEL), state.get(state.DEVICE))
    with panels.card("calibration"):
        try:
            found = _found(place)
        except EngineError as error:
            found = None
            st.info(failures.explain(error.info), icon=":material/error:")
        panels.card_title(t("calibration.title"), None if found is None else "measured", t("calibration.note"), anchor="calibration")
        if found is None:
            st.markdown(t("calibration.invite"))
        else:
            _numbers(found)
            _conditions(found)
            _phases(found, view)
        _button(place, known=found is not None)


def _button(place: Wish, *, known: bool) -> None:
    """Only while the model is in memory: its device and its dtype are what is measured."""
    ready = resources.engine().model_status(*place).state == "ready"
    words = t("calibration.again" if known else "calibration.measure")
    may = ready and state.may_steer()
    st.button(words, key="calibrate", icon=":material/speed:", on_click=_want, args=(place,), disabled=not may)
    if not ready:
        st.caption(f":material/hourglass_empty: {t('calibration.no_model')}")


def _want(place: Wish) -> None:
    state.put(state.ROOFS_WANTED, place)


def _found(place: Wish) -> Calibration | None:
    """What is known of this place; measured now, if that was asked for. Raises EngineError."""
    engine, seen = resources.engine(), _seen(place)
    if state.get(state.ROOFS_WANTED) == place:
        with st.spinner(t("calibration.measuring")):
            state.put(state.ROOFS_WANTED, None)
            seen[place] = engine.calibration(*place, again=True)
    else:
        state.put(state.ROOFS_WANTED, None)
        if place not in seen and engine.model_status(*place).state == "ready":
            known = engine.known_calibration(*place)
            if known is not None:
                seen[place] = known
    return seen.get(place)


def _seen(place: Wish) -> dict[Wish, Calibration]:
    """What this session has seen of `place`: {} where nothing is known, which is asked again. A dict, filled where it stands: whatever
    writes to the session itself, or draws, may be left for another rerun just before, and a measurement would be lost."""
    seen = state.get(state.ROOFS_SEEN)
    if seen is None or place not in seen:
        seen = {}
        state.put(state.ROOFS_SEEN, seen)
    return cast("dict[Wish, Calibration]", seen)


def _numbers(found: Calibration) -> None:
    stamp = f"{found.timer_overhead_s * 1e6:,.2g} µs"
    panels.figures(
        [
            Figure(
                t("calibration.flops"), f"{operations(found.flops_per_s)}/s", "measured", t("calibration.flops_help", dtype=found.dtype)
            ),
            Figure(t("calibration.bytes"), per_second(found.bytes_per_s), "measured", t("calibration.bytes_help")),
            Figure(t("calibration.timer"), stamp, "measured", t("calibration.timer_help")),
        ]
    )


def per_second(rate: float) -> str:
    """Bytes per second in decimal units, as memory is sold."""
    return f"{rate / 1e9:,.3g} GB/s" if rate < 1e12 else f"{rate / 1e9:,.0f} GB/s"


def _conditions(found: Calibration) -> None:
    how = found.conditions
    places = {
        "date": found.date[:16].replace("T", " "),
        "device": found.device,
        "machine": failures.code_span(how.machine),
        "threads": found.threads,
        "dtype": found.dtype,
        "size": f"{how.matmul_size:,}",
        "read": mebibytes(how.read_bytes),
        "repeats": how.repeats,
        "torch": how.torch,
    }
    st.caption(t("calibration.conditions", **places))
    if how.load is not None:
        st.caption(t("calibration.busy" if how.load > 0.25 else "calibration.quiet", load=f"{how.load:.0%}"))


def _phases(found: Calibration, view: RunView | None) -> None:
    """How near this session's run came to the two roofs."""
    if view is None or view.model is None or view.prefill is None:
        st.caption(t("calibration.no_run"))
        return
    if view.recording or not _same_place(found, view.model):
        st.caption(t("calibration.elsewhere"))
        return
    try:
        reading, writing = prefill_reached(found, view), decode_reached(found, view)
    except EngineError as error:
        st.info(failures.explain(error.info), icon=":material/visibility_off:")
        return
    st.markdown(f"**{t('calibration.reached')}** {panels.badge('computed')}")
    _bar("prefill", reading, "prompt", f"{operations(reading.rate)}/s")
    if writing is not None:
        _bar("decode", writing, "answer", per_second(writing.rate))
        if view.model.decode_threads < found.threads:
            st.caption(t("calibration.fewer", decode=view.model.decode_threads, threads=found.threads))


def _bar(phase: str, reached: Reached, role: Role, rate: str) -> None:
    scale([Row(t(f"calibration.{phase}"), min(reached.share, 1.0), f"{rate} · {percent(reached.share)}", role)], full=1.0)
    st.caption(t(f"calibration.{phase}_says") + (f" **{t('calibration.beyond')}**" if reached.share > 1 else ""))


def percent(share: float) -> str:
    """0.22 → "22%", 0.0042 → "0.42%": next to nothing is not nothing. Beyond the roof there is no number: the roof is wrong then."""
    if share > 1:
        return "≥ 100%"
    return f"{share:.0%}" if share >= 0.0995 else f"{share * 100:.2g}%"


def _same_place(found: Calibration, info: ModelInfo) -> bool:
    return (found.device, found.dtype, found.threads) == (info.device, info.dtype, info.prefill_threads)


def prefill_reached(found: Calibration, view: RunView) -> Reached:
    """FLOPs of the whole pass through its time. Raises UnsupportedConfig where the model's numbers do not tell."""
    assert view.model is not None
    assert view.prefill is not None
    return Reached(prefill_flops(view.model, view.prefill.prompt_tokens) / view.prefill.prefill_s, found.flops_per_s)


def decode_reached(found: Calibration, view: RunView) -> Reached | None:
    """Bytes that all steps have to read, weights and notes, through the time of their passes; None before the first step.
    Raises UnsupportedConfig."""
    assert view.model is not None
    if not view.steps:
        return None
    reads = [step_reads(view.model, step.kv_tokens) for step in view.steps]
    spent_s = sum(step.forward_s for step in view.steps)
    return Reached(sum(one.weights_bytes + one.notes_bytes for one in reads) / spent_s, found.bytes_per_s)
