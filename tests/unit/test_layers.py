"""Watching layers: the right ones, in the right thread, for the time of one pass; what is seen against transformers' own hidden states."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import nullcontext
from itertools import count
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, MixtralConfig, OPTConfig

from engine import LoadedModel, Run, RunSettings
from engine.model.forward import Forward, empty_cache
from engine.model.layers import ClockStamps, CudaStamps, LayerWatch, MpsStamps, decoder_layers, multiplied_parameters, stamps_for
from tests.prompts import prompt_of

Tiny = Callable[..., LoadedModel]
KINDS = ["llama", "qwen2", "qwen3", "gemma3", "gpt2"]
IDS = torch.arange(3, 20)[None]


def read(model: LoadedModel) -> torch.Tensor:
    with torch.inference_mode():
        return Forward(model.model)(IDS, empty_cache(model.model))


class Ticks:
    """Stamps 0, 1, 2, …; `asked` counts how often a time was worked out."""

    def __init__(self) -> None:
        self.given = count()
        self.asked = 0

    def now(self) -> int:
        return next(self.given)

    def seconds(self, begin: int, end: int) -> float:
        self.asked += 1
        return float(100 * begin + end)


@pytest.mark.parametrize("kind", KINDS)
def test_every_layer_is_stamped_once_in_order_and_nobody_waits(tiny: Tiny, kind: str) -> None:
    model, ticks = tiny(kind), Ticks()
    with LayerWatch(model.model, ticks) as watch:
        read(model)
        assert ticks.asked == 0, "a time worked out during the pass would make it wait for the device"
    assert watch.seconds() == (1.0, 203.0, 405.0)  # 0→1, 2→3, 4→5
    assert next(ticks.given) == 6


@pytest.mark.parametrize("kind", KINDS)
def test_states_are_transformers_own(tiny: Tiny, kind: str) -> None:
    """`hidden_states[i + 1]` is layer i's output; only the last one has gone through the final norm already."""
    model = tiny(kind)
    network: Any = model.model
    with LayerWatch(network) as watch, torch.inference_mode():
        states = network(IDS, use_cache=False, output_hidden_states=True).hidden_states
    hidden = watch.hidden()
    assert hidden is not None
    assert hidden.shape == (3, 32)
    assert len(states) == 4
    for layer in range(2):
        assert torch.equal(hidden[layer], states[layer + 1][0, -1])
    norm = network.transformer.ln_f if kind == "gpt2" else network.model.norm
    assert torch.allclose(norm(hidden[2]), states[3][0, -1], atol=1e-6)


def test_what_is_kept_is_small(tiny: Tiny) -> None:
    """Each state owns its 32 numbers: a view would keep the states of all positions alive."""
    with LayerWatch(tiny().model) as watch:
        read(tiny())
    assert [state.untyped_storage().nbytes() for state in watch._last.values()] == [32 * 4] * 3


def test_another_thread_is_not_watched(tiny: Tiny) -> None:
    with LayerWatch(tiny().model) as watch:
        other = threading.Thread(target=read, args=(tiny(),))
        other.start()
        other.join()
    assert watch.seconds() == ()
    assert watch.hidden() is None


def hooks(layers: tuple[torch.nn.Module, ...]) -> int:
    return sum(len(layer._forward_hooks) + len(layer._forward_pre_hooks) for layer in layers)


@pytest.mark.parametrize("fails", [True, False])
def test_hooks_are_gone_afterwards(tiny: Tiny, fails: bool) -> None:
    model = tiny("qwen3")
    layers = decoder_layers(model.model)
    before = hooks(layers)  # transformers leaves its own where states were once asked for
    watch = LayerWatch(model.model)
    with pytest.raises(RuntimeError, match="half-way") if fails else nullcontext(), watch:
        assert hooks(layers) == before + 6
        read(model)
        if fails:
            raise RuntimeError("half-way")
    assert hooks(layers) == before


def test_a_pass_that_breaks_off_has_no_times(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny("gpt2")

    def refuse(*args: Any, **kwargs: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(decoder_layers(model.model)[1], "forward", refuse)
    watch = LayerWatch(model.model)
    with pytest.raises(MemoryError), watch:
        read(model)
    assert watch.seconds() == ()
    assert watch.hidden() is None


def test_a_prompt_in_pieces_adds_up(tiny: Tiny) -> None:
    model, ticks = tiny(), Ticks()
    with LayerWatch(model.model, ticks) as watch:
        read(model)
        read(model)
    assert watch.seconds() == (1.0 + 607.0, 203.0 + 809.0, 405.0 + 1011.0)
    with watch:
        read(model)
    assert len(watch.seconds()) == 3
    assert ticks.asked == 9, "entered again, it starts afresh"


class Odd(torch.nn.Module):
    """A model whose layers stand under no name that is known."""

    device = torch.device("cpu")

    def __init__(self, **parts: torch.nn.Module) -> None:
        super().__init__()
        for name, part in parts.items():
            self.add_module(name, part)

    def get_decoder(self) -> torch.nn.Module:
        return self


def test_layers_that_are_not_found_or_shared() -> None:
    block = torch.nn.Linear(2, 2)
    for odd in (Odd(stages=torch.nn.ModuleList([block])), Odd(layers=block), Odd(layers=torch.nn.ModuleList([block, block]))):
        with LayerWatch(odd) as watch:
            pass
        assert watch.seconds() == ()
        assert watch.hidden() is None


def test_layers_below_another_name() -> None:
    model = AutoModelForCausalLM.from_config(
        OPTConfig(hidden_size=32, ffn_dim=32, num_hidden_layers=2, num_attention_heads=2, vocab_size=99)
    )
    assert len(decoder_layers(model)) == 2


class FakeEvent:
    """Stands for torch.cuda.Event and torch.mps.Event."""

    made: list[FakeEvent]

    def __init__(self, enable_timing: bool = False) -> None:
        assert enable_timing
        self.stream: Any = None
        self.recorded = self.waited = False
        self.made.append(self)

    def record(self, stream: Any = None) -> None:
        self.stream, self.recorded = stream, True

    def synchronize(self) -> None:
        self.waited = True

    def elapsed_time(self, end: FakeEvent) -> float:
        assert end.waited, "the time of an event that has not happened yet"
        return 250.0  # milliseconds


@pytest.mark.parametrize("device", ["cuda:1", "mps"])
def test_an_accelerator_stamps_in_passing(tiny: Tiny, monkeypatch: pytest.MonkeyPatch, device: str) -> None:
    FakeEvent.made = []
    monkeypatch.setattr(torch.cuda, "Event", FakeEvent)
    monkeypatch.setattr(torch.mps, "Event", FakeEvent, raising=False)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda where: f"stream of {where}")
    stamps = stamps_for(torch.device(device))
    with LayerWatch(tiny().model, stamps) as watch:
        read(tiny())
        assert len(FakeEvent.made) == 6
        assert all(event.recorded for event in FakeEvent.made)
        assert not any(event.waited for event in FakeEvent.made)
    assert {event.stream for event in FakeEvent.made} == {"stream of cuda:1" if device == "cuda:1" else None}
    assert watch.seconds() == (0.25, 0.25, 0.25)


def test_each_device_has_its_stamps() -> None:
    kinds = [type(stamps_for(torch.device(name))) for name in ("cpu", "cuda", "mps")]
    assert kinds == [ClockStamps, CudaStamps, MpsStamps]


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_tells_the_time_of_its_layers(tiny: Tiny, kind: str) -> None:
    run = Run(tiny(kind), prompt_of(tiny(kind), 60), RunSettings(max_new_tokens=1, use_chat_template=False))
    prefill = run.prefill()
    assert len(prefill.layer_s) == 3
    assert min(prefill.layer_s) > 0
    assert sum(prefill.layer_s) <= prefill.prefill_s, "layers follow one another inside the pass"


@pytest.mark.parametrize("kind", KINDS)
def test_the_head_is_given_one_plain_row(tiny: Tiny, kind: str) -> None:
    """With the strides of a longer tensor, torch's matmul copies the whole head for the product with one row."""
    seen: list[torch.Tensor] = []
    handle = tiny(kind).model.get_output_embeddings().register_forward_pre_hook(lambda module, args: seen.append(args[0]))
    read(tiny(kind))
    handle.remove()
    assert [(tuple(state.shape), state.stride()) for state in seen] == [((1, 1, 32), (32, 32, 1))]


def test_parameters_by_their_work(tiny: Tiny) -> None:
    """By hand: 32 wide, 3 layers, 4 heads and 2 of notes of 8, 64 in the middle; GPT-2: biases, positions looked up, heads of its own."""
    vocabulary = tiny().shape.vocab_size * 32
    layer = 32 * 32 * 2 + 32 * 16 * 2 + 3 * 32 * 64 + 2 * 32
    assert multiplied_parameters(tiny().model) == (3 * layer + 32, vocabulary)
    assert multiplied_parameters(tiny(tie_word_embeddings=False).model) == (3 * layer + 32, vocabulary)
    gpt2 = (32 * 96 + 96) + (32 * 32 + 32) + (32 * 128 + 128) + (128 * 32 + 32) + 4 * 32
    assert multiplied_parameters(tiny("gpt2").model) == (3 * gpt2 + 2 * 32, vocabulary)


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_tells_its_parameters_by_their_work(tiny: Tiny, kind: str) -> None:
    info = tiny(kind).info
    tables = {id(m.weight): m.weight.numel() for m in tiny(kind).model.modules() if isinstance(m, torch.nn.Embedding)}
    head = tiny(kind).model.get_output_embeddings().weight
    looked_up = sum(size for key, size in tables.items() if key != id(head))
    assert info.head_parameters == head.numel()
    assert info.body_parameters + info.head_parameters + looked_up == info.parameters


def test_only_the_experts_at_work_count() -> None:
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}

    def body(chosen: int) -> int:
        config = MixtralConfig(**sizes, vocab_size=99, num_local_experts=4, num_experts_per_tok=chosen)
        return multiplied_parameters(AutoModelForCausalLM.from_config(config))[0]

    assert body(2) - body(1) == 2 * 3 * 32 * 48
