"""Choices, parts and glances of the real SmolLM2 in float32: its own scores again, transformers' warpers on them, its steps' parts."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch
from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from engine import LoadedModel, Run, RunSettings
from engine.model.layers import ClockStamps
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


def test_parts_add_up(run: Run) -> None:
    steps = run.record().steps
    for step in steps:
        assert step.parts is not None
        parts = dataclasses.astuple(step.parts)
        assert sum(parts) == pytest.approx(step.forward_s, rel=1e-12)
        assert min(parts) > 0


def test_a_step_is_stamped_twice_for_each_part_of_each_layer(smollm2: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """30 layers read and append, the head works once: 61 pairs of stamps, and no time is worked out before the pass is over."""
    told: list[str] = []
    monkeypatch.setattr(ClockStamps, "now", lambda self: told.append("stamp") or 0.0)
    monkeypatch.setattr(ClockStamps, "seconds", lambda self, begin, end: told.append("time") or 0.0)
    run = Run(smollm2, QUESTION, dataclasses.replace(SETTINGS, max_new_tokens=2))
    run.prefill()
    told.clear()
    list(run.decode())
    assert told == ["stamp"] * 2 * 61 + ["time"] * 61


def test_a_glance_is_the_newest_row_of_the_map(run: Run) -> None:
    row = run.glance()
    assert row is not None
    assert row == pytest.approx(run.attention(None, None, rows=1)[0], abs=1e-6)
    assert float(np.sum(row)) == pytest.approx(1, abs=1e-5)
