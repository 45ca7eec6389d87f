"""Run as a whole: tokens against generate, clocks against a fake clock, records, failures."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from engine import LoadedModel, Run, RunRecord, RunSettings, StopReason
from engine.measure.clock import Clock
from engine.model import device
from tests.prompts import prompt_of
from tests.reference import greedy_ids, ids_of

Tiny = Callable[..., LoadedModel]
CPU = torch.device("cpu")
OPEN = RunSettings(max_new_tokens=8, ignore_eos=True)


class Ticks:
    """A clock on which one second passes with every look; `at` may be moved."""

    def __init__(self) -> None:
        self.at = 0.0

    def read(self) -> float:
        self.at += 1.0
        return self.at


@pytest.mark.parametrize("kind", ["llama", "qwen2", "qwen3", "gpt2", "gemma3"])
def test_greedy_tokens_equal_generate(tiny: Tiny, kind: str) -> None:
    model = tiny(kind)
    for prompt in ("the cat", prompt_of(model, 90)):
        run = Run(model, prompt, RunSettings(max_new_tokens=20, use_chat_template=False))
        list(run.decode())
        assert ids_of(run.record().generated) == greedy_ids(model, ids_of(run.tokens), 20)


def test_one_seed_one_answer(tiny: Tiny) -> None:
    model = tiny()

    def answer(seed: int) -> list[int]:
        run = Run(model, "the cat", replace(OPEN, temperature=1.0, seed=seed))
        list(run.decode())
        return ids_of(run.record().generated)

    assert answer(7) == answer(7)
    assert len({tuple(answer(seed)) for seed in range(4)}) > 1


def test_steps_are_numbered_and_tokens_have_places(tiny: Tiny) -> None:
    run = Run(tiny(), "the cat", OPEN)
    first = run.prefill().first
    steps = list(run.decode())
    assert (first.kind, first.position) == ("generated", len(run.tokens))
    assert [step.index for step in steps] == list(range(1, 8))
    assert [step.token.position for step in steps] == [len(run.tokens) + n for n in range(1, 8)]
    assert all(step.token.id in {one.id for one in step.candidates} for step in steps)


def test_a_decode_left_half_way_is_taken_up_again(tiny: Tiny) -> None:
    model = tiny()
    whole, parted = Run(model, "the cat", OPEN), Run(model, "the cat", OPEN)
    list(whole.decode())
    for step in parted.decode():
        if step.index == 3:
            break
    assert [step.index for step in parted.decode()] == [4, 5, 6, 7]
    assert ids_of(parted.record().generated) == ids_of(whole.record().generated)
    assert list(parted.decode()) == []


def test_prefill_runs_once(tiny: Tiny) -> None:
    run = Run(tiny(), "the cat", OPEN)
    assert run.prefill() is run.prefill()
    assert run.kv_bytes() == run.prefill().kv_bytes


def test_ttft_is_the_sum_of_its_parts(tiny: Tiny) -> None:
    ticks = Ticks()
    run = Run(tiny(), "the cat", OPEN, submitted_at=0.0, clock=Clock(CPU, ticks.read))
    assert run.tokens
    ticks.at = 10.0
    run.note_pause(4.0)
    trace = run.prefill()
    assert (trace.prefill_s, trace.sample_s, trace.paused_s) == (1.0, 1.0, 4.0)
    assert trace.at_s == ticks.at
    assert trace.ttft_s == pytest.approx(trace.at_s - 4.0, abs=1e-9)
    assert trace.queue_s == pytest.approx(trace.at_s - 6.0 - trace.template_s - trace.tokenize_s, abs=1e-9)


def test_waiting_and_pauses_between_steps_are_told_apart(tiny: Tiny) -> None:
    ticks = Ticks()
    run = Run(tiny(), "the cat", OPEN, submitted_at=0.0, clock=Clock(CPU, ticks.read))
    first_at = run.prefill().at_s
    decode = run.decode()
    assert (step := next(decode)).gap_s == 1.0  # the look at the clock itself
    assert (step.forward_s, step.sample_s, step.busy_s, step.paused_s) == (1.0, 1.0, 4.0, 0.0)
    ticks.at += 30.0
    run.note_pause(12.0)
    run.note_pause(8.0)
    step = next(decode)
    assert (step.gap_s, step.paused_s, step.waited_s, step.itl_s) == (31.0, 20.0, 11.0, 15.0)
    run.note_pause(1e9)  # more than there was
    step = next(decode)
    assert (step.gap_s, step.paused_s) == (1.0, 1.0)
    itl_s = sum(one.itl_s + one.paused_s for one in run.record().steps)
    assert itl_s == pytest.approx(step.at_s - first_at)


def test_the_submission_stamp_counts_waiting(tiny: Tiny) -> None:
    ticks = Ticks()
    ticks.at = 100.0
    trace = Run(tiny(), "the cat", submitted_at=40.0, clock=Clock(CPU, ticks.read)).prefill()
    assert trace.queue_s > 60.0


def test_the_clock_waits_for_the_device_at_every_stamp() -> None:
    waited: list[torch.device] = []
    clock = Clock(torch.device("cuda", 1), read=lambda: float(len(waited)), wait=waited.append)
    assert (clock.now(), clock.now()) == (1.0, 2.0)
    assert waited == [torch.device("cuda", 1)] * 2


def test_synchronise_reaches_the_right_device(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []
    monkeypatch.setattr(torch.cuda, "synchronize", seen.append)
    monkeypatch.setattr(torch.mps, "synchronize", lambda: seen.append("mps"))
    for name in ("cpu", "cuda:2", "mps"):
        device.synchronise(torch.device(name))
    assert seen == [torch.device("cuda:2"), "mps"]


def test_record_round_trip_in_every_state(tiny: Tiny) -> None:
    run = Run(tiny(), "你好, the cat", replace(OPEN, temperature=1.0))

    def same() -> bool:
        record = run.record()
        return RunRecord.from_json(record.to_json()) == record

    assert same()
    run.prefill()
    assert same()
    list(run.decode())
    assert same()
    assert run.record().stop_reason is StopReason.LENGTH
    assert len(run.record().generated) == 8
    run.free()
    assert same()


def test_threads_are_set_for_each_phase_and_put_back(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny()
    model = replace(model, info=replace(model.info, prefill_threads=3, decode_threads=1))
    before, seen = torch.get_num_threads(), []
    forward = model.model.forward

    @functools.wraps(forward)
    def watched(**inputs: object) -> object:
        seen.append(torch.get_num_threads())
        return forward(**inputs)

    monkeypatch.setattr(model.model, "forward", watched)
    list(Run(model, "the cat", replace(OPEN, max_new_tokens=3)).decode())
    assert seen == [3, 1, 1]
    assert torch.get_num_threads() == before


def test_no_grad_mode_leaks_out_of_a_step(tiny: Tiny) -> None:
    for _ in Run(tiny(), "the cat", OPEN).decode():
        assert not torch.is_inference_mode_enabled()


def test_importing_the_engine_leaves_torch_out() -> None:
    import subprocess
    import sys

    code = "import sys, engine; from engine import RunSettings; dir(engine); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
