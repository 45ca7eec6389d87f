"""The real engine process on a tiny random model: answers, steering, questions, models, watchers."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from engine.errors import OutOfRange, RunFreed
from engine.trace import RunSettings, RunStatus, StopReason
from tests.exam import Exam, open_exam, until


@pytest.fixture(scope="module")
def tiny(tiny_dir: Callable[..., Path]) -> str:
    return str(tiny_dir("llama"))


@pytest.fixture(scope="module")
def exam(tiny: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Exam]:
    """One engine for the tests that leave it alive, or that get it alive again."""
    made = open_exam(tiny, tmp_path_factory.mktemp("home"))
    yield made
    made.client.close()


def test_a_run_comes_back_whole(exam: Exam) -> None:
    ticket = exam.submit(RunSettings(max_new_tokens=8, ignore_eos=True))
    until(lambda: exam.ended(ticket))
    view = exam.view(ticket)
    assert view.prefill is not None
    assert view.model is not None
    assert (view.stop_reason, view.error) == (StopReason.LENGTH, None)
    assert [step.index for step in view.steps] == list(range(1, 8))
    assert view.prefill.prompt_tokens == len(view.tokens)
    assert view.prefill.at_s == pytest.approx(view.prefill.ttft_s + view.prefill.paused_s, abs=1e-3)
    assert [step.kv_tokens for step in view.steps] == [len(view.tokens) + n for n in range(1, 8)]


def test_two_sessions_get_the_answers_they_get_alone_and_equal_turns(exam: Exam) -> None:
    settings = [RunSettings(max_new_tokens=60, ignore_eos=True, temperature=1.0, seed=seed) for seed in (1, 2)]
    alone = [exam.answer(exam.submit(one)) for one in settings]
    tickets = [exam.submit(one, session=f"session {n}", play=False) for n, one in enumerate(settings)]
    for ticket in tickets:
        exam.client.steer(ticket.run_id, ticket.key, "play")
    together = [exam.answer(ticket) for ticket in tickets]
    assert together == alone
    assert alone[0] != alone[1]
    waited = [step.waited_s for ticket in tickets for step in exam.view(ticket).steps[5:]]
    busy = [step.busy_s for ticket in tickets for step in exam.view(ticket).steps[5:]]
    assert 0.4 < np.median(waited) / np.median(busy) < 3.0, "each waits for about one turn of the other"


def test_step_pause_and_stop_reach_the_process(exam: Exam) -> None:
    ticket = exam.submit(play=False)
    assert exam.view(ticket).status is RunStatus.PAUSED
    steer = exam.client.steer
    steer(ticket.run_id, ticket.key, "step")
    until(lambda: exam.view(ticket).tokens)
    assert exam.view(ticket).prefill is None
    for _ in range(4):
        steer(ticket.run_id, ticket.key, "step")
    until(lambda: exam.steps(ticket) == 3)
    time.sleep(1.0)
    assert exam.steps(ticket) == 3
    assert exam.view(ticket).status is RunStatus.PAUSED
    steer(ticket.run_id, ticket.key, "play")
    until(lambda: exam.steps(ticket) > 8)
    held = exam.view(ticket).steps[3]
    assert 1.0 <= held.paused_s < held.gap_s
    assert held.itl_s < 1.0, "the pause is not in it"
    steer(ticket.run_id, ticket.key, "stop")
    until(lambda: exam.ended(ticket))
    assert exam.view(ticket).stop_reason is StopReason.STOPPED


def test_pace_slows_down_without_counting_as_latency(exam: Exam) -> None:
    ticket = exam.submit(RunSettings(max_new_tokens=6, ignore_eos=True), pace_s=0.1)
    until(lambda: exam.ended(ticket))
    steps = exam.view(ticket).steps
    assert np.median([later.at_s - sooner.at_s for sooner, later in pairwise(steps)]) > 0.08
    assert np.median([step.paused_s for step in steps]) > 0.0
    assert all(step.paused_s <= step.gap_s for step in steps)
    assert np.median([step.itl_s for step in steps]) < 0.1, "what the pace adds is not in it"


def test_questions_are_answered_while_a_run_goes_on_and_after_it(exam: Exam) -> None:
    ticket = exam.submit()
    until(lambda: exam.steps(ticket) > 3)
    before = exam.steps(ticket)
    weights = exam.client.attention(ticket.run_id, 1, 2)
    newest = exam.client.attention(ticket.run_id, 1, 2, rows=2)
    assert newest.shape[0] == 2
    assert newest.shape[1] >= weights.shape[1]
    cell = exam.client.cell(ticket.run_id, 2, 0)
    assert not exam.ended(ticket)
    assert weights.shape[0] >= before
    assert weights.dtype == np.float32
    np.testing.assert_allclose(weights.sum(-1), 1.0, atol=1e-5)
    assert not np.triu(weights, 1).any()
    assert cell.shape == (2, 2, 8)
    with pytest.raises(OutOfRange):
        exam.client.attention(ticket.run_id, 99, None)
    exam.client.steer(ticket.run_id, ticket.key, "stop")
    until(lambda: exam.ended(ticket))
    assert exam.client.attention(ticket.run_id, 0, None).shape[0] == len(exam.view(ticket).tokens) + exam.steps(ticket)
    exam.client.steer(ticket.run_id, ticket.key, "cancel")
    with pytest.raises(RunFreed):
        exam.client.attention(ticket.run_id, 0, None)


@pytest.mark.parametrize("model", ["../../etc", "<script>alert(1)</script>", "", "/proc/self"])
def test_a_hostile_model_fails_its_run_alone(exam: Exam, model: str) -> None:
    ticket = exam.submit(model=model)
    until(lambda: exam.ended(ticket))
    view = exam.view(ticket)
    assert view.stop_reason is StopReason.ERROR
    assert view.error is not None
    assert view.error.code == "model_not_found"
    assert exam.answer(exam.submit(RunSettings(max_new_tokens=2, ignore_eos=True)))


def test_a_failure_of_the_text_is_told(exam: Exam) -> None:
    ticket = exam.client.submit(" \n", RunSettings(), model=exam.model, device="cpu", session="s")
    until(lambda: exam.ended(ticket))
    error = exam.view(ticket).error
    assert error is not None
    assert error.code == "empty_prompt"


def test_a_prompt_that_is_refused_for_its_length_is_not_kept(exam: Exam) -> None:
    """The tiny model's context is 1,024 tokens: the error says both numbers, and none of the tokens stay in the app."""
    ticket = exam.client.submit("\U00013000" * 2000, RunSettings(), model=exam.model, device="cpu", session="s")
    until(lambda: exam.ended(ticket))
    view = exam.view(ticket)
    assert view.error is not None
    assert view.error.code == "prompt_too_long"
    assert view.error.params["context"] == 1024
    assert int(view.error.params["tokens"]) >= 2000
    assert view.tokens == ()


def test_at_most_two_models_are_held_and_the_oldest_makes_room(exam: Exam, tiny_dir: Callable[..., Path]) -> None:
    others = [str(tiny_dir(kind)) for kind in ("gpt2", "qwen3")]
    few = RunSettings(max_new_tokens=2, ignore_eos=True)
    for other in others:
        assert len(exam.answer(exam.submit(few, model=other))) == 2
    states = {model: exam.client.model_status(model, "cpu").state for model in (exam.model, *others)}
    assert states == {exam.model: "absent", others[0]: "ready", others[1]: "ready"}
    assert len(exam.answer(exam.submit(few))) == 2
    assert exam.client.model_status(others[0], "cpu").state == "absent"
    assert exam.client.model_status(exam.model, "cpu").state == "ready"


def test_two_watchers_see_each_step_once_one_of_them_late(exam: Exam) -> None:
    ticket = exam.submit(RunSettings(max_new_tokens=80, ignore_eos=True))

    async def watch(delay_s: float) -> list[int]:
        await asyncio.sleep(delay_s)
        seen: list[int] = []
        frames = exam.client.stream(ticket.run_id)
        async for frame in frames:
            message = json.loads(frame)
            if message["type"] == "snapshot":
                seen = [step["index"] for step in message["steps"]]
            elif message["type"] == "stepped":
                seen.append(message["step"]["index"])
            if message.get("status") == "ended":
                break
        await frames.aclose()
        return seen

    async def both() -> list[list[int]]:
        return await asyncio.gather(watch(0.0), watch(0.1))

    assert asyncio.run(both()) == [list(range(1, 80))] * 2
