"""Sampling: transformers' own processors are the reference; extremes stay finite; one seed, one answer."""

from __future__ import annotations

import math
import time

import pytest
import torch
from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from engine.errors import NotFinite
from engine.generate import sampling
from engine.generate.sampling import Sampler
from engine.generate.tokens import Vocabulary
from engine.trace import RunSettings
from tests.fakes import make_tokenizer

VOCABULARY = Vocabulary(make_tokenizer())


def logits_of(size: int = 3000, seed: int = 0) -> torch.Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(seed)) * 3


def distribution(logits: torch.Tensor, run: RunSettings) -> torch.Tensor:
    return torch.from_numpy(sampling.distribution(sampling.as_scores(logits), run))


def reference(logits: torch.Tensor, run: RunSettings) -> torch.Tensor:
    """float64 [vocabulary] from transformers' warpers in generate()'s order."""
    ids, scores = torch.zeros(1, 0, dtype=torch.long), logits.double()[None]
    scores = TemperatureLogitsWarper(run.temperature)(ids, scores)
    if run.top_k:
        scores = TopKLogitsWarper(run.top_k)(ids, scores)
    if run.top_p < 1:
        scores = TopPLogitsWarper(run.top_p)(ids, scores)
    return scores.softmax(-1)[0]


@pytest.mark.parametrize("top_p", [0.0, 0.1, 0.5, 0.9, 0.999, 1.0])
@pytest.mark.parametrize("top_k", [0, 1, 7, 50, 2999, 3000, 10_000])
@pytest.mark.parametrize("temperature", [0.2, 1.0, 2.5, 100.0])
def test_filters_are_transformers_own(temperature: float, top_k: int, top_p: float) -> None:
    run = RunSettings(temperature=temperature, top_k=top_k, top_p=top_p)
    for seed in range(3):
        got, expected = distribution(logits_of(seed=seed), run), reference(logits_of(seed=seed), run)
        assert torch.equal(got > 0, expected > 0)
        torch.testing.assert_close(got, expected, atol=1e-12, rtol=1e-9)


def test_order_is_temperature_top_k_top_p() -> None:
    """By hand: shares .5 .3 .2 at T=1; T=.5 squares them to 25:9:4; top-k 2 leaves 25:9 = .735:.265; top-p .7 leaves the first."""
    logits = torch.tensor([0.5, 0.3, 0.2]).log()
    squared = distribution(logits, RunSettings(temperature=0.5))
    torch.testing.assert_close(squared, torch.tensor([25, 9, 4], dtype=torch.float64) / 38, atol=1e-6, rtol=0)
    two = distribution(logits, RunSettings(temperature=0.5, top_k=2))
    torch.testing.assert_close(two, torch.tensor([25, 9, 0], dtype=torch.float64) / 34, atol=1e-6, rtol=0)
    assert distribution(logits, RunSettings(temperature=0.5, top_k=2, top_p=0.7)).tolist() == [1, 0, 0]
    assert distribution(logits, RunSettings(temperature=0.5, top_p=0.7)).count_nonzero() == 2  # without top-k .658 does not reach .7


def test_top_k_keeps_ties() -> None:
    assert distribution(torch.tensor([1.0, 2.0, 2.0, 0.0]), RunSettings(temperature=1, top_k=1)).tolist() == [0, 0.5, 0.5, 0]


@pytest.mark.parametrize("temperature", [0.0, 5e-324, 1e-5, 100.0, 1000.0])
@pytest.mark.parametrize("top_k", [0, 10_000_000])
@pytest.mark.parametrize("top_p", [0.0, 1.0])
@pytest.mark.parametrize("scale", [1.0, 1e4, 1e30])
def test_extremes_stay_finite(temperature: float, top_k: int, top_p: float, scale: float) -> None:
    run = RunSettings(temperature=temperature, top_k=top_k, top_p=top_p)
    logits = logits_of(385) * scale
    shares = distribution(logits, run)
    assert torch.isfinite(shares).all()
    assert float(shares.sum()) == pytest.approx(1, abs=1e-12)
    picked = Sampler(run).pick(logits, VOCABULARY)
    numbers = [number for candidate in picked.candidates for number in (candidate.probability, candidate.drawn_from)]
    assert all(math.isfinite(number) and 0 <= number <= 1 for number in numbers)
    assert picked.id in {candidate.id for candidate in picked.candidates}
    if temperature <= 1e-5 or top_p == 0:
        assert picked.id == int(logits.argmax())


def test_greedy_is_argmax_ties_included() -> None:
    for seed in range(20):
        logits = logits_of(385, seed).round()
        picked = Sampler(RunSettings()).pick(logits, VOCABULARY)
        assert picked.id == int(logits.argmax())
        assert picked.candidates[0].id == picked.id
        assert [candidate.drawn_from for candidate in picked.candidates] == [1.0] + [0.0] * 9
    all_equal = Sampler(RunSettings()).pick(torch.zeros(385), VOCABULARY)
    assert all_equal.id == int(torch.zeros(385).argmax())
    assert len(all_equal.candidates) == 10


def test_candidates_are_the_models_own_ten_best() -> None:
    logits = logits_of(385)
    probabilities = logits.double().softmax(0)
    for run in (RunSettings(), RunSettings(temperature=100, seed=5), RunSettings(temperature=0.7, top_k=3)):
        picked = Sampler(run).pick(logits, VOCABULARY)
        assert [candidate.id for candidate in picked.candidates[:10]] == probabilities.topk(10).indices.tolist()
        assert picked.id in {candidate.id for candidate in picked.candidates}
        assert len({candidate.id for candidate in picked.candidates}) == len(picked.candidates) <= 11
        shares = distribution(logits, run)
        for candidate in picked.candidates:
            assert candidate.probability == pytest.approx(float(probabilities[candidate.id]), rel=1e-4)
            assert candidate.drawn_from == pytest.approx(float(shares[candidate.id]))
            assert candidate.raw == VOCABULARY.raw(candidate.id)


def test_one_seed_one_answer() -> None:
    def draw(seed: int) -> list[int]:
        sampler = Sampler(RunSettings(temperature=1.0, seed=seed))
        return [sampler.pick(logits_of(385, step), VOCABULARY).id for step in range(30)]

    torch.manual_seed(1)
    first = draw(7)
    torch.manual_seed(2)  # the global generator has no say
    assert draw(7) == first
    assert draw(8) != first


def test_draws_follow_the_distribution() -> None:
    """3,000 draws from .6 .3 .1 (and a token that may never come): each count within five standard deviations."""
    logits = torch.tensor([0.6, 0.3, 0.1, 0.0]).log()
    sampler = Sampler(RunSettings(temperature=1.0, seed=3))
    counts = torch.bincount(torch.tensor([sampler.pick(logits, VOCABULARY).id for _ in range(3000)]), minlength=4)
    for count, share in zip(counts.tolist(), (0.6, 0.3, 0.1, 0.0), strict=True):
        assert abs(count - 3000 * share) <= 5 * math.sqrt(3000 * share * (1 - share))


def test_filtered_tokens_are_never_drawn() -> None:
    run = RunSettings(temperature=5.0, top_k=4, seed=1)
    sampler, logits = Sampler(run), logits_of(385)
    best = set(logits.topk(4).indices.tolist())
    assert {sampler.pick(logits, VOCABULARY).id for _ in range(300)} == best


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_scores_are_the_logits_exactly(dtype: torch.dtype) -> None:
    logits = torch.cat([logits_of(385), torch.tensor([0.0, -0.0, math.inf, -math.inf, 1e-40])]).to(dtype)
    assert torch.equal(torch.from_numpy(sampling.as_scores(logits)), logits.float())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_any_float_dtype_and_grad(dtype: torch.dtype, temperature: float) -> None:
    logits = logits_of(385).to(dtype).requires_grad_()
    wide = logits.detach().float()
    run = RunSettings(temperature=temperature, seed=2)
    assert Sampler(run).pick(logits, VOCABULARY) == Sampler(run).pick(wide, VOCABULARY)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_logits_that_are_not_numbers(bad: float, temperature: float) -> None:
    logits = logits_of(385)
    logits[3] = bad
    with pytest.raises(NotFinite):
        Sampler(RunSettings(temperature=temperature)).pick(logits, VOCABULARY)


def test_masked_logits_are_allowed() -> None:
    logits = torch.full((385,), -math.inf)
    logits[[4, 9]] = 1.0
    picked = Sampler(RunSettings(temperature=1.0)).pick(logits, VOCABULARY)
    assert picked.id in (4, 9)
    assert [candidate.probability for candidate in picked.candidates[:2]] == pytest.approx([0.5, 0.5])


def test_nucleus_takes_lower_ids_of_equals() -> None:
    assert distribution(torch.zeros(4), RunSettings(temperature=1.0, top_p=0.5)).tolist() == [0.5, 0.5, 0, 0]
    assert distribution(torch.zeros(4), RunSettings(temperature=1.0, top_p=0.0)).tolist() == [1, 0, 0, 0]


def test_a_pick_is_cheap_beside_a_decode_step() -> None:
    """Processor time on 49,152 logits, best of several; a step of the smallest model takes 20 ms at the very least."""
    logits = logits_of(49_152)
    for run in (RunSettings(), RunSettings(temperature=1.0, top_k=50, top_p=0.9), RunSettings(temperature=1.5, top_p=0.99)):
        sampler, best_s = Sampler(run), math.inf
        for _ in range(15):
            started_s = time.thread_time()
            sampler.pick(logits, VOCABULARY)
            best_s = min(best_s, time.thread_time() - started_s)
        assert best_s < (0.003 if run.temperature == 0 else 0.015)
