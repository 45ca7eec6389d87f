"""What the clock says about one run: TTFT and its parts, TPOT, inter-token latencies, speeds.

Knows the stamps in a trace; does not read a clock itself. Definitions follow the serving benchmarks (vLLM's `bench serve`,
NVIDIA's GenAI-Perf, MLPerf inference). The reader's own pauses count in none of them; waiting for other runs' turns does,
and is shown apart.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from engine.trace import DecodeStep, PrefillTrace, RunRecord, RunView

MIN_STEPS_FOR_PERCENTILES = 20


@dataclass(frozen=True, slots=True)
class TtftParts:
    """The parts of TTFT in the order in which they happen; seconds. They add up to ttft_s."""

    queue_s: float
    template_s: float
    tokenize_s: float
    prefill_s: float
    sample_s: float


@dataclass(frozen=True, slots=True)
class LatencySummary:
    """Times of one run in seconds; None where the run has too few tokens for the figure.

    tokens: ids really generated. itl_s: one value per decode step. tpot_s: (t_last − t_first − pauses) / (tokens − 1).
    p50_itl_s, p95_itl_s: from 20 steps on. waited_s: the part of all itl_s spent waiting for other runs' turns.
    paused_s: the reader's pauses, the ones before the first id included. worked_s: the run's own work, as a time limit counts it.
    decode_tokens_per_s = 1 / tpot_s; overall_tokens_per_s = tokens / (t_last − t_submit − pauses).
    """

    tokens: int
    ttft_s: float | None
    ttft_parts: TtftParts | None
    tpot_s: float | None
    itl_s: tuple[float, ...]
    p50_itl_s: float | None
    p95_itl_s: float | None
    waited_s: float
    paused_s: float
    worked_s: float
    decode_tokens_per_s: float | None
    overall_tokens_per_s: float | None


def summarize(record: RunRecord | RunView) -> LatencySummary:
    """The latency figures of a run, whatever its state: also of one that is still going on or was stopped early."""
    prefill = record.prefill
    if prefill is None:
        return LatencySummary(0, None, None, None, (), None, None, 0.0, 0.0, 0.0, None, None)
    steps = record.steps
    itl_s = tuple(step.itl_s for step in steps)
    decode_pauses_s = sum(step.paused_s for step in steps)
    last_s = steps[-1].at_s if steps else prefill.at_s
    tpot_s = (last_s - prefill.at_s - decode_pauses_s) / len(steps) if steps else None
    p50_itl_s, p95_itl_s = _percentiles(itl_s)
    paused_s = prefill.paused_s + decode_pauses_s
    return LatencySummary(
        tokens=1 + len(steps),
        ttft_s=prefill.ttft_s,
        ttft_parts=_parts(prefill),
        tpot_s=tpot_s,
        itl_s=itl_s,
        p50_itl_s=p50_itl_s,
        p95_itl_s=p95_itl_s,
        waited_s=sum(step.waited_s for step in steps),
        paused_s=paused_s,
        worked_s=worked_s(prefill, steps),
        decode_tokens_per_s=_per_second(1, tpot_s),
        overall_tokens_per_s=_per_second(1 + len(steps), last_s - paused_s),
    )


def worked_s(prefill: PrefillTrace, steps: tuple[DecodeStep, ...]) -> float:
    """Seconds of work in all of this: without queue, pauses and other runs' turns."""
    return prefill.ttft_s - prefill.queue_s + sum(step.busy_s for step in steps)


def _parts(prefill: PrefillTrace) -> TtftParts:
    return TtftParts(prefill.queue_s, prefill.template_s, prefill.tokenize_s, prefill.prefill_s, prefill.sample_s)


def _percentiles(itl_s: tuple[float, ...]) -> tuple[float | None, float | None]:
    """(p50, p95) by linear interpolation, or (None, None) for too few steps: a p95 of 12 numbers says nothing."""
    if len(itl_s) < MIN_STEPS_FOR_PERCENTILES:
        return None, None
    cuts = statistics.quantiles(itl_s, n=20, method="inclusive")
    return cuts[9], cuts[18]


def _per_second(count: int, seconds: float | None) -> float | None:
    return None if seconds is None or seconds <= 0 else count / seconds
