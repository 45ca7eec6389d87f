"""A run is asked how its tokens were chosen: its own logits once more, to the last bit where it can be; other settings; refusals."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, Cohere2Config, Gemma2Config, GraniteConfig, PreTrainedConfig

from engine import LoadedModel, Run, RunSettings, load_model
from engine.errors import InvalidSetting, OutOfRange, RunFreed, StagesUnavailable
from engine.generate.stepper import Stepper
from engine.kv.cache import LiveCache
from engine.model.readout import OutputHead
from engine.stem import stem_of
from tests.fakes import make_tokenizer
from tests.prompts import prompt_of
from tests.reference import uncached_logits

Tiny = Callable[..., LoadedModel]
KINDS = ["llama", "qwen2", "qwen3", "gemma3", "gpt2"]
SAMPLED = RunSettings(max_new_tokens=12, use_chat_template=False, temperature=0.9, top_k=40, top_p=0.8, seed=4, ignore_eos=True)
GREEDY = RunSettings(max_new_tokens=12, use_chat_template=False, ignore_eos=True)


@contextmanager
def seeing_logits() -> Iterator[list[torch.Tensor]]:
    """The logits of every pass that is made while inside."""
    seen: list[torch.Tensor] = []
    forward = LiveCache.forward

    def see(self: LiveCache, ids: torch.Tensor) -> torch.Tensor:
        seen.append(logits := forward(self, ids))
        return logits

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LiveCache, "forward", see)
        yield seen


def stepper_of(run: Run) -> Stepper:
    return run._live_stepper()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_logits_can_be_had_again_bit_for_bit(tiny_dir: Callable[..., Path], kind: str, dtype: str) -> None:
    model = load_model(str(tiny_dir(kind)), device="cpu", dtype=dtype)
    run = Run(model, prompt_of(model, 70), SAMPLED)
    with seeing_logits() as seen:
        steps = list(run.decode())
    assert len(seen) == len(steps) + 1 == len(stepper_of(run).heads)
    for index in (0, 5, 11, 3):
        assert torch.equal(stepper_of(run).logits(index), seen[index])
    assert {(tuple(head.shape), head.untyped_storage().nbytes()) for head in stepper_of(run).heads} == {((32,), 32 * model.dtype.itemsize)}


@pytest.mark.parametrize("kind", KINDS)
def test_logits_are_those_of_a_direct_computation(tiny: Tiny, kind: str) -> None:
    """`lm_head` on `output_hidden_states`, and the whole model without a cache: at every position of the answer."""
    model = tiny(kind)
    network: Any = model.model
    run = Run(model, prompt_of(model, 70), SAMPLED)
    list(run.decode())
    ids = [token.id for token in (*run.tokens, *run.record().generated)]
    with torch.inference_mode():
        states = network(torch.tensor([ids]), output_hidden_states=True, use_cache=False).hidden_states[-1][0]
    plain = uncached_logits(model, ids)
    for index in range(12):
        position = 70 - 1 + index
        assert torch.allclose(stepper_of(run).heads[index], states[position], atol=1e-4)
        assert torch.allclose(stepper_of(run).logits(index), network.lm_head(states[position]), atol=1e-4)
        assert torch.allclose(stepper_of(run).logits(index), plain[position], atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("settings", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
def test_a_run_would_write_what_it_wrote(tiny: Tiny, kind: str, settings: RunSettings) -> None:
    run = Run(tiny(kind), prompt_of(tiny(kind), 70), settings)
    list(run.decode())
    record = run.record()
    traces = [record.prefill, *record.steps]
    for index, token in enumerate(record.generated):
        stages, trace = run.stages(index), traces[index]
        assert trace is not None
        assert stages.index == index
        assert stages.written_id == stages.would_write_id == token.id
        assert stages.drawn == trace.drawn
        assert (stages.temperature, stages.top_k, stages.top_p) == (settings.temperature, settings.top_k, settings.top_p)
        rows = {row.id: row for row in stages.rows}
        for candidate in trace.candidates:
            assert rows[candidate.id].likely == pytest.approx(candidate.probability, rel=1e-4)
            assert rows[candidate.id].share == candidate.drawn_from
            assert (rows[candidate.id].raw, rows[candidate.id].text) == (candidate.raw, candidate.text)


def test_other_settings_change_the_answer_and_not_the_run(tiny: Tiny) -> None:
    run = Run(tiny(), prompt_of(tiny(), 20), SAMPLED)
    list(run.decode())
    before = run.record()
    for index in range(12):
        greedy = run.stages(index, temperature=0.0)
        assert greedy.would_write_id == greedy.rows[0].id
        assert (greedy.top_k, greedy.top_p, greedy.drawn) == (40, 0.8, run.stages(index).drawn)
        assert run.stages(index, top_k=1).would_write_id == greedy.would_write_id
        assert run.stages(index, temperature=1000.0, top_k=0, top_p=1.0).kept_top_p == tiny().shape.vocab_size
    assert run.record() == before
    fresh = Run(tiny(), prompt_of(tiny(), 20), SAMPLED)
    list(fresh.decode())
    assert fresh.record().generated == before.generated


def test_a_forced_token_is_told_apart_from_what_would_have_been(tiny: Tiny) -> None:
    free = Run(tiny(), prompt_of(tiny(), 20), SAMPLED)
    list(free.decode())
    first, second = (token.id for token in free.record().generated[:2])
    other = (second + 1) % tiny().shape.vocab_size
    run = Run(tiny(), prompt_of(tiny(), 20), SAMPLED, forced=(first, other))
    list(run.decode())
    stages = run.stages(1)
    assert (stages.written_id, stages.would_write_id) == (other, second)
    assert {other, second} <= {row.id for row in stages.rows}


@pytest.mark.parametrize("kind", ["llama", "gemma3", "gpt2"])
@pytest.mark.parametrize("freed", [False, True])
@pytest.mark.parametrize("fork", [0, 7])
def test_a_branch_tells_the_stages_of_what_it_shares(tiny: Tiny, kind: str, freed: bool, fork: int) -> None:
    """Where the notes are taken over to the last bit; where all is read once more, in other products, nearly."""
    model = tiny(kind)
    parent = Run(model, prompt_of(model, 40), SAMPLED)
    list(parent.decode())
    expected = [parent.stages(index) for index in range(fork + 1)]
    other = next(row.id for row in expected[fork].rows if row.id != expected[fork].written_id)
    stem = stem_of(parent.record(), fork, other, "parent")
    branch = Run.revive(model, parent.prompt, SAMPLED, stem) if freed else parent.branch(fork, other)
    for index in range(fork):
        got = branch.stages(index)
        assert [row.id for row in got.rows] == [row.id for row in expected[index].rows]
        assert [row.share for row in got.rows] == pytest.approx([row.share for row in expected[index].rows], abs=1e-4)
        assert freed or got == expected[index]
    last = branch.stages(fork)
    assert (last.written_id, last.would_write_id, last.drawn) == (other, expected[fork].written_id, expected[fork].drawn)
    following = list(branch.decode())
    for step in following:
        stages = branch.stages(step.index)
        assert stages.would_write_id == stages.written_id == step.token.id


def test_one_application_of_the_head_for_one_step(tiny: Tiny) -> None:
    run = Run(tiny(), prompt_of(tiny(), 20), SAMPLED)
    list(run.decode())
    run.stages(0)  # the first question also holds the head against the model itself
    calls: list[int] = []
    handle = tiny().model.get_output_embeddings().register_forward_hook(lambda *_: calls.append(1))
    try:
        for temperature in (0.1, 1.0, 5.0):
            run.stages(3, temperature=temperature)
        assert len(calls) == 1
        run.stages(4)
        assert len(calls) == 2
    finally:
        handle.remove()


def test_what_cannot_be_asked(tiny: Tiny) -> None:
    run = Run(tiny(), prompt_of(tiny(), 20), SAMPLED)
    with pytest.raises(OutOfRange):
        run.stages(0)  # nothing has been read
    run.prefill()
    assert run.stages(0).written_id == run.prefill().first.id
    for index in (-1, 1):
        with pytest.raises(OutOfRange) as caught:
            run.stages(index)
        assert caught.value.params == {"field": "index", "value": index, "count": 1}
    for count in (0, tiny().shape.vocab_size + 1):
        with pytest.raises(OutOfRange):
            run.stages(0, count=count)
    for wrong in ({"temperature": -1.0}, {"temperature": 1001.0}, {"temperature": math.nan}, {"top_k": -1}, {"top_k": 1.5}, {"top_p": 1.1}):
        with pytest.raises(InvalidSetting) as refused:
            run.stages(0, **wrong)  # type: ignore[arg-type]
        assert refused.value.params["field"] in wrong
    assert len(run.stages(0, count=tiny().shape.vocab_size).rows) == tiny().shape.vocab_size
    run.free()
    with pytest.raises(RunFreed):
        run.stages(0)


WIDE = {"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 32, "intermediate_size": 48, "num_key_value_heads": 2}


@pytest.mark.parametrize(
    ("config", "changes", "extra"),
    [
        (Gemma2Config, {"head_dim": 8, "final_logit_softcapping": 3.0}, "final_logit_softcapping"),
        (GraniteConfig, {"logits_scaling": 8.0}, "logits_scaling"),
        (Cohere2Config, {"logit_scale": 0.0625}, "logit_scale"),
    ],
    ids=["gemma2", "granite", "cohere2"],
)
def test_a_models_own_extras_are_done_or_refused(
    tmp_path: Path, config: type[PreTrainedConfig], changes: dict[str, Any], extra: str
) -> None:
    tokenizer = make_tokenizer()
    ids = {"vocab_size": len(tokenizer), "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 2, "max_position_embeddings": 256}
    torch.manual_seed(0)
    network: Any = AutoModelForCausalLM.from_config(config(**WIDE, **ids, **changes), dtype=torch.float32)
    for weight in network.parameters():
        weight.data.mul_(8.0 if weight.ndim > 1 else 1.0)
    network.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    model = load_model(str(tmp_path), device="cpu", dtype="float32")
    run = Run(model, "the cat sat", SAMPLED)
    with seeing_logits() as seen:
        list(run.decode())
    for index in (0, 6):
        assert torch.allclose(stepper_of(run).logits(index), seen[index], atol=1e-6)
        assert run.stages(index).would_write_id == run.stages(index).written_id
    again = Run(model, "the cat sat", SAMPLED)
    list(again.decode())
    object.__setattr__(model.model.config, extra, None)  # past the config's own checks
    with pytest.raises(StagesUnavailable) as refused:
        again.stages(0)
    assert refused.value.params == {"reason": "disagrees"}, "an extra that is not known would be found out"


def test_a_model_without_a_head_of_its_own(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(tiny().model), "get_output_embeddings", lambda self: None)
    run = Run(tiny(), "the cat", SAMPLED)
    list(run.decode())
    assert OutputHead(tiny().model).reason == "head"
    assert stepper_of(run).heads == []
    with pytest.raises(StagesUnavailable) as refused:
        run.stages(2)
    assert refused.value.params == {"reason": "head"}


def test_what_is_kept_is_small_and_counted(tiny: Tiny) -> None:
    run = Run(tiny(), prompt_of(tiny(), 100), GREEDY)
    list(run.decode())
    assert stepper_of(run).heads_bytes() == 12 * 32 * 4 + tiny().shape.vocab_size * 4
    run.stages(0)
    assert stepper_of(run).heads_bytes() == 12 * 32 * 4 + tiny().shape.vocab_size * 4, "the scores asked for last stay in hand"
