"""The parts of a pass: stamped where they happen, in the thread of the run alone, adding up to the whole; nothing is left behind."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import nullcontext
from itertools import count
from typing import Any

import pytest
import torch

from engine import LoadedModel, Run, RunSettings
from engine.generate.stepper import Stepper
from engine.measure.clock import Clock
from engine.model import stepparts
from engine.model.forward import Forward, empty_cache
from engine.model.layers import CudaStamps, StateWatch, stamps_for
from engine.model.stepparts import PartWatch, timing
from engine.trace import StepParts
from tests.prompts import prompt_of

Tiny = Callable[..., LoadedModel]
KINDS = ["llama", "qwen2", "qwen3", "gemma3", "gpt2"]
IDS = torch.arange(3, 20)[None]
SETTINGS = RunSettings(max_new_tokens=8, use_chat_template=False, ignore_eos=True)


class Ticks:
    """Stamps 0, 1, 2, … and one second between neighbours; `asked` counts how often a time was worked out."""

    def __init__(self) -> None:
        self.given = count()
        self.asked = 0

    def now(self) -> int:
        return next(self.given)

    def seconds(self, begin: int, end: int) -> float:
        self.asked += 1
        assert end == begin + 1, "parts lie one behind the other, none inside another one"
        return float(end - begin)


def read(model: LoadedModel) -> torch.Tensor:
    with torch.inference_mode():
        return Forward(model.model)(IDS, empty_cache(model.model))


def head_hooks(model: LoadedModel) -> int:
    head: Any = model.model.get_output_embeddings()
    return len(head._forward_hooks) + len(head._forward_pre_hooks)


def total_s(parts: StepParts | None) -> float:
    assert parts is not None
    return parts.weights_s + parts.read_s + parts.append_s + parts.head_s


@pytest.mark.parametrize("kind", KINDS)
def test_every_part_is_stamped_and_nobody_waits(tiny: Tiny, kind: str) -> None:
    """Three layers append and read, the head works once: seven parts of one second each, the rest of twenty is the weights'."""
    ticks = Ticks()
    watch = PartWatch(tiny(kind).model, 3, ticks)
    with watch:
        logits = read(tiny(kind))
        assert ticks.asked == 0, "a time worked out during the pass would make it wait for the device"
    assert watch.parts(20.0) == StepParts(weights_s=13.0, read_s=3.0, append_s=3.0, head_s=1.0)
    assert next(ticks.given) == 14
    state = watch.head_input()
    assert state is not None
    with torch.inference_mode():
        assert torch.equal(tiny(kind).model.get_output_embeddings()(state[None, None])[0, 0], logits)
    assert state.untyped_storage().nbytes() == 32 * 4, "a view would keep all positions alive"
    assert torch.equal(logits, read(tiny(kind))), "watching changes nothing"


def test_parts_are_never_below_zero_and_add_up(tiny: Tiny) -> None:
    """Stamps of a device that say more than the clock around them: all are shortened alike."""
    watch = PartWatch(tiny().model, 3, Ticks())
    with watch:
        read(tiny())
    for forward_s in (0.0, 3.5, 7.0, 7.000001, 1e6):
        parts = watch.parts(forward_s)
        assert total_s(parts) == pytest.approx(forward_s, rel=1e-12)
        assert parts is not None
        assert min(parts.weights_s, parts.read_s, parts.append_s, parts.head_s) >= 0
    assert watch.parts(3.5) == StepParts(0.0, pytest.approx(1.5), pytest.approx(1.5), pytest.approx(0.5))


@pytest.mark.parametrize("layers", [2, 4])
def test_a_pass_that_was_not_seen_whole_has_no_parts(tiny: Tiny, layers: int) -> None:
    watch = PartWatch(tiny().model, layers, Ticks())
    assert watch.parts(20.0) is None
    with watch:
        read(tiny())
    assert watch.parts(20.0) is None


def test_attention_that_does_not_come_by_here(tiny_dir: Callable[..., Any]) -> None:
    from engine import load_model

    model = load_model(str(tiny_dir("qwen3")), device="cpu", dtype="float32")
    model.model.set_attn_implementation("eager")
    run = Run(model, prompt_of(model, 20), SETTINGS)
    assert [step.parts for step in run.decode()] == [None] * 7


@pytest.mark.parametrize("fails", [True, False])
def test_nothing_is_left_behind(tiny: Tiny, monkeypatch: pytest.MonkeyPatch, fails: bool) -> None:
    before = head_hooks(tiny())
    run = Run(tiny(), prompt_of(tiny(), 20), SETTINGS)
    run.prefill()
    if fails:

        def refuse(*args: Any, **kwargs: Any) -> None:
            raise MemoryError

        monkeypatch.setattr(stepparts.PartWatch, "has_read", refuse)
    with pytest.raises(MemoryError) if fails else nullcontext():
        stepper_of(run).advance([5], 1)
    assert timing() is None
    assert head_hooks(tiny()) == before
    assert len(stepper_of(run).heads) == (1 if fails else 2)
    assert stepper_of(run).cache.tokens() == (20 if fails else 21)


def stepper_of(run: Run) -> Stepper:
    return run._live_stepper()


def test_another_thread_is_not_watched(tiny: Tiny) -> None:
    watch = PartWatch(tiny().model, 3, Ticks())
    seen: list[Any] = []
    with watch:
        other = threading.Thread(target=lambda: seen.append((timing(), read(tiny()))))
        other.start()
        other.join()
        assert watch.head_input() is None
        read(tiny())
    assert seen[0][0] is None
    assert watch.parts(20.0) == StepParts(13.0, 3.0, 3.0, 1.0)


def test_runs_of_one_model_do_not_see_each_other(tiny: Tiny) -> None:
    """Turn by turn, as the engine does it: each has its own parts and its own heads."""
    alone = Run(tiny(), prompt_of(tiny(), 30), SETTINGS)
    list(alone.decode())
    one, other = Run(tiny(), prompt_of(tiny(), 30), SETTINGS), Run(tiny(), prompt_of(tiny(), 12, seed=5), SETTINGS)
    for mine, theirs in zip(one.decode(), other.decode(), strict=True):
        for step in (mine, theirs):
            assert total_s(step.parts) == pytest.approx(step.forward_s, rel=1e-12)
    assert [torch.equal(a, b) for a, b in zip(stepper_of(one).heads, stepper_of(alone).heads, strict=True)] == [True] * 8


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_tells_the_parts_of_every_step(tiny: Tiny, kind: str) -> None:
    run = Run(tiny(kind), prompt_of(tiny(kind), 70), SETTINGS)  # past the window of the sliding layers
    for step in run.decode():
        assert total_s(step.parts) == pytest.approx(step.forward_s, rel=1e-12)
        assert step.parts is not None
        assert min(step.parts.weights_s, step.parts.read_s, step.parts.append_s, step.parts.head_s) > 0


def test_a_branch_and_a_run_without_maps_tell_them_too(tiny: Tiny) -> None:
    run = Run(
        tiny(), prompt_of(tiny(), 20), RunSettings(max_new_tokens=8, use_chat_template=False, ignore_eos=True, capture_attention=False)
    )
    list(run.decode())
    branch = run.branch(3, 9)
    steps = list(branch.decode())
    assert steps
    assert all(step.parts is not None for step in steps)


class FakeEvent:
    """Stands for torch.cuda.Event: a quarter of a second from one to the next, known once it was waited for."""

    made: list[FakeEvent]

    def __init__(self, enable_timing: bool = False) -> None:
        assert enable_timing
        self.recorded = self.waited = False
        self.number = len(self.made)
        self.made.append(self)

    def record(self, stream: Any = None) -> None:
        self.recorded = True

    def synchronize(self) -> None:
        self.waited = True

    def elapsed_time(self, end: FakeEvent) -> float:
        assert end.waited, "the time of an event that has not happened yet"
        return 250.0 * (end.number - self.number)


def test_an_accelerator_stamps_in_passing(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    FakeEvent.made = []
    monkeypatch.setattr(torch.cuda, "Event", FakeEvent)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda where: None)
    watch = PartWatch(tiny().model, 3, CudaStamps(torch.device("cuda")))
    with watch:
        read(tiny())
        assert len(FakeEvent.made) == 14
        assert all(event.recorded for event in FakeEvent.made)
        assert not any(event.waited for event in FakeEvent.made)
    assert watch.parts(2.0) == StepParts(weights_s=0.25, read_s=0.75, append_s=0.75, head_s=0.25)


def test_a_run_takes_the_stamps_of_its_device(tiny: Tiny) -> None:
    watch = Stepper(tiny(), SETTINGS, Clock(torch.device("cpu")))._parts
    assert type(watch._stamps) is type(stamps_for(torch.device("cpu")))


# --- the body's states, from which a branch that reads again has its heads ----------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_states_of_every_position(tiny: Tiny, kind: str) -> None:
    network: Any = tiny(kind).model
    with torch.inference_mode():
        expected = network(IDS, output_hidden_states=True, use_cache=False).hidden_states[-1][0]
        with StateWatch(network) as watch:
            read(tiny(kind))
    got = watch.before_last(4, expected[-1])
    assert got is not None
    assert len(got) == 4
    assert torch.equal(torch.stack(got), expected[-5:-1])
    assert watch.before_last(0, expected[-1]) == []
    assert watch.before_last(4, expected[-2]) is None, "not what the head was given"
    assert [state.untyped_storage().nbytes() for state in got] == [32 * 4] * 4, "one must not keep the others alive"


def test_a_head_that_is_given_something_else(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    """Earlier positions cannot be had then: their stages are refused, those of later steps are not."""
    from engine.errors import StagesUnavailable
    from engine.stem import stem_of

    parent = Run(tiny(), prompt_of(tiny(), 20), SETTINGS)
    list(parent.decode())
    monkeypatch.setattr(StateWatch, "before_last", lambda *_: None)
    branch = Run.revive(tiny(), parent.prompt, SETTINGS, stem_of(parent.record(), 4, 9, "parent"))
    for index in (1, 2, 3):
        with pytest.raises(StagesUnavailable) as refused:
            branch.stages(index)
        assert refused.value.params == {"reason": "forgotten"}
    following = list(branch.decode())
    for index in (0, 4, 5):
        assert branch.stages(index).index == index
    assert [branch.stages(step.index).would_write_id for step in following] == [step.token.id for step in following]
