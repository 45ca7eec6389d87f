"""The run on the clock and its charts, fed by the live channel: the timeline, ITL with TPOT, KV bytes, memory; its figures at rest.

Knows a run's snapshot and the words; does not know which page it stands on.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import streamlit as st

from engine.measure.latency import LatencySummary, TtftParts
from engine.trace import DecodeStep, RunView
from ui import comfort, looking, numbers, panels, state
from ui.components.charts import charts
from ui.components.clock import clock
from ui.components.meters import meters
from ui.numbers import Figure
from ui.state import t

LOADED_FROM = 0.1  # share of the time that was waiting: less is the ordinary way of messages
COLD_TIMES, COLD_STEPS, COLD_FROM_STEPS = 2.5, 2, 8  # the first steps took so many times the others' median, in a run of so many
QUEUE_SAID_S = 0.5


def show(view: RunView) -> None:
    """Draw the section."""
    run, formula = panels.live(view), numbers.notes_formula(view)
    with panels.card("meters"):
        panels.card_title(t("marks.clock"), looking.vouched(view), t("marks.clock_note"), anchor="clock")
        meters(**run, **formula, labels=state.labels("meters"), key="marks_meters")
        clock(**run, labels=state.labels("clock"), key="marks_clock")
        st.caption(first_wait(view))
    with panels.card("intervals"):
        charts(**run, chart="intervals", labels=state.labels("charts"), key="marks_intervals")
    left, right = st.columns(2)
    with left, panels.card("notes", stretch=True):
        charts(**run, **formula, chart="notes", labels=state.labels("charts"), key="marks_notes")
    with right, panels.card("owners", stretch=True):
        charts(**run, chart="owners", labels=state.labels("charts"), key="marks_owners")
    with panels.slot():
        _at_rest(view)


def first_wait(view: RunView) -> str:
    """TTFT held against the comfortable band, in words; of a run that moves, the band alone."""
    latency = numbers.latency(view)
    if latency is None or latency.ttft_s is None or looking.moving(view):
        return t("marks.ttft_band")
    low, high = comfort.TTFT_S
    name = "below" if latency.ttft_s < low else "within" if latency.ttft_s <= high else "above"
    return t(f"marks.ttft_{name}", ttft=numbers.milliseconds(latency.ttft_s))


def _at_rest(view: RunView) -> None:
    """The figures of a run that does not move; nothing while it does: they are drawn in the browser then."""
    latency = numbers.latency(view)
    if latency is None or latency.ttft_parts is None or looking.moving(view):
        return
    with panels.card("figures"):
        panels.card_title(t("marks.figures"), None, t("marks.figures_note"))
        panels.figures(figures(latency))
        st.caption(parts_words(latency.ttft_parts))
        for words in conditions(view, latency):
            st.caption(f":material/info: {words}")


def figures(latency: LatencySummary) -> Sequence[Figure]:
    """All numbers of the summary, each with its definition."""
    values = {
        "ttft": numbers.milliseconds(latency.ttft_s),
        "tpot": numbers.milliseconds(latency.tpot_s),
        "p50": numbers.milliseconds(latency.p50_itl_s),
        "p95": numbers.milliseconds(latency.p95_itl_s),
        "speed": _rate(latency.decode_tokens_per_s),
        "overall": _rate(latency.overall_tokens_per_s),
        "waited": numbers.milliseconds(latency.waited_s),
        "paused": numbers.milliseconds(latency.paused_s),
    }
    return [Figure(t(f"marks.{name}"), value, "measured", t(f"marks.{name}_help")) for name, value in values.items()]


def _rate(tokens_per_s: float | None) -> str:
    return numbers.NOTHING if tokens_per_s is None else t("marks.rate", n=f"{tokens_per_s:,.1f}")


def parts_words(parts: TtftParts) -> str:
    """The parts of TTFT, which add up to it."""
    named = ("queue", "template", "tokenize", "prefill", "sample")
    return t("marks.parts", **{name: numbers.milliseconds(getattr(parts, f"{name}_s")) for name in named})


def conditions(view: RunView, latency: LatencySummary) -> Sequence[str]:
    """What a reader must know before holding these numbers against others: cold first steps, others' turns, a long queue."""
    said = []
    if latency.ttft_parts is not None and latency.ttft_parts.queue_s >= QUEUE_SAID_S:
        said.append(t("marks.queued", queue=numbers.milliseconds(latency.ttft_parts.queue_s)))
    whole_s = sum(latency.itl_s)
    if whole_s and latency.waited_s / whole_s >= LOADED_FROM:
        said.append(t("marks.loaded", share=f"{latency.waited_s / whole_s:.0%}"))
    if cold(view.steps):
        said.append(t("marks.cold"))
    return said


def cold(steps: Sequence[DecodeStep]) -> bool:
    """Whether the first steps took far longer than the others: the machine was not warm yet."""
    if len(steps) < COLD_FROM_STEPS:
        return False
    later_s = statistics.median(step.busy_s for step in steps[COLD_STEPS:])
    return statistics.mean(step.busy_s for step in steps[:COLD_STEPS]) > COLD_TIMES * later_s
