"""Runs of tiny models to be left, and what equals a branch of them: a fresh run that is forced to the same prefix. Knows no answers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from engine.model.layers import decoder_layers
from engine.run import Run
from engine.run_settings import RunSettings
from tests.prompts import prompt_of
from tests.reference import ids_of, uncached_logits

if TYPE_CHECKING:
    from engine.model.loader import LoadedModel

KINDS = ["llama", "qwen3", "gemma3", "gpt2"]
ANSWER = 12
OPEN = RunSettings(max_new_tokens=ANSWER, use_chat_template=False, ignore_eos=True)
DRAWN = replace(OPEN, temperature=1.0, top_p=0.9, seed=5)
FOREIGN = 77  # a token that the tiny models do not think of by themselves


def started(model: LoadedModel, tokens: int, settings: RunSettings = DRAWN) -> Run:
    run = Run(model, prompt_of(model, tokens), settings)
    run.prefill()
    return run


def finished(model: LoadedModel, tokens: int, settings: RunSettings = DRAWN) -> Run:
    run = started(model, tokens, settings)
    list(run.decode())
    return run


def written(run: Run) -> list[int]:
    return ids_of(run.record().generated)


def read_ids(run: Run) -> list[int]:
    return ids_of(run.tokens) + written(run)[:-1]


def forced_to(run: Run, index: int, token_id: int) -> Run:
    """A fresh run that is made to write what `run` wrote before `index`, and there `token_id`; finished."""
    fresh = Run(run.model, run.prompt, run.settings, forced=(*written(run)[:index], token_id))
    list(fresh.decode())
    return fresh


@contextmanager
def passes(model: LoadedModel) -> Iterator[list[int]]:
    """Tokens of each forward pass through the model's layers that is made while inside."""
    lengths: list[int] = []
    handle = decoder_layers(model.model)[0].register_forward_pre_hook(lambda _, given: lengths.append(given[0].shape[1]))
    try:
        yield lengths
    finally:
        handle.remove()


def assert_equal(one: Run, other: Run) -> None:
    """Tokens, numbers drawn, bytes, scores and maps; scores also against one pass without a cache."""
    assert written(one) == written(other)
    traces, others = [[run.prefill(), *run.record().steps] for run in (one, other)]
    assert [trace.drawn for trace in traces] == [trace.drawn for trace in others]
    prompt = len(one.tokens)
    assert [trace.kv_tokens for trace in traces] == [prompt + index for index in range(len(traces))]
    assert [(trace.kv_bytes, trace.recorded_bytes) for trace in traces] == [(trace.kv_bytes, trace.recorded_bytes) for trace in others]
    assert (one.kv_bytes(), one._live_stepper().ids) == (other.kv_bytes(), read_ids(other))
    for index, logits in enumerate(uncached_logits(one.model, read_ids(one))[prompt - 1 :]):
        assert (one._live_stepper().logits(index) - logits).abs().max() <= 1e-4
        assert (one._live_stepper().logits(index) - other._live_stepper().logits(index)).abs().max() <= 1e-4
    for layer in range(one.model.shape.num_hidden_layers):
        assert np.abs(one.attention(layer, 1) - other.attention(layer, 1)).max() <= 1e-5
