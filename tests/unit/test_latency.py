"""Latency figures from hand-made stamps whose answers are known."""

from __future__ import annotations

import dataclasses

import pytest

from engine.measure.latency import summarize
from engine.trace import DecodeStep, PrefillTrace, RunSettings, RunStatus, RunView, Token

TOKEN = Token(5, b"a", "a", "generated", 9)
PREFILL = PrefillTrace(
    prompt_tokens=9,
    queue_s=0.5,
    template_s=0.01,
    tokenize_s=0.02,
    prefill_s=0.4,
    sample_s=0.07,
    paused_s=3.0,
    at_s=4.0,
    first=TOKEN,
    candidates=(),
    kv_bytes=9,
    kv_tokens=9,
    recorded_bytes=0,
)


def run_of(*gaps: tuple[float, float, float], prefill: PrefillTrace | None = PREFILL) -> RunView:
    """Each gap: (waited, paused, busy) seconds of one decode step."""
    at_s, steps = 4.0, []
    for index, (waited_s, paused_s, busy_s) in enumerate(gaps, start=1):
        at_s += waited_s + paused_s + busy_s
        step = DecodeStep(index, TOKEN, (), waited_s + paused_s, paused_s, busy_s, 0.0, busy_s, at_s, 9 + index, 9 + index, 0)
        steps.append(step)
    return RunView("r", "hi", RunSettings(), "m", "2026-01-01T00:00:00+00:00", RunStatus.ENDED, None, (), prefill, tuple(steps))


def test_ttft_is_the_sum_of_its_parts_without_pauses() -> None:
    summary = summarize(run_of())
    assert summary.ttft_s == pytest.approx(1.0)
    assert summary.ttft_parts is not None
    assert sum(dataclasses.astuple(summary.ttft_parts)) == pytest.approx(1.0)


def test_one_token_has_no_tpot() -> None:
    summary = summarize(run_of())
    assert summary.tokens == 1
    assert summary.tpot_s is None
    assert summary.decode_tokens_per_s is None
    assert summary.itl_s == ()
    assert summary.overall_tokens_per_s == pytest.approx(1.0)  # one token, one second without the pause


def test_no_token_has_no_figures() -> None:
    summary = summarize(run_of(prefill=None))
    assert summary.tokens == 0
    assert {summary.ttft_s, summary.ttft_parts, summary.tpot_s, summary.overall_tokens_per_s, summary.p50_itl_s} == {None}


def test_tpot_divides_by_the_tokens_that_followed_the_first() -> None:
    summary = summarize(run_of((0, 0, 0.1), (0, 0, 0.2), (0, 0, 0.3)))
    assert summary.tpot_s == pytest.approx(0.2)
    assert summary.itl_s == pytest.approx((0.1, 0.2, 0.3))
    assert summary.decode_tokens_per_s == pytest.approx(5.0)
    assert summary.overall_tokens_per_s == pytest.approx(4 / 1.6)


def test_pauses_count_nowhere_and_waiting_is_shown_apart() -> None:
    paused = summarize(run_of((0.05, 10.0, 0.1), (0, 0, 0.1), (0.15, 60.0, 0.1)))
    plain = summarize(run_of((0.05, 0, 0.1), (0, 0, 0.1), (0.15, 0, 0.1)))
    assert paused.tpot_s == pytest.approx(0.5 / 3)
    assert paused.itl_s == pytest.approx((0.15, 0.1, 0.25))
    assert paused.waited_s == pytest.approx(0.2)
    assert paused.paused_s == pytest.approx(73.0)
    assert paused.overall_tokens_per_s == pytest.approx(4 / 1.5)
    assert (paused.tpot_s, paused.overall_tokens_per_s) == pytest.approx((plain.tpot_s, plain.overall_tokens_per_s))


def test_own_work_has_no_queue_no_waiting_and_no_pause() -> None:
    """Template 0.01, tokenizing 0.02, reading 0.4, choosing 0.07; then three steps."""
    assert summarize(run_of((0.05, 10.0, 0.1), (0, 0, 0.2), (0.15, 60.0, 0.3))).worked_s == pytest.approx(0.5 + 0.6)
    assert summarize(run_of()).worked_s == pytest.approx(0.5)
    assert summarize(run_of(prefill=None)).worked_s == 0


def test_tpot_is_the_mean_of_the_itls() -> None:
    summary = summarize(run_of(*[(0.01 * k, 1.0, 0.1) for k in range(7)]))
    assert summary.tpot_s == pytest.approx(sum(summary.itl_s) / 7)


def test_percentiles_only_from_twenty_steps_on() -> None:
    few = summarize(run_of(*[(0, 0, 0.1)] * 19))
    assert (few.p50_itl_s, few.p95_itl_s) == (None, None)
    many = summarize(run_of(*[(0, 0, float(k)) for k in range(21)]))  # 0, 1, … 20: the p-th percentile is p / 5
    assert (many.p50_itl_s, many.p95_itl_s) == pytest.approx((10.0, 19.0))


def test_a_clock_that_stands_still_divides_nothing_by_zero() -> None:
    summary = summarize(run_of((0, 0, 0.0)))
    assert summary.tpot_s == 0
    assert summary.decode_tokens_per_s is None
