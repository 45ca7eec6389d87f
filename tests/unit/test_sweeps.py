"""Sweeps on tiny models, without a process: what is measured, whose turn it is, and that one in the middle of a pass can be cancelled."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
import torch

from engine.experiments import tpot_over_context, ttft_over_length
from engine.experiments.paper import Paper, SweepTurn
from engine.experiments.registry import EXPERIMENTS, experiment
from engine.generate.tokens import encode_plain
from engine.kv.cache import LiveCache
from engine.model.brake import Halted, brake
from engine.model.layers import decoder_layers
from engine.serve.job import Job
from engine.serve.protocol import BeginSweep, Message, SweepEnded, SweepMoved
from engine.serve.scheduler import Scheduler
from engine.serve.sweepwork import SweepWork, word_of
from engine.sweep import KINDS, Measuring
from tests.exam import until
from tests.hall import TURN_S, CountingWork, Hall

if TYPE_CHECKING:
    from engine.model.loader import LoadedModel

LENGTHS = (16, 32, 64, 128)
PART_S = 0.4  # of a slow layer
Tiny = Callable[..., "LoadedModel"]


def never() -> bool:
    return False


@pytest.fixture
def slow(tiny: Tiny) -> Iterator[LoadedModel]:
    """A model whose layers take PART_S each for texts of more than 64 tokens."""
    model = tiny("llama")

    def drag(module: torch.nn.Module, args: tuple[torch.Tensor, ...]) -> None:
        if args[0].shape[1] > 64:
            time.sleep(PART_S)

    handles = [layer.register_forward_pre_hook(drag) for layer in decoder_layers(model.model)]
    yield model
    for handle in handles:
        handle.remove()


def tensors() -> int:
    gc.collect()
    return sum(issubclass(type(one), torch.Tensor) for one in gc.get_objects())


@pytest.mark.parametrize("kind", ["llama", "gemma3"])
def test_a_paper_has_exactly_so_many_tokens_of_real_text(tiny: Tiny, kind: str) -> None:
    model = tiny(kind)
    for most in (1, 16, 777):
        paper = Paper(model, most)
        assert len(paper.ids) == most
        assert paper.tokenize_s(most) > 0
    text = b"".join(model.vocabulary.raw(id) for id in Paper(model, 777).ids).decode()
    assert text.startswith("Alice was beginning")
    assert [token.id for token in encode_plain(model.tokenizer, model.vocabulary, text).tokens][:700] == Paper(model, 700).ids


@pytest.mark.parametrize("kind", ["llama", "gemma3"])
def test_the_first_token_wait_is_measured_up_to_three_times_at_each_length(tiny: Tiny, kind: str) -> None:
    turns = list(ttft_over_length.ttft_over_length(tiny(kind), LENGTHS, never))
    assert turns[0] == SweepTurn(None, Measuring(16, 1, 3)), "warmed up, nothing counted"
    samples = [turn.sample for turn in turns[1:]]
    assert [sample.length for sample in samples] == [length for length in LENGTHS for _ in range(3)]
    assert all(sample.seconds > sample.forward_s > 0 for sample in samples)
    assert [turn.then for turn in turns][-1] is None
    assert [(turn.then.length, turn.then.number) for turn in turns[:-1]] == [(length, n) for length in LENGTHS for n in (1, 2, 3)]


def test_what_took_long_is_not_measured_again() -> None:
    now = Measuring(64, 1, 3)
    assert ttft_over_length.following(now, LENGTHS, 0.1) == Measuring(64, 2, 3)
    assert ttft_over_length.following(now, LENGTHS, ttft_over_length.ENOUGH_S) == Measuring(128, 1, 3)
    assert ttft_over_length.following(Measuring(128, 3, 3), LENGTHS, 0.1) is None


@pytest.mark.parametrize("kind", ["llama", "gemma3"])
def test_steps_are_timed_behind_so_many_tokens(tiny: Tiny, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    passes: list[tuple[int, int]] = []  # tokens in the cache before, tokens read
    forward = LiveCache.forward

    def seen(cache: LiveCache, ids: torch.Tensor) -> torch.Tensor:
        passes.append((cache.tokens(), ids.shape[1]))
        return forward(cache, ids)

    monkeypatch.setattr(LiveCache, "forward", seen)
    turns = list(tpot_over_context.tpot_over_context(tiny(kind), LENGTHS, never))
    samples = [turn.sample for turn in turns if turn.sample]
    assert [sample.length for sample in samples] == [length for length in LENGTHS for _ in range(8)]
    steps = [before + 1 for before, count in passes if count == 1]
    assert steps == [context for length in LENGTHS for context in range(length - 8, length + 1)], "one uncounted, the last sees it all"
    assert sum(count for _, count in passes) == LENGTHS[-1], "nothing is read twice"
    assert turns[-1].then is None
    assert all(turn.then for turn in turns[:-1])


def test_lengths_too_close_for_their_steps_are_left_out() -> None:
    assert tpot_over_context.reachable((16, 20, 26, 64)) == (16, 26, 64)


def test_every_kind_has_its_experiment() -> None:
    assert tuple(one.kind for one in EXPERIMENTS) == KINDS
    assert all(experiment(kind).kind == kind for kind in KINDS)


@pytest.mark.parametrize("kind", ["llama", "gpt2", "gemma3"])
@pytest.mark.parametrize("after", [0, 1, 4])
def test_the_brake_stops_a_pass_and_nothing_of_it_stays(tiny: Tiny, kind: str, after: int) -> None:
    model, asked = tiny(kind), 0

    def pulled() -> bool:
        nonlocal asked
        asked += 1
        return asked > after

    cache = LiveCache(model.model)
    hooks = sum(len(module._forward_pre_hooks) for module in model.model.modules())
    ids = torch.tensor([Paper(model, 40).ids])
    with torch.inference_mode(), pytest.raises(Halted), brake(model.model, pulled):
        cache.forward(ids)
    assert asked == after + 1
    assert (cache.tokens(), cache.bytes()) == (0, 0)
    assert sum(len(module._forward_pre_hooks) for module in model.model.modules()) == hooks
    with torch.inference_mode():
        assert cache.forward(ids).shape == (model.shape.vocab_size,), "the model goes on as before"


def sweep_of(model: LoadedModel, said: list[Message], lengths: tuple[int, ...], kind: str = "ttft") -> tuple[Scheduler, SweepWork]:
    scheduler = Scheduler(said.append)
    work = SweepWork(BeginSweep("x", "s", "m", "cpu", kind, lengths), lambda: model)
    scheduler.add(Job("x", "s", work, 0.0, word=word_of, polite=True))
    return scheduler, work


@pytest.mark.parametrize("kind", KINDS)
def test_a_sweep_tells_all_it_measures_and_then_its_end(tiny: Tiny, kind: str) -> None:
    said: list[Message] = []
    scheduler, _ = sweep_of(tiny("llama"), said, (16, 32, 5000), kind)
    while scheduler.turn():
        pass
    told = [message for message in said if isinstance(message, SweepMoved)]
    first = next(message for message in told if message.model)
    assert first.lengths == (16, 32), "what does not fit into the context is left out"
    assert set(first.conditions) == {"system", "processor", "cores"}
    assert sum(message.sample is not None for message in told) == {"ttft": 6, "tpot": 16}[kind]
    assert [message.status for message in told[:2]] == ["waiting", "measuring"]
    assert said[-1] == SweepEnded("x", "done")
    assert scheduler._jobs["x"].freed


def test_a_sweep_is_cancelled_in_the_middle_of_a_pass(slow: LoadedModel) -> None:
    said: list[Message] = []
    scheduler, work = sweep_of(slow, said, (32, 128))
    for _ in range(4):
        assert scheduler.turn()
    before = tensors()
    worker = threading.Thread(target=scheduler.turn)
    worker.start()
    until(lambda: scheduler._jobs["x"].busy, 5.0)
    time.sleep(PART_S / 2)
    asked_at = time.monotonic()
    work.halt(None)
    scheduler.steer("x", "stop")
    worker.join(2.0)
    assert not worker.is_alive()
    assert time.monotonic() - asked_at < 2 * PART_S, "the three layers would take longer"
    assert said[-1] == SweepEnded("x", "stopped")
    assert [message.sample.length for message in said if isinstance(message, SweepMoved) and message.sample] == [32] * 3
    assert tensors() <= before, "nothing of the pass is left"
    assert not scheduler.turn()


def test_a_sweep_that_waits_for_its_model_is_cancelled_at_once(tiny: Tiny) -> None:
    said: list[Message] = []
    scheduler = Scheduler(said.append)
    work = SweepWork(BeginSweep("x", "s", "m", "cpu", "ttft", (32,)), lambda: tiny("llama"))
    scheduler.add(Job("x", "s", work, 0.0, ready=False, word=word_of, polite=True))
    scheduler.steer("x", "stop")
    assert said == [SweepMoved("x", "waiting"), SweepEnded("x", "stopped")]


def test_long_turns_of_a_sweep_leave_half_of_the_time_to_the_others() -> None:
    hall = Hall()
    hall.add("r", "one", length=10_000)

    def drag(turn: int) -> None:
        hall.clock.now += 9 * TURN_S

    work = CountingWork("x", hall.clock, hall.diary, during=drag)
    hall.scheduler.add(Job("x", "two", work, hall.clock.now, polite=True))
    hall.turns(110)
    assert hall.order()[:24] == "rx" + "r" * 10 + "x" + "r" * 10 + "x"
    alone = Hall()
    work = CountingWork("x", alone.clock, alone.diary)
    alone.scheduler.add(Job("x", "two", work, alone.clock.now, polite=True))
    assert alone.turns(5) == 5, "nobody else is there: no rest"
