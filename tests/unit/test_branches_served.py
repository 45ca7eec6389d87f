"""Branches through the real engine process: nothing lost and nothing twice, whoever moves meanwhile."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import psutil
import pytest

from engine import Run, load_model
from engine.errors import EngineError, NotYours, OutOfRange, RunFreed, Unwatched
from engine.serve.client import Ticket
from engine.trace import RunSettings, RunStatus, RunView, StopReason
from tests.exam import LONG, Exam, open_exam, until

SHORT = RunSettings(max_new_tokens=10, ignore_eos=True)


@pytest.fixture(scope="module")
def tiny(tiny_dir: Callable[..., Path]) -> str:
    return str(tiny_dir("llama"))


@pytest.fixture(scope="module")
def exam(tiny: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Exam]:
    made = open_exam(tiny, tmp_path_factory.mktemp("home"))
    yield made
    made.client.close()


def branch(exam: Exam, left: Ticket, index: int, token_id: int = 77, **options: object) -> Ticket:
    return exam.client.branch(left.run_id, left.key, index, token_id, **{"session": "s"} | options)


def whole(view: RunView) -> bool:
    """Every step once and in order, and the cache as long as all that has been read."""
    assert [step.index for step in view.steps] == list(range(1, len(view.steps) + 1))
    assert [step.kv_tokens for step in view.steps] == [len(view.tokens) + step.index for step in view.steps]
    assert [token.position for token in view.generated] == [len(view.tokens) + n for n in range(len(view.generated))]
    return True


async def follow(exam: Exam, run_id: str) -> AsyncIterator[list[int]]:
    """The ordinals of the generated tokens that a browser knows, after each frame, until the run has ended."""
    frames = exam.client.stream(run_id)
    known: list[int] = []
    try:
        async for frame in frames:
            message = json.loads(frame)
            if message["type"] == "snapshot":
                known = [0] * (message["prefill"] is not None) + [step["index"] for step in message["steps"]]
            elif message["type"] in ("prefilled", "stepped"):
                known.append(message["step"]["index"] if message["type"] == "stepped" else 0)
            yield known
            if message.get("status") == "ended":
                return
    finally:
        await frames.aclose()


async def watch(exam: Exam, run_id: str, ready: asyncio.Event, count: int) -> list[int]:
    """All that a browser knows of a run at its end, none of it missing or twice at any time; `ready` when it is so much."""
    known: list[int] = []
    async for known in follow(exam, run_id):
        assert known == list(range(len(known)))
        if len(known) >= count:
            ready.set()
    return known


def test_a_branch_in_the_middle_of_playing(exam: Exam) -> None:
    """Both runs are watched all the time; the click comes while the engine writes as fast as it can."""

    async def play() -> tuple[Ticket, Ticket, list[int], list[int]]:
        ready, far = asyncio.Event(), asyncio.Event()
        root = exam.submit(LONG, pace_s=0.01)  # so that it is sure not to have come to its end before the click
        watching = asyncio.create_task(watch(exam, root.run_id, ready, 30))
        await asyncio.wait_for(ready.wait(), 60)
        made = branch(exam, root, 20)
        follower = asyncio.create_task(watch(exam, made.run_id, far, 60))
        await asyncio.wait_for(far.wait(), 60)
        await asyncio.to_thread(until, lambda: exam.view(root).status is RunStatus.PAUSED)
        left = exam.view(root)
        assert len(left.steps) < LONG.max_new_tokens - 1
        for ticket in (root, made):
            exam.client.steer(ticket.run_id, ticket.key, "stop")
        found = await asyncio.wait_for(asyncio.gather(watching, follower), 60)
        assert exam.view(root).steps == left.steps, "it stood still while the branch was written"
        return root, made, *found

    root, made, told_root, told_made = asyncio.run(play())
    left, view = exam.view(root), exam.view(made)
    assert whole(left)
    assert whole(view)
    assert told_root == list(range(len(left.generated)))
    assert told_made == list(range(len(view.generated)))
    assert view.origin is not None
    assert (view.origin.run_id, view.origin.index, view.origin.reread_s) == (root.run_id, 20, None)
    assert view.origin.instead_of == left.generated[20]
    assert (view.generated[:20], view.generated[20].id) == (left.generated[:20], 77)
    assert view.steps[18] == left.steps[18]
    assert exam.client.attention(made.run_id, 0).shape[0] == len(view.tokens) + len(view.generated) - 1
    with pytest.raises(OutOfRange):
        exam.client.cell(made.run_id, 0, len(view.tokens) + len(view.generated) - 1)


def test_the_run_that_was_left_can_go_on(exam: Exam) -> None:
    root = exam.submit(LONG, pace_s=0.01)
    until(lambda: exam.steps(root) > 8)
    made = branch(exam, root, 4)
    until(lambda: exam.view(root).status is RunStatus.PAUSED)
    before = exam.steps(root)
    exam.client.steer(root.run_id, root.key, "play")
    until(lambda: exam.steps(root) > before + 5 and exam.steps(made) > 10)
    for ticket in (root, made):
        exam.client.steer(ticket.run_id, ticket.key, "stop")
        until(lambda ticket=ticket: exam.ended(ticket))
        assert whole(exam.view(ticket))
    assert [view.run_id for view in exam.client.family(made.run_id)] == [root.run_id, made.run_id]


def test_a_branch_writes_what_a_fresh_run_forced_to_its_beginning_writes(exam: Exam, tiny: str) -> None:
    settings = RunSettings(max_new_tokens=24, ignore_eos=True, temperature=0.9, seed=11)
    root = exam.submit(settings)
    until(lambda: exam.ended(root))
    first = branch(exam, root, 9)
    until(lambda: exam.ended(first))
    second = branch(exam, first, 14, 91)
    until(lambda: exam.ended(second))
    model = load_model(tiny, device="cpu", dtype="float32")
    for ticket, index in ((first, 9), (second, 14)):
        view = exam.view(ticket)
        assert whole(view)
        assert (len(view.generated), view.stop_reason) == (24, StopReason.LENGTH)
        fresh = Run(model, "the cat sat on", settings, forced=[token.id for token in view.generated[: index + 1]])
        assert [token.id for token in (fresh.prefill().first, *(step.token for step in fresh.decode()))] == [
            token.id for token in view.generated
        ]
    views = exam.client.family(first.run_id)
    assert [view.run_id for view in views] == [root.run_id, first.run_id, second.run_id]
    assert [view.origin and view.origin.run_id for view in views] == [None, root.run_id, first.run_id]


def test_a_branch_of_a_run_whose_memory_is_gone(exam: Exam) -> None:
    root = exam.submit(SHORT)
    until(lambda: exam.ended(root))
    taken = branch(exam, root, 5)
    until(lambda: exam.ended(taken))
    exam.client.steer(root.run_id, root.key, "cancel")
    with pytest.raises(RunFreed):
        exam.client.cell(root.run_id, 0, 0)
    read = branch(exam, root, 5)
    until(lambda: exam.ended(read))
    assert exam.view(read).stop_reason is StopReason.LENGTH
    origin = exam.view(read).origin
    assert origin is not None
    assert origin.reread_s is not None
    assert origin.reread_s > 0
    assert whole(exam.view(read))
    assert [token.id for token in exam.view(read).generated] == [token.id for token in exam.view(taken).generated]


def test_two_sessions_branch_at_once(exam: Exam) -> None:
    roots = [exam.submit(LONG, session=session) for session in ("one", "two")]
    until(lambda: all(exam.steps(root) > 12 for root in roots))
    made = [branch(exam, roots[0], 10, 77, session="one"), branch(exam, roots[1], 10, 78, session="two")]
    until(lambda: all(exam.steps(ticket) > 40 for ticket in made))
    for ticket in (*roots, *made):
        exam.client.steer(ticket.run_id, ticket.key, "stop")
    until(lambda: all(exam.ended(ticket) for ticket in (*roots, *made)))
    for root, ticket, token_id in zip(roots, made, (77, 78), strict=True):
        assert whole(exam.view(ticket))
        assert exam.view(ticket).generated[10].id == token_id
        assert exam.view(ticket).generated[:10] == exam.view(root).generated[:10]
        assert len(exam.client.family(root.run_id)) == 2
    with pytest.raises(NotYours):
        exam.client.branch(roots[0].run_id, roots[1].key, 3, 77, session="two")


@pytest.mark.parametrize("asked", [(-1, 7), (10, 7), (2**40, 7), (3, -1), (3, 2**60)])
def test_what_cannot_be_is_refused_and_nothing_has_happened(exam: Exam, asked: tuple[int, int]) -> None:
    root = exam.submit(SHORT)
    until(lambda: exam.ended(root))
    before = exam.view(root)
    vocabulary = before.model.shape.vocab_size if before.model else 0
    for index, token_id in (asked, (3, vocabulary)):
        with pytest.raises(OutOfRange):
            branch(exam, root, index, token_id)
    assert exam.view(root) is before
    assert exam.client.family(root.run_id) == (before,)
    assert exam.client.cell(root.run_id, 0, 0).shape == (2, 2, 8)


def test_an_end_token_ends_its_branch_at_once(exam: Exam) -> None:
    root = exam.submit(RunSettings(max_new_tokens=10))
    until(lambda: exam.ended(root))
    model = exam.view(root).model
    assert model is not None
    index = len(exam.view(root).generated) - 1
    made = branch(exam, root, index, model.eos_ids[0])
    until(lambda: exam.ended(made))
    view = exam.view(made)
    assert (view.stop_reason, view.error, len(view.generated)) == (StopReason.EOS, None, index + 1)
    assert whole(view)


def test_all_of_a_family_live_as_long_as_one_is_looked_at(tiny: str, tmp_path: Path) -> None:
    exam = open_exam(tiny, tmp_path, lease_s=2.5)
    try:
        root = exam.submit(LONG, pace_s=0.05)
        until(lambda: exam.client.touch(root.run_id) or exam.steps(root) > 4)
        made = branch(exam, root, 2, play=False)
        looked_until = time.monotonic() + 5.0
        while time.monotonic() < looked_until:
            exam.client.touch(made.run_id)
            time.sleep(0.1)
        assert [view.status for view in exam.client.family(made.run_id)] == [RunStatus.PAUSED] * 2
        assert exam.client.cell(root.run_id, 0, 0).shape == (2, 2, 8)
        until(lambda: exam.ended(root) and exam.ended(made), 30.0)
        assert [view.error for view in exam.client.family(made.run_id)] == [Unwatched().info] * 2
        for ticket in (root, made):
            with pytest.raises(RunFreed):
                exam.client.cell(ticket.run_id, 0, 0)
    finally:
        exam.client.close()


def test_a_branch_from_what_a_lost_engine_had_written(tiny: str, tmp_path: Path) -> None:
    exam = open_exam(tiny, tmp_path)
    try:
        root = exam.submit(LONG)
        until(lambda: exam.steps(root) > 12)
        made = branch(exam, root, 6)
        until(lambda: exam.steps(made) > 20)
        pid = exam.client.status().pid
        assert pid is not None
        psutil.Process(pid).kill()
        until(lambda: exam.ended(root) and exam.ended(made))
        lost = exam.view(made)
        with pytest.raises(EngineError):
            exam.client.cell(made.run_id, 0, 0)
        again = branch(exam, made, 15, 78)
        until(lambda: exam.steps(again) > 30)
        exam.client.steer(again.run_id, again.key, "stop")
        until(lambda: exam.ended(again))
        view = exam.view(again)
        assert whole(view)
        assert (view.generated[:15], view.generated[15].id) == (lost.generated[:15], 78)
        assert view.origin is not None
        assert view.origin.reread_s is not None
        assert [one.run_id for one in exam.client.family(root.run_id)] == [root.run_id, made.run_id, again.run_id]
        assert exam.client.attention(again.run_id, 0).shape[0] == len(view.tokens) + len(view.generated) - 1
    finally:
        exam.client.close()
