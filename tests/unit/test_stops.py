"""Every way in which an answer ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from engine import LoadedModel, Run, RunSettings, StopReason
from engine.errors import OutOfMemory
from engine.kv.sizes import kv_bytes
from engine.measure.clock import Clock
from engine.trace import room_left
from tests.prompts import prompt_of
from tests.reference import ids_of

Tiny = Callable[..., LoadedModel]
OPEN = RunSettings(max_new_tokens=8, ignore_eos=True)


def answered(model: LoadedModel, settings: RunSettings = OPEN) -> Run:
    run = Run(model, "the cat", settings)
    list(run.decode())
    return run


def with_eos(model: LoadedModel, *ids: int) -> LoadedModel:
    return replace(model, info=replace(model.info, eos_ids=ids))


def test_length(tiny: Tiny) -> None:
    run = answered(tiny())
    assert (run.stop_reason, len(run.record().generated), run.error) == (StopReason.LENGTH, 8, None)


def test_one_token_needs_no_step(tiny: Tiny) -> None:
    run = answered(tiny(), replace(OPEN, max_new_tokens=1))
    assert (run.stop_reason, run.record().steps) == (StopReason.LENGTH, ())
    assert run.prefill().ttft_s > 0
    assert run.prefill().kv_tokens == len(run.tokens)


def test_eos_ends_and_is_kept(tiny: Tiny) -> None:
    model = tiny()
    varied = replace(OPEN, temperature=2.0, seed=1)
    generated = ids_of(answered(model, varied).record().generated)
    last = next(one for one in generated[1:] if one != generated[0])
    run = answered(with_eos(model, last), replace(varied, ignore_eos=False))
    assert run.stop_reason is StopReason.EOS
    assert ids_of(run.record().generated) == generated[: generated.index(last) + 1]


def test_eos_at_once(tiny: Tiny) -> None:
    model = tiny()
    first = answered(model).prefill().first.id
    run = answered(with_eos(model, first), replace(OPEN, ignore_eos=False))
    assert (run.stop_reason, run.record().steps) == (StopReason.EOS, ())


def test_eos_may_be_ignored(tiny: Tiny) -> None:
    model = tiny()
    run = answered(with_eos(model, *range(400)))
    assert (run.stop_reason, len(run.record().generated)) == (StopReason.LENGTH, 8)


def test_eos_at_the_last_token_counts_as_eos(tiny: Tiny) -> None:
    run = answered(with_eos(tiny(), *range(400)), RunSettings(max_new_tokens=1))
    assert run.stop_reason is StopReason.EOS


@pytest.mark.parametrize("prompt", [15, 16])
def test_context_full(tiny: Tiny, prompt: int) -> None:
    """A context of 16 holds 16 tokens that were read; the one generated last is not read any more."""
    model = tiny("llama", max_position_embeddings=16)
    run = Run(model, prompt_of(model, prompt), replace(OPEN, use_chat_template=False))
    steps = list(run.decode())
    assert run.stop_reason is StopReason.CONTEXT_FULL
    assert len(steps) == 16 - prompt
    assert run._live_stepper().cache.tokens() == 16
    assert room_left(model.info, prompt) == len(run.record().generated) == 17 - prompt


def test_room_left_at_its_border(tiny: Tiny) -> None:
    """What fits is written to the last token as asked; one more is where the context ends; a prompt that fills all still gets one."""
    model = tiny("llama", max_position_embeddings=16)
    raw = replace(OPEN, use_chat_template=False)
    for prompt in (4, 15, 16):
        room = room_left(model.info, prompt)
        fits = Run(model, prompt_of(model, prompt), replace(raw, max_new_tokens=room))
        list(fits.decode())
        assert (fits.stop_reason, len(fits.record().generated)) == (StopReason.LENGTH, room)
        beyond = Run(model, prompt_of(model, prompt), replace(raw, max_new_tokens=room + 1))
        list(beyond.decode())
        assert (beyond.stop_reason, len(beyond.record().generated)) == (StopReason.CONTEXT_FULL, room)
    assert [room_left(model.info, prompt) for prompt in (16, 17, 1000)] == [1, 0, 0]


def test_stopped_at_step_three(tiny: Tiny) -> None:
    run = Run(tiny(), "the cat", OPEN)
    for step in run.decode():
        if step.index == 3:
            run.stop()
    assert (run.stop_reason, len(run.record().steps)) == (StopReason.STOPPED, 3)
    assert run.attention(0).shape[0] == step.kv_tokens
    run.stop(StopReason.TIMEOUT)
    assert run.stop_reason is StopReason.STOPPED


def test_stopped_before_it_began(tiny: Tiny) -> None:
    run = Run(tiny(), "the cat", OPEN)
    run.stop()
    assert list(run.decode()) == []
    assert (run.stop_reason, run.record().prefill) == (StopReason.STOPPED, None)


def test_freed_in_the_middle(tiny: Tiny) -> None:
    run = Run(tiny(), "the cat", OPEN)
    for step in run.decode():
        if step.index == 2:
            run.free()
    assert (run.stop_reason, len(run.record().steps)) == (StopReason.STOPPED, 2)


def test_timeout_counts_own_time_only(tiny: Tiny) -> None:
    """Prefill: 1 s reading and 1 s choosing. A step: 4 s. Limit 9 s: after two steps 10 s are used, pauses and waiting left out."""
    at = [0.0]

    def read() -> float:
        at[0] += 1.0
        return at[0]

    run = Run(tiny(), "the cat", replace(OPEN, time_limit_s=9.0), clock=Clock(torch.device("cpu"), read))
    steps = 0
    for _ in run.decode():
        steps += 1
        at[0] += 1000.0
        run.note_pause(500.0)
    assert (run.stop_reason, steps) == (StopReason.TIMEOUT, 2)


def test_no_time_at_all_gives_the_first_token(tiny: Tiny) -> None:
    run = answered(tiny(), replace(OPEN, time_limit_s=0.0))
    assert (run.stop_reason, len(run.record().generated)) == (StopReason.TIMEOUT, 1)


def test_cap_on_the_cache(tiny: Tiny) -> None:
    model = tiny()
    prompt = len(Run(model, "the cat", OPEN).tokens)
    cap = kv_bytes(model.shape, tokens=prompt + 3, dtype_bytes=4)
    run = answered(model, replace(OPEN, kv_limit_bytes=cap))
    assert (run.stop_reason, len(run.record().steps)) == (StopReason.OUT_OF_MEMORY, 3)
    assert run.error is not None
    assert (run.error.code, run.error.params["cause"]) == ("out_of_memory", "cap")
    assert run.kv_bytes() == cap


def test_cap_below_the_prompt(tiny: Tiny) -> None:
    run = Run(tiny(), "the cat", replace(OPEN, kv_limit_bytes=100))
    with pytest.raises(OutOfMemory) as caught:
        run.prefill()
    assert caught.value.params["cause"] == "cap"
    assert run.stop_reason is StopReason.OUT_OF_MEMORY
    assert run.record().prefill is None


def test_cap_that_sliding_layers_never_reach(tiny: Tiny) -> None:
    model = tiny("gemma3", layer_types=["sliding_attention"] * 3)
    cap = kv_bytes(model.shape, tokens=63, dtype_bytes=4)
    run = Run(model, prompt_of(model, 80), replace(OPEN, use_chat_template=False, kv_limit_bytes=cap))
    list(run.decode())
    assert run.stop_reason is StopReason.LENGTH
