"""The stages of a choice: transformers' warpers are the reference for each, every stage adds up to 1 however extreme."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from engine import RunSettings, codec
from engine.errors import OutOfRange
from engine.findings import Stages
from engine.generate import sampling
from engine.generate.sampling import Sampler, as_scores
from engine.generate.stages import chances, fallen_on, stages_of
from engine.generate.tokens import Vocabulary
from tests.fakes import make_tokenizer


def scores_of(size: int = 700, seed: int = 0, scale: float = 3.0) -> np.ndarray:
    return as_scores(torch.randn(size, generator=torch.Generator().manual_seed(seed)) * scale)


def told(scores: np.ndarray, settings: RunSettings, drawn: float = 0.37, written_id: int = 5, count: int = 12) -> Stages:
    spell = lambda id: (str(id).encode(), str(id))  # noqa: E731
    return stages_of(scores, settings, index=0, drawn=drawn, written_id=written_id, count=count, spell=spell)


def warped(scores: np.ndarray, settings: RunSettings) -> list[np.ndarray]:
    """Shares after temperature, after top-k, after top-p: float64 [vocabulary] each, from transformers' own processors."""
    ids, now = torch.zeros(1, 0, dtype=torch.long), torch.from_numpy(scores).double()[None]
    stages = [now := TemperatureLogitsWarper(settings.temperature)(ids, now)]
    stages.append(now := TopKLogitsWarper(settings.top_k)(ids, now) if settings.top_k else now)
    stages.append(TopPLogitsWarper(settings.top_p)(ids, now) if settings.top_p < 1 else now)
    return [stage.softmax(-1)[0].numpy() for stage in stages]


@pytest.mark.parametrize("top_p", [0.0, 0.3, 0.9, 1.0])
@pytest.mark.parametrize("top_k", [0, 1, 7, 50, 10_000])
@pytest.mark.parametrize("temperature", [0.2, 1.0, 2.5, 100.0])
def test_every_stage_is_transformers_own(temperature: float, top_k: int, top_p: float) -> None:
    settings, scores = RunSettings(temperature=temperature, top_k=top_k, top_p=top_p), scores_of()
    expected = warped(scores, settings)
    stages = told(scores, settings)
    likely = torch.from_numpy(scores).double().softmax(0).numpy()
    for row in stages.rows:
        assert row.logit == scores[row.id]
        assert row.likely == pytest.approx(likely[row.id], rel=1e-9)
        got = (row.tempered, row.after_top_k, row.share)
        assert got == pytest.approx([stage[row.id] for stage in expected], rel=1e-9, abs=1e-15)
        assert row.begins == pytest.approx(expected[2][: row.id].sum(), abs=1e-9), "tokens lie on the ruler in the order of their ids"
        assert (row.raw, row.text) == (str(row.id).encode(), str(row.id))
    assert (stages.kept_top_k, stages.kept_top_p) == tuple(np.count_nonzero(stage) for stage in expected[1:])
    shares = sampling.distribution(scores, settings)
    assert [row.share for row in stages.rows] == [shares[row.id] for row in stages.rows], "the very numbers that a token is drawn from"
    assert stages.vocabulary == 700


@pytest.mark.parametrize("temperature", [0.0, 5e-324, 1e-5, 1.0, 100.0, 1000.0])
@pytest.mark.parametrize("top_k", [0, 3, 10_000_000])
@pytest.mark.parametrize("top_p", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("scale", [1.0, 1e4, 1e30])
def test_extremes_stay_finite_and_add_up_to_one(temperature: float, top_k: int, top_p: float, scale: float) -> None:
    settings, scores = RunSettings(temperature=temperature, top_k=top_k, top_p=top_p), scores_of(scale=scale)
    stages = told(scores, settings)
    assert all(math.isfinite(getattr(row, name)) for row in stages.rows for name in ("logit", "likely", "tempered", "share", "begins"))
    for name in ("likely", "tempered", "after_top_k", "share"):
        shown = [getattr(row, name) for row in stages.rows]
        rest = getattr(stages, f"rest_{name}")
        assert rest >= 0
        assert math.fsum([*shown, rest]) == pytest.approx(1, abs=1e-9)
        assert all(0 <= number <= 1 for number in shown)
    assert 1 <= stages.kept_top_p <= stages.kept_top_k <= stages.vocabulary
    if temperature <= 1e-5 or top_p == 0:
        assert stages.would_write_id == int(scores.argmax())
    if temperature == 0:
        assert (stages.kept_top_k, stages.kept_top_p) == (1, 1)
        assert [row.share for row in stages.rows] == [float(row.id == scores.argmax()) for row in stages.rows]


@pytest.mark.parametrize("drawn", [0.0, 0.2, 0.5, 0.999, 1 - 2**-53])
def test_the_number_falls_on_the_piece_of_the_token_that_would_be_written(drawn: float) -> None:
    for settings in (RunSettings(temperature=1.0), RunSettings(temperature=30.0, top_k=9), RunSettings(temperature=2.0, top_p=0.7)):
        stages = told(scores_of(), settings, drawn)
        row = next(row for row in stages.rows if row.id == stages.would_write_id)
        assert row.begins - 1e-12 <= drawn < row.begins + row.share + 1e-12
        assert row.share > 0


def test_rows_are_the_likeliest_the_written_and_the_would_be() -> None:
    scores = scores_of()
    order = np.argsort(-scores, kind="stable")
    stages = told(scores, RunSettings(temperature=1000.0), drawn=0.9999, written_id=int(order[300]), count=4)
    assert stages.would_write_id not in order[:4]
    expected = {*order[:4].tolist(), int(order[300]), stages.would_write_id}
    assert [row.id for row in stages.rows] == sorted(expected, key=lambda id: -scores[id])
    assert stages.written_id == order[300]
    assert len(told(scores[:3], RunSettings(), written_id=2).rows) == 3, "no more rows than tokens"


def test_equals_are_taken_by_their_ids() -> None:
    stages = told(np.zeros(9, dtype=np.float32), RunSettings(temperature=1.0, top_p=0.5), drawn=0.0, written_id=7, count=3)
    assert [row.id for row in stages.rows] == [0, 1, 2, 7]
    assert [row.share for row in stages.rows] == pytest.approx([0.2, 0.2, 0.2, 0.0])
    assert [row.begins for row in stages.rows] == pytest.approx([0.0, 0.2, 0.4, 1.0])
    tied = told(np.array([1.0, 2.0, 2.0, 0.0], dtype=np.float32), RunSettings(temperature=1.0, top_k=1), written_id=3)
    assert (tied.kept_top_k, tied.kept_top_p) == (2, 2), "who ties with the last one in top-k stays"


def test_masked_scores_keep_no_share() -> None:
    scores = np.full(50, -np.inf, dtype=np.float32)
    scores[[4, 9]] = 1.0
    made = chances(scores, RunSettings(temperature=1.0))
    assert made.tempered()[[4, 9]].tolist() == [0.5, 0.5]
    assert [fallen_on(made.shares, drawn) for drawn in (0.0, 0.49, 0.5, 0.99)] == [4, 4, 9, 9]


def test_a_token_that_the_model_rules_out_travels() -> None:
    """JSON knows no infinity: a score of −∞ is None on the way, and its shares are 0."""
    scores = np.full(6, -np.inf, dtype=np.float32)
    scores[[2, 4]] = 1.0, -3.4e38
    stages = told(scores, RunSettings(temperature=1.0), written_id=0, count=3)
    assert {row.id: row.logit for row in stages.rows} == {2: 1.0, 4: float(scores[4]), 0: None}
    assert [row.likely for row in stages.rows] == [1.0, 0.0, 0.0]
    assert codec.load(codec.dump(stages), Stages) == stages


def test_every_pick_uses_up_one_number() -> None:
    """Greedy, forced or drawn: the n-th number belongs to the n-th token, and is the n-th of the seed's own row."""
    vocabulary, logits = Vocabulary(make_tokenizer()), torch.from_numpy(scores_of(385))
    generator = torch.Generator().manual_seed(6)
    row = [torch.rand(1, generator=generator, dtype=torch.float64).item() for _ in range(8)]
    for settings in (RunSettings(seed=6), RunSettings(seed=6, temperature=1.0)):
        sampler = Sampler(settings)
        assert [sampler.pick(logits, vocabulary, 3 if n == 1 else None).drawn for n in range(4)] == row[:4]
        sampler.skip(3)
        assert sampler.pick(logits, vocabulary).drawn == row[7]


def test_a_forced_pick() -> None:
    vocabulary, logits = Vocabulary(make_tokenizer()), torch.from_numpy(scores_of(385))
    best, worst = int(logits.argmax()), int(logits.argmin())
    picked = Sampler(RunSettings()).pick(logits, vocabulary, worst)
    assert picked.id == picked.candidates[-1].id == worst
    assert [one.drawn_from for one in picked.candidates] == [float(one.id == best) for one in picked.candidates]
    for id in (-1, 385):
        with pytest.raises(OutOfRange):
            Sampler(RunSettings()).pick(logits, vocabulary, id)
