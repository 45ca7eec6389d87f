"""A decode step taken apart: what share the weights have, what watching it costs; and what leaving a run costs beside a step of it."""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Iterator
from functools import cache

import torch

from engine import Run, RunSettings
from engine.model.stepparts import PartWatch, timing
from tests.bench.engine_bench import QUESTION, model
from tests.bench.report import Figure

ROUNDS = 50


@cache
def finished() -> Run:
    run = Run(model(), QUESTION, RunSettings(max_new_tokens=32, ignore_eos=True))
    list(run.decode())
    return run


def stamping_s() -> float:
    """CPU seconds of one step's stamps by themselves, without the step."""
    loaded = model()
    layers = loaded.shape.num_hidden_layers
    watch, state = PartWatch(loaded.model, layers), torch.zeros(1, 1, loaded.shape.hidden_size)
    started_s = time.thread_time()
    with watch:
        for note in [watch.has_appended, watch.has_read] * layers:
            assert timing() is watch
            note(watch.now())
        watch._before_head(loaded.model, (state,))
        watch._after_head(loaded.model, (state,), None)
    assert watch.parts(1.0) is not None
    return time.thread_time() - started_s


def branching_s() -> float:
    """Seconds of leaving a run in its middle; token 5 is none of the candidates, so that its score is worked out as well."""
    started_s = time.perf_counter()
    finished().branch(16, 5)
    return time.perf_counter() - started_s


def parts() -> Iterator[Figure]:
    steps = finished().record().steps
    shares = [step.parts.weights_s / step.forward_s for step in steps if step.parts is not None]
    whole = [sum(dataclasses.astuple(step.parts)) / step.forward_s for step in steps if step.parts is not None]
    yield Figure("parts_sum", 100 * statistics.median(whole), "%", "the step's forward time", statistics.median(whole), ">= 0.999")
    share = statistics.median(shares)
    yield Figure("parts_weights", 100 * share, "%", "the step's forward time; notes and head have the rest", share, ">= 0.5")
    quickest_s, stamps_s = min(step.forward_s for step in steps), min(stamping_s() for _ in range(ROUNDS))
    yield Figure("parts_cost", stamps_s * 1e6, "µs", f"the quickest step {quickest_s * 1e3:.1f} ms", stamps_s / quickest_s, "<= 0.015")
    took_s, step_s = min(branching_s() for _ in range(5)), statistics.median(step.busy_s for step in steps)
    yield Figure("branch", took_s * 1e3, "ms", f"a step {step_s * 1e3:.1f} ms", took_s / step_s, "<= 1.0")
