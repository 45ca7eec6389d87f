"""The logit lens against transformers' own hidden states, and what is refused instead of being guessed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    Cohere2Config,
    Gemma2Config,
    GraniteConfig,
    OPTConfig,
    PreTrainedConfig,
    PreTrainedModel,
)

from engine import LoadedModel, Run, RunSettings, load_model
from engine.errors import LensUnavailable, NotFinite, OutOfRange, RunFreed
from engine.generate.lens import lens_rows
from engine.model.layers import LayerWatch
from engine.model.readout import Readout
from tests.prompts import prompt_of
from tests.reference import ids_of, lens_probabilities

Tiny = Callable[..., LoadedModel]
RAW = RunSettings(max_new_tokens=1, use_chat_template=False)
IDS = torch.arange(3, 20)[None]


@pytest.mark.parametrize("kind", ["llama", "qwen2", "qwen3", "gemma3", "gpt2"])
@pytest.mark.parametrize("tokens", [5, 150])
def test_every_layer_equals_a_direct_computation(tiny: Tiny, kind: str, tokens: int) -> None:
    model = tiny(kind)
    run = Run(model, prompt_of(model, tokens), RAW)
    picked = run.prefill().first.id
    expected = lens_probabilities(model, ids_of(run.tokens))
    rows = run.lens(7)
    assert [row.layer for row in rows] == [0, 1, 2]
    for row, shares in zip(rows, expected, strict=True):
        assert [one.id for one in row.candidates] == np.argsort(-shares, kind="stable")[:7].tolist()
        assert [one.probability for one in row.candidates] == pytest.approx(np.sort(shares)[::-1][:7].tolist(), abs=1e-4)
        assert row.rank == np.count_nonzero(shares > shares[picked])
        assert row.probability == pytest.approx(shares[picked], abs=1e-4)
        assert {one.drawn_from for one in row.candidates} == {0.0}
        assert [one.raw for one in row.candidates] == [model.vocabulary.raw(one.id) for one in row.candidates]


@pytest.mark.parametrize(("dtype", "near"), [("float32", 1e-5), ("bfloat16", 0.05), ("float16", 0.01)])
@pytest.mark.parametrize("kind", ["llama", "gemma3", "gpt2"])
def test_the_last_layer_says_what_the_run_said(tiny_dir: Callable[..., Path], kind: str, dtype: str, near: float) -> None:
    """`near`: a logit of another machine's kernel may be the next number of its dtype."""
    model = load_model(str(tiny_dir(kind)), device="cpu", dtype=dtype)
    assert model.info.lens_reason is None
    run = Run(model, prompt_of(model, 40), RAW)
    said = run.prefill().candidates
    last = run.lens(model.shape.vocab_size)[-1]
    again = {one.id: one.probability for one in last.candidates}
    assert [again[one.id] for one in said] == pytest.approx([one.probability for one in said], rel=near)
    assert last.probability == pytest.approx(said[0].probability, rel=near)


def test_a_drawn_token_keeps_its_own_rank(tiny: Tiny) -> None:
    """With a temperature the picked token is seldom the first choice: rank and share are its own, at temperature 1."""
    settings = RunSettings(max_new_tokens=1, use_chat_template=False, temperature=5.0, seed=3)
    run = Run(tiny(), prompt_of(tiny(), 20), settings)
    prefill = run.prefill()
    drawn = next(one for one in prefill.candidates if one.id == prefill.first.id)
    last = run.lens(3)[-1]
    assert last.rank > 2
    assert last.probability == pytest.approx(drawn.probability, abs=1e-6)
    assert len(last.candidates) == 3, "the picked one is told by its rank and is not put among the candidates"


def test_ranks_of_equals_follow_the_order_of_the_candidates(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    scores = torch.full((tiny().shape.vocab_size,), -2.0)
    scores[[7, 9, 30]] = 1.0
    monkeypatch.setattr(Readout, "__call__", lambda self, state: scores)
    ranks = {picked: lens_rows(tiny(), torch.zeros(1, 32), picked, 4)[0].rank for picked in (7, 9, 30, 0)}
    assert ranks == {7: 0, 9: 1, 30: 2, 0: 3}
    assert [one.id for one in lens_rows(tiny(), torch.zeros(1, 32), 9, 3)[0].candidates] == [7, 9, 30]


def test_the_whole_vocabulary_can_be_asked_for(tiny: Tiny) -> None:
    run = Run(tiny(), "the cat", RAW)
    run.prefill()
    rows = run.lens(tiny().shape.vocab_size)
    for row in rows:
        assert sum(one.probability for one in row.candidates) == pytest.approx(1)
    for count in (0, -1, tiny().shape.vocab_size + 1):
        with pytest.raises(OutOfRange) as caught:
            run.lens(count)
        assert caught.value.params == {"field": "count", "value": count, "count": run.model.shape.vocab_size}


def test_one_layers_logits_at_a_time(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    """A vocabulary of 262,144 times 80 layers in float32 would be 84 MB at once."""
    shapes: list[tuple[int, ...]] = []
    read = Readout.__call__

    def seen(self: Readout, state: torch.Tensor) -> torch.Tensor:
        logits = read(self, state)
        shapes.append(tuple(logits.shape))
        return logits

    monkeypatch.setattr(Readout, "__call__", seen)
    lens_rows(tiny(), torch.randn(3, 32), 5, 2)
    assert shapes == [(tiny().shape.vocab_size,)] * 3


def test_states_that_are_not_numbers(tiny: Tiny) -> None:
    with pytest.raises(NotFinite):
        lens_rows(tiny(), torch.full((3, 32), float("nan")), 5, 2)


def test_nothing_to_look_at(tiny: Tiny) -> None:
    run = Run(tiny(), "the cat", RAW)
    run.prefill()
    run.free()
    with pytest.raises(RunFreed):
        run.lens()


SIZES = {"num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 99, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
WIDE = SIZES | {"hidden_size": 32, "intermediate_size": 48, "num_key_value_heads": 2}


def watched(config: PreTrainedConfig) -> tuple[PreTrainedModel, torch.Tensor, torch.Tensor]:
    """A random model, the last layer's state at the last of IDS, and the model's own logits there."""
    torch.manual_seed(0)
    network: Any = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    for weight in network.parameters():
        weight.data.mul_(8.0 if weight.ndim > 1 else 1.0)
    with LayerWatch(network) as watch, torch.inference_mode():
        logits = network(IDS, use_cache=False).logits[0, -1]
    hidden = watch.hidden()
    assert hidden is not None
    return network, hidden[-1], logits


@pytest.mark.parametrize(
    ("config", "extra"),
    [
        (Gemma2Config(**WIDE, head_dim=8, final_logit_softcapping=3.0), "final_logit_softcapping"),
        (GraniteConfig(**WIDE, logits_scaling=8.0), "logits_scaling"),
        (Cohere2Config(**WIDE, logit_scale=0.0625), "logit_scale"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_a_model_does_to_its_logits_is_done_here_too(config: PreTrainedConfig, extra: str) -> None:
    network, state, logits = watched(config)
    with torch.inference_mode():
        assert torch.allclose(Readout(network)(state), logits, atol=1e-6)
    assert Readout(network).disagreement(state, logits) is None
    object.__setattr__(network.config, extra, None)  # past the config's own checks
    assert Readout(network).disagreement(state, logits) == "disagrees", "an extra that is not known would be found out"


def test_another_step_between_layers_and_head_is_found_out() -> None:
    """OPT-350M projects its states down to a smaller head."""
    network, state, logits = watched(OPTConfig(**SIZES, hidden_size=32, ffn_dim=32, word_embed_proj_dim=16))
    assert Readout(network).disagreement(state, logits) == "disagrees"


@pytest.mark.parametrize(("part", "reason"), [("norm", "norm"), ("head", "head")])
def test_parts_that_are_not_found(part: str, reason: str) -> None:
    network, state, logits = watched(GraniteConfig(**WIDE))
    if part == "norm":
        network.model.norm, network.model.last = None, network.model.norm
    else:
        network.lm_head, network.vocabulary = None, network.lm_head
    assert Readout(network).reason == Readout(network).disagreement(state, logits) == reason


def test_a_full_memory_is_no_disagreement(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Readout, state: torch.Tensor) -> torch.Tensor:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(Readout, "__call__", refuse)
    with pytest.raises(torch.OutOfMemoryError):
        Readout(tiny().model).disagreement(torch.zeros(32), torch.zeros(99))


def test_a_model_that_is_read_wrongly_is_refused(tiny_dir: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    read = Readout.__call__
    monkeypatch.setattr(Readout, "__call__", lambda self, state: read(self, state) * 1.01)
    model = load_model(str(tiny_dir("llama")), device="cpu", dtype="float32")
    assert model.info.lens_reason == "disagrees"
    run = Run(model, "the cat", RAW)
    run.prefill()
    with pytest.raises(LensUnavailable) as caught:
        run.lens()
    assert caught.value.params == {"reason": "disagrees"}
