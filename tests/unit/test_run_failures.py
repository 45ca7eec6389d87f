"""Runs that fail: what is raised, what is kept, what is logged, and that cache and maps stay readable."""

from __future__ import annotations

import logging
from collections.abc import Callable

import numpy as np
import pytest
import torch
from transformers.cache_utils import DynamicLayer

from engine import LoadedModel, Run, RunRecord, RunSettings, StopReason
from engine.errors import EmptyPrompt, NoChatTemplate, OutOfMemory, PromptTooLong, RemoteError
from engine.kv.sizes import kv_bytes
from tests.prompts import prompt_of

Tiny = Callable[..., LoadedModel]
OPEN = RunSettings(max_new_tokens=8, ignore_eos=True)


@pytest.mark.parametrize("prompt", ["", " ", "\n"])
def test_an_empty_prompt_ends_the_run_with_its_error(tiny: Tiny, prompt: str) -> None:
    run = Run(tiny(), prompt)
    with pytest.raises(EmptyPrompt):
        run.prefill()
    assert (run.stop_reason, run.error and run.error.code) == (StopReason.ERROR, "empty_prompt")
    assert list(run.decode()) == []
    with pytest.raises(RemoteError):
        run.prefill()


def test_a_model_without_template_says_so(tiny: Tiny) -> None:
    with pytest.raises(NoChatTemplate):
        Run(tiny("llama", chat=False), "the cat").prefill()


def test_a_prompt_longer_than_the_context_never_runs(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny("llama", max_position_embeddings=16)
    monkeypatch.setattr(model.model, "forward", lambda **inputs: pytest.fail("the model was asked"))
    run = Run(model, prompt_of(model, 17), RunSettings(use_chat_template=False))
    with pytest.raises(PromptTooLong) as caught:
        run.prefill()
    assert caught.value.params == {"tokens": 17, "context": 16}


def _torch_full() -> None:
    torch.empty(2**60, dtype=torch.uint8)  # what torch's own allocator says


def _python_full() -> None:
    raise MemoryError


def _cuda_full() -> None:
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")


def _mps_full() -> None:
    raise RuntimeError("Invalid buffer size: 1073741824.00 GiB")


REFUSALS = [_torch_full, _python_full, _cuda_full, _mps_full]


def _fail_after(monkeypatch: pytest.MonkeyPatch, updates: int, refuse: Callable[[], object]) -> None:
    """Let the cache grow `updates` times (once per layer and pass), then have the allocator refuse."""
    update, calls = DynamicLayer.update, []

    def growing(self: DynamicLayer, *args: torch.Tensor, **kwargs: object) -> object:
        calls.append(1)
        if len(calls) > updates:
            refuse()
        return update(self, *args, **kwargs)

    monkeypatch.setattr(DynamicLayer, "update", growing)


@pytest.mark.parametrize("refuse", REFUSALS)
def test_out_of_memory_in_a_step_keeps_what_there_was(tiny: Tiny, monkeypatch: pytest.MonkeyPatch, refuse: Callable[[], object]) -> None:
    model = tiny("qwen3")  # 3 layers: the third step fails in its second layer
    run = Run(model, "the cat", OPEN)
    _fail_after(monkeypatch, 3 + 2 * 3 + 1, refuse)
    steps = list(run.decode())
    assert len(steps) == 2
    assert run.stop_reason is StopReason.OUT_OF_MEMORY
    assert run.error is not None
    assert (run.error.code, run.error.params["cause"]) == ("out_of_memory", "device")
    read = len(run.tokens) + 2
    assert run.kv_bytes() == kv_bytes(model.shape, tokens=read, dtype_bytes=4)
    assert run.cell(0, read - 1).shape == (2, 2, 16)
    for layer in range(3):
        assert run.attention(layer).shape == (read, read)
        assert np.allclose(run.attention(layer).sum(1), 1, atol=1e-5)
    assert run.record().stop_reason is StopReason.OUT_OF_MEMORY
    assert list(run.decode()) == []


@pytest.mark.parametrize("refuse", REFUSALS)
def test_out_of_memory_in_prefill_is_raised_and_kept(tiny: Tiny, monkeypatch: pytest.MonkeyPatch, refuse: Callable[[], object]) -> None:
    run = Run(tiny(), "the cat", OPEN)
    _fail_after(monkeypatch, 1, refuse)
    with pytest.raises(OutOfMemory):
        run.prefill()
    assert run.stop_reason is StopReason.OUT_OF_MEMORY
    assert run.kv_bytes() == 0
    record = run.record()
    assert (record.prefill, record.steps) == (None, ())
    assert RunRecord.from_json(record.to_json()) == record


def test_any_other_failure_is_kept_and_logged(tiny: Tiny, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def refuse() -> None:
        raise ValueError("the wire is cut")

    run = Run(tiny(), "the cat", OPEN)
    _fail_after(monkeypatch, 3 + 3, refuse)
    with caplog.at_level(logging.ERROR):
        assert len(list(run.decode())) == 1
    assert run.stop_reason is StopReason.ERROR
    assert run.error is not None
    assert (run.error.code, run.error.params["detail"]) == ("internal", "ValueError: the wire is cut")
    assert "Traceback" in caplog.text


def test_a_failure_in_prefill_is_not_hidden_from_a_notebook(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise ValueError("the wire is cut")

    run = Run(tiny(), "the cat", OPEN)
    _fail_after(monkeypatch, 0, refuse)
    with pytest.raises(ValueError, match="the wire is cut"):
        run.prefill()
    assert list(run.decode()) == []
    assert run.stop_reason is StopReason.ERROR
