"""What a sweep has found: the curve, its formula, why it bends, every measurement as a table and as a file.

Knows a sweep's snapshot and the words; does not know how a sweep is asked for.
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass

import numpy as np
import streamlit as st

from engine.errors import EngineError
from engine.measure import flops
from engine.measure.fit import Fit, fit
from engine.measure.reading import step_reads
from engine.sweep import SweepView
from engine.trace import ModelInfo
from ui import comfort, failures, numbers, panels, state
from ui.figures.sweep import Curve, growth
from ui.numbers import milliseconds
from ui.state import t

BANDS_S = {"ttft": comfort.TTFT_S, "tpot": comfort.TPOT_S}
DEGREES = {"ttft": 2, "tpot": 1}  # a step reads every note once: there is nothing that could grow with the square
DRAWN = 120  # points of the curve
BENDS, GROWS = 0.1, 1.1  # share of the square at the longest length; times from the shortest length to the longest
NOISY = 0.35  # a curve that misses a median by more says nothing
ANSWERS = ("less", "twice", "more")
ABOUT_TWICE = (1.8, 2.2)
COLUMNS = ("kind", "model", "device", "dtype", "created", "tokens", "number", "seconds", "forward_s")


@dataclass(frozen=True, slots=True)
class Doubling:
    """A length and its half, both measured."""

    tokens: int
    half_s: float
    whole_s: float

    @property
    def factor(self) -> float:
        return self.whole_s / self.half_s

    @property
    def answer(self) -> str:
        return "less" if self.factor < ABOUT_TWICE[0] else "twice" if self.factor <= ABOUT_TWICE[1] else "more"

    def words(self) -> dict[str, str]:
        times = {"half_s": milliseconds(self.half_s), "whole_s": milliseconds(self.whole_s), "factor": f"{self.factor:.2f}"}
        return times | {"half": f"{self.tokens // 2:,}", "whole": f"{self.tokens:,}"}


def doubling(view: SweepView) -> Doubling | None:
    """The longest length of which the half was measured too; None: there is none."""
    known = {point.length: point.median_s for point in view.points}
    whole = max((length for length in known if length % 2 == 0 and length // 2 in known), default=None)
    return None if whole is None else Doubling(whole, known[whole // 2], known[whole])


def fitted(view: SweepView) -> Fit | None:
    """The curve through the medians; None: too few lengths."""
    return fit([point.length for point in view.points], [point.median_s for point in view.points], DEGREES[view.kind])


def ended(view: SweepView) -> None:
    """How it ended, where it did not measure all that was asked for."""
    got, asked = str(len(view.points)), str(len(view.lengths))
    if view.status == "failed":
        st.error(failures.explain(view.error), icon=":material/error:")
    elif view.error is not None:
        words = t("sweeps.unwatched") if view.error.code == "unwatched" else failures.explain(view.error)
        st.warning(words, icon=":material/info:")
    if view.status in ("failed", "stopped") and view.points:
        st.caption(f":material/content_cut: {t('sweeps.cut', got=got, asked=asked)}")
    elif view.status == "stopped":
        st.caption(f":material/content_cut: {t('sweeps.cut_empty')}")


def show(view: SweepView) -> None:
    """Draw what it has found, if it has found anything."""
    if not view.points or view.model is None:
        return
    curve = fitted(view)
    with panels.card("growth"):
        panels.card_title(finding(view, curve), "measured", t(f"sweeps.note_{view.kind}"))
        picture(view)
        _formula(view, curve)
        _conditions(view, view.model)
    with panels.card("bend"):
        panels.card_title(t(f"sweeps.why_{view.kind}"))
        st.markdown(_why(view, view.model))
    _numbers(view, curve)


def picture(view: SweepView) -> None:
    """The chart of all that has been measured so far."""
    names = ("seconds", "milliseconds", "each", "median", "curve", "straight", "square")
    words = {name: t(f"sweeps.axis_{name}") for name in names} | {"band": t(f"sweeps.band_{view.kind}")}
    colours = state.palette()
    colour = colours.prompt if view.kind == "ttft" else colours.answer
    words["tokens"] = t(f"sweeps.axis_tokens_{view.kind}")
    figure = growth(view.points, _curve(view), colour, BANDS_S[view.kind], colours, words)
    st.plotly_chart(figure, theme=None, key=f"sweep_{view.sweep_id}", config={"displayModeBar": False}, alt=finding(view, fitted(view)))


def _curve(view: SweepView) -> Curve | None:
    found = fitted(view)
    if found is None:
        return None
    tokens = [float(one) for one in np.linspace(view.points[0].length, view.points[-1].length, DRAWN)]
    bends = found.quadratic_s > 0
    return Curve(tokens, [found.seconds(one) for one in tokens], [found.straight_s(one) for one in tokens], bends)


def finding(view: SweepView, found: Fit | None) -> str:
    """The chart's title: what it shows, in one sentence."""
    first, last = view.points[0], view.points[-1]
    times = last.median_s / first.median_s
    places = {"first": f"{first.length:,}", "last": f"{last.length:,}", "times": f"{times:,.1f}" if times < 10 else f"{times:,.0f}"}
    if first is last:
        return t(f"sweeps.found_{view.kind}_one", last=places["last"], time=milliseconds(last.median_s))
    if found is not None and found.worst > NOISY:
        return t("sweeps.found_noisy", first=places["first"], last=places["last"])
    if view.kind == "tpot":
        return t("sweeps.found_tpot_grows" if times >= GROWS else "sweeps.found_tpot_flat", **places)
    places["longer"] = f"{last.length / first.length:,.0f}"
    bends = found is not None and square_share(view, found) >= BENDS
    return t("sweeps.found_ttft_bends" if bends else "sweeps.found_ttft_straight", **places)


def square_share(view: SweepView, found: Fit) -> float:
    """How much of the wait at the longest length is the part that grows with the square, by the fitted curve."""
    longest = view.points[-1].length
    return found.quadratic_s * longest**2 / found.seconds(longest)


def _formula(view: SweepView, found: Fit | None) -> None:
    if found is None:
        st.caption(f":material/hourglass_empty: {t('sweeps.fit_few', few=str(DEGREES[view.kind] + 1))}")
        return
    parts = {"constant": span(found.constant_s), "linear": span(found.linear_s), "quadratic": span(found.quadratic_s)}
    st.markdown(f"**{t(f'sweeps.fit_{view.kind}', **parts)}** {panels.badge('computed')}")
    share = square_share(view, found)
    if found.worst <= NOISY and share >= BENDS:
        told = t("sweeps.square_share", share=f"{share:.0%}", last=f"{view.points[-1].length:,}")
        st.markdown(f"{told} {panels.badge('computed')}")
    if found.worst > NOISY:
        st.caption(f":material/vibration: {t('sweeps.noisy')}")
    st.caption(t("sweeps.fit_quality", r2=f"{found.r2:.3f}", worst=f"{found.worst:.0%}"))


def span(seconds: float) -> str:
    """A time with two or three digits, in the unit that reads best: 0.0000003 → "300 ns"."""
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("µs", 1e6), ("ns", 1e9)):
        value = seconds * factor
        if value >= 0.9995:
            return f"{value:.3g} {unit}" if value < 999.5 else f"{value:,.0f} {unit}"
    return f"{seconds * 1e12:.3g} ps" if seconds > 0 else "0 s"


def _conditions(view: SweepView, info: ModelInfo) -> None:
    threads = info.prefill_threads if view.kind == "ttft" else info.decode_threads
    told = {"model": info.name, "device": info.device, "dtype": info.dtype, "threads": str(threads)}
    told["created"] = view.created[:16].replace("T", " ")
    machine = {name: failures.code_span(view.conditions.get(name, numbers.NOTHING)) for name in ("system", "processor")}
    st.caption(t(f"sweeps.conditions_{view.kind}", **told, **machine))


def _why(view: SweepView, info: ModelInfo) -> str:
    """The reason, with what arithmetic says about this model at the longest length."""
    last = view.points[-1].length
    try:
        if view.kind == "ttft":
            share = flops.attention_flops(info.shape, last) / flops.prefill_flops(info, last)
            told = t("sweeps.because_ttft", share=f"{share:.0%}", last=f"{last:,}")
        else:
            reads = step_reads(info, last)
            sizes = {"weights": numbers.mebibytes(reads.weights_bytes), "notes": numbers.mebibytes(reads.notes_bytes)}
            told = t("sweeps.because_tpot", **sizes, last=f"{last:,}")
    except EngineError:
        return t(f"sweeps.because_{view.kind}_untold")
    return f"{told} {panels.badge('computed')}"


def _numbers(view: SweepView, found: Fit | None) -> None:
    with st.expander(t("sweeps.table"), icon=":material/table:", key="sweep_table"):
        st.dataframe([_row(view, found, at) for at in range(len(view.points))], hide_index=True)
    st.download_button(
        t("sweeps.csv"), as_csv(view), file_name=f"openbook-{view.kind}-{view.created[:10]}.csv", mime="text/csv", key="sweep_csv",
        icon=":material/download:",
    )  # fmt: skip


def _row(view: SweepView, found: Fit | None, at: int) -> dict[str, str]:
    point = view.points[at]
    curve = numbers.NOTHING if found is None else milliseconds(found.seconds(point.length))
    values = [f"{point.length:,}", milliseconds(point.median_s), curve, " · ".join(milliseconds(value) for value in point.seconds)]
    return dict(zip((t(f"sweeps.column_{name}") for name in ("tokens", "median", "curve", "each")), values, strict=True))


def as_csv(view: SweepView) -> str:
    """One line per measurement, in the order of lengths; seconds in full."""
    out = io.StringIO()
    lines = csv.writer(out, lineterminator="\n")
    lines.writerow(COLUMNS)
    info = view.model
    about = (view.kind, view.model_id if info is None else info.name, view.device if info is None else info.device)
    for point in view.points:
        for number, pair in enumerate(zip(point.seconds, point.forward_s, strict=True), start=1):
            lines.writerow((*about, "" if info is None else info.dtype, view.created, point.length, number, *map(repr, pair)))
    return out.getvalue()
