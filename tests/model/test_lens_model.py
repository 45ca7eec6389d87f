"""The logit lens of the real SmolLM2 in float32, every layer, against transformers' own hidden states."""

from __future__ import annotations

import numpy as np
import pytest

from engine import LoadedModel, Run, RunSettings
from tests.reference import ids_of, lens_probabilities

RAW = RunSettings(max_new_tokens=1, use_chat_template=False)
TEXTS = ["The capital of France is", "The cat put the orange on the table, but it", "你好，世界"]


@pytest.mark.parametrize("text", TEXTS)
def test_every_layer_equals_a_direct_computation(smollm2: LoadedModel, text: str) -> None:
    run = Run(smollm2, text, RAW)
    picked = run.prefill().first.id
    expected = lens_probabilities(smollm2, ids_of(run.tokens))
    rows = run.lens(5)
    assert len(rows) == len(expected) == 30
    for row, shares in zip(rows, expected, strict=True):
        assert [one.probability for one in row.candidates] == pytest.approx(np.sort(shares)[::-1][:5].tolist(), abs=1e-4)
        assert [one.probability for one in row.candidates] == pytest.approx(shares[[one.id for one in row.candidates]].tolist(), abs=1e-4)
        assert row.rank == np.count_nonzero(shares > shares[picked])
        assert row.probability == pytest.approx(shares[picked], abs=1e-4)


def test_the_last_layer_says_what_the_run_said_and_the_first_does_not(smollm2: LoadedModel) -> None:
    run = Run(smollm2, TEXTS[0], RAW)
    said = run.prefill().candidates
    rows = run.lens(10)
    assert [one.id for one in rows[-1].candidates] == [one.id for one in said]
    assert [one.probability for one in rows[-1].candidates] == pytest.approx([one.probability for one in said], abs=1e-6)
    assert rows[-1].rank == 0
    assert rows[0].rank > 100, "the answer firms up on the way"


def test_parameters_by_their_work(smollm2: LoadedModel) -> None:
    """Tied: the table of 49,152 × 576 is the head; all the rest is multiplied with every token."""
    assert (smollm2.info.body_parameters, smollm2.info.head_parameters) == (106_203_456, 28_311_552)
    assert smollm2.info.lens_reason is None


def test_times_of_thirty_layers(smollm2: LoadedModel) -> None:
    prefill = Run(smollm2, " cat" * 300, RAW).prefill()
    assert len(prefill.layer_s) == 30
    assert 0 < sum(prefill.layer_s) <= prefill.prefill_s
