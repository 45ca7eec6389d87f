"""Ends brought about on purpose: a power cut, a shorter context; and that every end leaves a run to branch and room for the next."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from engine import LoadedModel, Run, RunRecord, RunSettings, StopReason
from engine.errors import InvalidSetting, PromptTooLong, UnsupportedConfig
from engine.kv.sizes import kv_bytes
from engine.model import fuse as fuses
from engine.model.fuse import fuse
from engine.trace import room_left
from tests.branches import ANSWER, DRAWN, FOREIGN, KINDS, OPEN, assert_equal, finished, forced_to, read_ids, started, written
from tests.prompts import prompt_of
from tests.reference import eager_attention

Tiny = Callable[..., LoadedModel]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tokens", [20, 61, 90])  # before gemma3's window, on its edge, past it
def test_a_power_cut_leaves_all_as_it_was_before_the_step(tiny: Tiny, kind: str, tokens: int) -> None:
    model = tiny(kind)
    whole, cut = finished(model, tokens), finished(model, tokens, replace(DRAWN, power_cut_at=4))
    assert (cut.stop_reason, cut.error and cut.error.code) == (StopReason.OUT_OF_MEMORY, "out_of_memory")
    assert cut.error is not None
    assert "alloc" in str(cut.error.params["detail"])
    assert cut.error.params["cause"] == "device"
    assert written(cut) == written(whole)[:4]
    read, last = tokens + 3, cut.record().steps[-1]
    assert (last.kv_tokens, cut._live_stepper().cache.tokens(), len(cut._live_stepper().ids)) == (read, read, read)
    assert cut.kv_bytes() == last.kv_bytes == kv_bytes(model.shape, tokens=read, dtype_bytes=4, between_steps=True)
    assert cut._live_stepper().recorded_bytes() == last.recorded_bytes
    eager = eager_attention(model, read_ids(cut))
    for layer in range(3):
        assert np.abs(cut.attention(layer, 1) - eager[layer, 1]).max() <= 1e-5
        held = read if model.shape.layer_windows[layer] is None else min(read, 63)
        for position in (read - held, read - 1):
            assert np.array_equal(cut.cell(layer, position), forced_to_stop(whole, 4).cell(layer, position))
    assert cut.stages(3).written_id == written(cut)[3]
    assert len(cut.lens()) == 3
    assert RunRecord.from_json(cut.record().to_json()) == cut.record()
    assert list(cut.decode()) == []


def forced_to_stop(run: Run, tokens: int) -> Run:
    """The same run, ended after so many tokens of its answer."""
    short = Run(run.model, run.prompt, replace(run.settings, max_new_tokens=tokens))
    list(short.decode())
    return short


@pytest.mark.parametrize("kind", ["llama", "gemma3"])
def test_after_a_power_cut_the_last_token_may_be_chosen_anew_without_reading_again(tiny: Tiny, kind: str) -> None:
    cut = finished(tiny(kind), 90, replace(DRAWN, power_cut_at=4))
    branch = cut.branch(3, FOREIGN)
    assert branch.origin is not None
    assert branch.origin.reread_s is None
    list(branch.decode())
    assert (branch.stop_reason, branch.settings.power_cut_at) == (StopReason.LENGTH, None)
    whole = finished(tiny(kind), 90)
    assert_equal(branch, forced_to(whole, 3, FOREIGN))


def test_the_refusal_is_real_and_comes_in_the_middle_layer(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny("qwen3")
    run = started(model, 20, replace(DRAWN, power_cut_at=1))
    grown: list[int] = []
    layers = run._live_stepper().cache._layers
    roll_back = run._live_stepper().cache._roll_back

    def looking(*given: object) -> None:
        grown.extend(layer.keys.shape[2] for layer in layers)
        roll_back(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(run._live_stepper().cache, "_roll_back", looking)
    assert list(run.decode()) == []
    assert grown == [21, 20, 20]
    assert run.stop_reason is StopReason.OUT_OF_MEMORY


def test_the_fuse_is_out_again_and_blows_in_its_own_thread_only(tiny: Tiny) -> None:
    model = tiny("qwen3")
    whole, others = finished(model, 20), []
    with fuse(model.model):
        thread = threading.Thread(target=lambda: others.append(finished(model, 20)))
        thread.start()
        thread.join()
        with pytest.raises(RuntimeError, match="alloc"):
            model.model(torch.tensor([[5]]))
    assert_equal(others[0], whole)
    assert_equal(finished(model, 20), whole)
    assert not any(layer._forward_pre_hooks for layer in model.model.modules())


def test_without_a_cut_nothing_is_hooked(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuses, "decoder_layers", lambda model: pytest.fail("a fuse was put in"))
    finished(tiny(), 20)
    finished(tiny(), 20, replace(DRAWN, power_cut_at=ANSWER))  # the token that is never written


def test_a_model_without_layers_to_cut_says_so_before_the_pass(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuses, "decoder_layers", lambda model: ())
    with pytest.raises(UnsupportedConfig), fuse(tiny().model):
        pytest.fail("the pass began")


@pytest.mark.parametrize("limit", [15, 16, 30, 5000])
def test_a_shorter_context_ends_the_answer(tiny: Tiny, limit: int) -> None:
    """All places are read, and one token more is written; a limit beyond the model's own changes nothing."""
    model = tiny("llama", max_position_embeddings=24)
    run = Run(model, prompt_of(model, 15), replace(DRAWN, context_limit=limit, max_new_tokens=100))
    list(run.decode())
    context = min(limit, 24)
    assert run.stop_reason is StopReason.CONTEXT_FULL
    assert run._live_stepper().cache.tokens() == context
    assert len(run.record().generated) == room_left(model.info, 15, limit) == context - 14


def test_a_prompt_beyond_the_shorter_context_never_runs(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny()
    monkeypatch.setattr(model.model, "forward", lambda **inputs: pytest.fail("the model was asked"))
    run = Run(model, prompt_of(model, 17), replace(DRAWN, context_limit=16))
    with pytest.raises(PromptTooLong) as caught:
        run.prefill()
    assert caught.value.params == {"tokens": 17, "context": 16}
    assert run.stop_reason is StopReason.ERROR


@pytest.mark.parametrize("change", [{"context_limit": 0}, {"power_cut_at": 0}, {"power_cut_at": -1}])
def test_limits_that_mean_nothing_are_refused(change: dict[str, int]) -> None:
    with pytest.raises(InvalidSetting):
        RunSettings(**change)  # type: ignore[arg-type]


def ends(model: LoadedModel) -> dict[StopReason, Run]:
    """A run of 20 tokens for every way in which one can end with a partial answer."""
    prompt, free = prompt_of(model, 20), finished(model, 20)
    cap = kv_bytes(model.shape, tokens=24, dtype_bytes=4)
    runs = {
        StopReason.EOS: Run(model, prompt, replace(DRAWN, ignore_eos=False), forced=(*written(free)[:3], model.info.eos_ids[0])),
        StopReason.LENGTH: Run(model, prompt, replace(DRAWN, max_new_tokens=5)),
        StopReason.CONTEXT_FULL: Run(model, prompt, replace(DRAWN, context_limit=23)),
        StopReason.TIMEOUT: Run(model, prompt, replace(DRAWN, time_limit_s=0.0)),
        StopReason.OUT_OF_MEMORY: Run(model, prompt, replace(DRAWN, kv_limit_bytes=cap)),
        StopReason.STOPPED: Run(model, prompt, DRAWN),
    }
    for reason, run in runs.items():
        for step in run.decode():
            if reason is StopReason.STOPPED and step.index == 3:
                run.stop()
    return runs


def test_every_end_can_be_had_by_settings_and_the_next_run_works(tiny: Tiny) -> None:
    model = tiny()
    whole = finished(model, 20)
    for reason, run in ends(model).items():
        assert run.stop_reason is reason
        generated = written(run)
        assert 1 <= len(generated) < ANSWER
        assert run.newest is not None
        assert run.newest.kv_tokens == 20 + len(generated) - 1
        assert run.attention(0).shape == (20 + len(generated) - 1,) * 2
        assert RunRecord.from_json(run.record().to_json()) == run.record()
        assert_equal(finished(model, 20), whole)


def test_a_run_can_be_left_whatever_its_end(tiny: Tiny) -> None:
    """The branch has the settings that ended it, and the time and room that are left: it goes on from an earlier token, and ends alike."""
    model = tiny()
    for reason, run in ends(model).items():
        before = written(run)
        branch = run.branch(0, FOREIGN)
        list(branch.decode())
        assert branch.origin is not None
        assert branch.origin.reread_s is None
        assert written(branch)[0] == FOREIGN
        if reason in (StopReason.EOS, StopReason.STOPPED):
            assert branch.stop_reason in (StopReason.LENGTH, StopReason.EOS)
        else:
            assert (branch.stop_reason, len(written(branch))) == (reason, len(before))
        assert (run.stop_reason, written(run)) == (reason, before)


def test_the_end_token_ends_a_branch_at_once(tiny: Tiny) -> None:
    run = finished(tiny(), 20, replace(OPEN, ignore_eos=False))
    branch = run.branch(2, run.model.info.eos_ids[0])
    assert list(branch.decode()) == []
    assert (branch.stop_reason, len(written(branch))) == (StopReason.EOS, 3)


def test_a_run_that_failed_can_be_left_too(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    run = started(tiny(), 20)
    steps = run.decode()
    for _ in range(4):
        next(steps)
    with monkeypatch.context() as patched:
        patched.setattr(run.model.model, "forward", lambda **inputs: (_ for _ in ()).throw(ValueError("the wire is cut")))
        assert list(steps) == []
    assert run.stop_reason is StopReason.ERROR
    branch = run.branch(4, FOREIGN)
    list(branch.decode())
    assert (branch.error, branch.stop_reason) == (None, StopReason.LENGTH)
    assert_equal(branch, forced_to(finished(run.model, 20), 4, FOREIGN))
