"""Attention of the real SmolLM2 in float32, every layer and head, against eager attention."""

from __future__ import annotations

import numpy as np
import pytest

from engine import LoadedModel, Run, RunSettings
from tests.prompts import prompt_of
from tests.reference import eager_attention, ids_of


@pytest.mark.parametrize("tokens", [24, 300])
def test_every_map_equals_eager_attention(smollm2: LoadedModel, tokens: int) -> None:
    settings = RunSettings(max_new_tokens=5, use_chat_template=False, ignore_eos=True)
    run = Run(smollm2, prompt_of(smollm2, tokens), settings)
    prompt = run.prefill().prompt_tokens
    list(run.decode())
    ids = ids_of(run.tokens) + ids_of(run.record().generated)[:-1]
    eager = eager_attention(smollm2, ids)
    assert prompt == tokens
    for layer in range(30):
        for head in range(9):
            seen = run.attention(layer, head)
            assert seen.shape == (tokens + 4, tokens + 4)
            assert np.abs(seen - eager[layer, head]).max() <= 1e-5
            assert np.allclose(seen.sum(1), 1, atol=1e-5)
            assert not np.triu(seen, 1).any()
        assert np.abs(run.attention(layer) - eager[layer].mean(0)).max() <= 1e-5


def test_memory_of_recording_grows_with_n(smollm2: LoadedModel) -> None:
    """30 layers · 9 heads · 64 · 4 bytes = 69,120 B a token in float32: at 1,024 tokens 71 MB, in bfloat16 35 MB; n² would be 1.1 GB."""
    run = Run(smollm2, prompt_of(smollm2, 128), RunSettings(max_new_tokens=2, use_chat_template=False, ignore_eos=True))
    assert run.prefill().recorded_bytes == 128 * 69_120
    assert [step.recorded_bytes for step in run.decode()] == [129 * 69_120]
