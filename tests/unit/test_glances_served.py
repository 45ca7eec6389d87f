"""Glances through the real engine process: when they come, and that they say what Python would be told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from engine.serve.client import Ticket
from engine.serve.protocol import Glanced, Prefilled, StatusChanged, SteerAction, Stepped, read_event
from engine.trace import RunSettings, RunStatus
from tests.exam import LONG, Exam, open_exam


@pytest.fixture(scope="module")
def exam(tiny_dir: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Exam]:
    made = open_exam(str(tiny_dir("llama")), tmp_path_factory.mktemp("home"))
    yield made
    made.client.close()


def heard(exam: Exam, ticket: Ticket, action: SteerAction, until_index: int, times: int = 1) -> list[object]:
    """What the channel of a run tells when it is steered, until the glance that goes with so many tokens, or the run's end."""

    async def listen() -> list[object]:
        told: list[object] = []
        frames = exam.client.stream(ticket.run_id)
        try:
            async with asyncio.timeout(60):
                async for frame in frames:
                    if '"type":"snapshot"' in frame:
                        for _ in range(times):
                            exam.client.steer(ticket.run_id, ticket.key, action)
                        continue
                    told.append(event := read_event(frame.encode()))
                    if isinstance(event, Glanced) and event.index >= until_index:
                        return told
                    if isinstance(event, StatusChanged) and event.status is RunStatus.ENDED:
                        return told
        finally:
            await frames.aclose()
        return told

    return asyncio.run(listen())


def test_glances_come_in_slow_motion_and_are_what_python_would_be_told(exam: Exam) -> None:
    ticket = exam.submit(LONG, play=False, pace_s=0.15)
    told = heard(exam, ticket, "play", 3)
    exam.client.steer(ticket.run_id, ticket.key, "stop")
    kinds = [type(one) for one in told if isinstance(one, Prefilled | Stepped | Glanced)]
    assert kinds == [Prefilled, Glanced, *[Stepped, Glanced] * 3]
    prompt = len(exam.view(ticket).tokens)
    for one in told:
        if isinstance(one, Glanced):
            weights = np.frombuffer(one.weights, "<f4")
            row = exam.client.attention(ticket.run_id, None, None, rows=1, until=prompt + one.index)[0]
            np.testing.assert_allclose(weights, row, atol=1e-6)


def test_a_single_step_brings_a_glance_and_full_speed_none(exam: Exam) -> None:
    ticket = exam.submit(RunSettings(max_new_tokens=30, ignore_eos=True), play=False)
    told = heard(exam, ticket, "step", 2, times=4)
    assert [one.index for one in told if isinstance(one, Glanced)] == [0, 1, 2]
    told = heard(exam, ticket, "play", 0)
    assert [one.step.index for one in told if isinstance(one, Stepped)] == list(range(3, 30))
    assert not [one for one in told if isinstance(one, Glanced)]
