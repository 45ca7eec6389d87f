"""Choices, parts and glances of the real SmolLM2 in float32: its own scores again, transformers' warpers on them, its steps' parts."""

from __future__ import annotations

import dataclasses
import math
import statistics
import time

import numpy as np
import pytest
import torch
from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from engine import LoadedModel, Run, RunSettings
from tests.reference import ids_of, uncached_logits

SETTINGS = RunSettings(max_new_tokens=24, temperature=0.8, top_k=50, top_p=0.9, seed=11, ignore_eos=True)
QUESTION = "Why is the sky blue?"


@pytest.fixture(scope="module")
def run(smollm2: LoadedModel) -> Run:
    run = Run(smollm2, QUESTION, SETTINGS)
    list(run.decode())
    return run


def test_every_step_would_write_what_it_wrote(run: Run) -> None:
    for index, token in enumerate(run.record().generated):
        stages = run.stages(index)
        assert stages.written_id == stages.would_write_id == token.id
        assert 1 <= stages.kept_top_p <= stages.kept_top_k
        assert stages.kept_top_k >= 50
        assert stages.vocabulary == 49_152
        for name in ("likely", "tempered", "after_top_k", "share"):
            total = math.fsum([*(getattr(row, name) for row in stages.rows), getattr(stages, f"rest_{name}")])
            assert total == pytest.approx(1, abs=1e-9)


def test_scores_against_a_direct_computation(run: Run, smollm2: LoadedModel) -> None:
    """The whole answer in one pass without a cache, then the warpers in generate()'s order."""
    ids = [*ids_of(run.tokens), *ids_of(run.record().generated)]
    plain = uncached_logits(smollm2, ids)
    for index in (0, 1, 12, 23):
        logits = plain[len(run.tokens) - 1 + index]
        stages = run.stages(index)
        assert [row.logit for row in stages.rows] == pytest.approx([float(logits[row.id]) for row in stages.rows], abs=1e-3)
        scores = logits.double()[None]
        for warper in (TemperatureLogitsWarper(0.8), TopKLogitsWarper(50), TopPLogitsWarper(0.9)):
            scores = warper(torch.zeros(1, 0, dtype=torch.long), scores)
        shares = scores.softmax(-1)[0]
        assert [row.share for row in stages.rows] == pytest.approx([float(shares[row.id]) for row in stages.rows], abs=1e-4)


def test_greedy_and_extreme_questions(run: Run) -> None:
    for index in (0, 7, 23):
        best = run.stages(index).rows[0].id
        assert run.stages(index, temperature=0.0).would_write_id == best
        assert run.stages(index, temperature=1e-5).would_write_id == best
        assert run.stages(index, temperature=1000.0, top_p=0.0).would_write_id == best
        flat = run.stages(index, temperature=1000.0, top_k=0, top_p=1.0)
        assert (flat.kept_top_k, flat.kept_top_p) == (49_152, 49_152)
        assert flat.rest_share > 0.99


def test_parts_add_up_and_the_weights_are_most_of_it(run: Run) -> None:
    steps = run.record().steps
    for step in steps:
        assert step.parts is not None
        parts = dataclasses.astuple(step.parts)
        assert sum(parts) == pytest.approx(step.forward_s, rel=1e-12)
        assert min(parts) > 0
    middle = [statistics.median(times) for times in zip(*(dataclasses.astuple(step.parts) for step in steps if step.parts), strict=True)]
    assert max(middle) == middle[0], "30 layers of products against attention over some sixty notes"


def test_watching_parts_costs_next_to_nothing(run: Run, smollm2: LoadedModel) -> None:
    """What the watch adds to a step, done by itself, against the quickest step: all of a step's stamps within 1.5 % of it."""
    from engine.model.stepparts import PartWatch, timing

    watch, state = PartWatch(smollm2.model, 30), torch.zeros(1, 1, 576)

    def once() -> float:
        started_s = time.thread_time()
        with watch:
            for note in [watch.has_appended, watch.has_read] * 30:
                assert timing() is watch
                note(watch.now())
            watch._before_head(smollm2.model, (state,))
            watch._after_head(smollm2.model, (state,), None)
        assert watch.parts(1.0) is not None
        return time.thread_time() - started_s

    quickest_s = min(step.forward_s for step in run.record().steps)
    assert min(once() for _ in range(50)) < 0.015 * quickest_s


def test_a_glance_is_the_newest_row_of_the_map(run: Run) -> None:
    row = run.glance()
    assert row is not None
    assert row == pytest.approx(run.attention(None, None, rows=1)[0], abs=1e-6)
    assert float(np.sum(row)) == pytest.approx(1, abs=1e-5)
