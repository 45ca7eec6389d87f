"""One question for all who follow a run: asked once, kept while it is true, and never an error."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from engine import codec
from engine.errors import EngineError, EngineLost, EngineUnavailable, OutOfRange, RecordInvalid, RunFreed
from engine.findings import Stages
from engine.serve.asks import AskAttention, AskCell, AskLens, AskLinks, AskStages, Look
from engine.serve.client import EngineClient
from engine.serve.protocol import Answered, Message, Prefilled, StatusChanged, Stepped, Tokenized
from engine.serve.questions import Answer
from engine.serve.recall import Asked, Recall, stays_true
from engine.settings import Settings
from engine.trace import RunStatus, StopReason
from tests.exam import until
from tests.hall import Clock
from tests.samples import INFO, PREFILL, step, token
from tests.solo import hear, pretend, submit

FULL = (None, None)


@pytest.fixture
def posted(monkeypatch: pytest.MonkeyPatch) -> list[Message]:
    return pretend(monkeypatch)


@pytest.fixture
def client(posted: list[Message], tmp_path: Path) -> Iterator[EngineClient]:
    made = EngineClient(Settings(home=tmp_path, lease_s=600.0))
    made.start()
    yield made
    made.close()


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(40) as made:
        yield made


def started(client: EngineClient) -> tuple[str, str]:
    run_id, key = submit(client)
    hear(client, Tokenized(run_id, INFO, (token(0), token(1), token(2))))
    hear(client, Prefilled(run_id, PREFILL))
    return run_id, key


def looks(posted: list[Message]) -> list[Message]:
    return [message for message in posted if isinstance(message, Look)]


def tell(client: EngineClient, question: Message, number: float = 0.5) -> None:
    array = np.full((1, 1), number, "float32")
    hear(client, Answered(question.request_id, dtype="float32", dims=array.shape), array.tobytes())


def ask_once(
    client: EngineClient, pool: ThreadPoolExecutor, posted: list[Message], look: Callable[[], np.ndarray], number: float = 0.5
) -> np.ndarray:
    """A look that has to go to the engine, and is answered."""
    before = len(looks(posted))
    waiting = pool.submit(look)
    until(lambda: len(looks(posted)) == before + 1, 5.0)
    tell(client, looks(posted)[-1], number)
    return waiting.result(5.0)


def test_thirty_who_ask_the_same_are_one_question(client: EngineClient, posted: list[Message], pool: ThreadPoolExecutor) -> None:
    run_id, _ = started(client)
    calls: list[Callable[[], np.ndarray]] = [
        lambda: client.attention(run_id, None, None, rows=1, until=3),
        lambda: client.cell(run_id, 1, 2),
        lambda: client.links(run_id, 2, 1),
    ]
    for count, look in enumerate(calls, start=1):
        waiting = [pool.submit(look) for _ in range(30)]
        until(lambda count=count: len(looks(posted)) == count, 5.0)
        tell(client, looks(posted)[-1], count / 4)
        found = [one.result(5.0) for one in waiting]
        assert all(one.tolist() == [[count / 4]] and not one.flags.writeable for one in found)
        assert look().tolist() == [[count / 4]], "kept for whoever comes later"
    assert len(looks(posted)) == len(calls)
    assert len({question.request_id for question in looks(posted)}) == len(calls)


def test_what_was_true_of_fewer_tokens_is_told_when_the_run_has_gone_on(
    client: EngineClient, posted: list[Message], pool: ThreadPoolExecutor
) -> None:
    run_id, _ = started(client)
    ask_once(client, pool, posted, lambda: client.attention(run_id, 0, 0, until=3))
    ask_once(client, pool, posted, lambda: client.attention(run_id, 0, 0))
    assert client.attention(run_id, 0, 0).tolist() == [[0.5]], "nothing has been read since"
    hear(client, Stepped(run_id, step(1)))
    assert client.attention(run_id, 0, 0, until=3).tolist() == [[0.5]]
    assert ask_once(client, pool, posted, lambda: client.attention(run_id, 0, 0), 0.25).tolist() == [[0.25]], "there is a newest row now"


def test_what_an_answer_depends_on() -> None:
    for lasting in (AskAttention("q", "r", 0, until=5), AskLinks("q", "r", 3, 1), AskLens("q", "r", 5), AskStages("q", "r", 2)):
        assert stays_true(lasting, None)
    assert not stays_true(AskAttention("q", "r", 0, rows=1), FULL), "its rows are the newest ones"
    assert stays_true(AskCell("q", "r", 1, 0), FULL)
    for layer, windows in ((1, (None, 64)), (-1, FULL), (2, FULL), (0, None)):
        assert not stays_true(AskCell("q", "r", layer, 0), windows), "the cell may be forgotten"
    asked = Asked.of(AskCell("q", "r", 1, 0), 0, 7, (None, 64))
    assert asked == Asked.of(AskCell("other", "r", 1, 0, patience_s=1.0), 0, 7, (None, 64))
    others = [
        Asked.of(AskCell("q", "r", 1, 0), 0, 8, (None, 64)),
        Asked.of(AskCell("q", "r", 1, 0), 1, 7, (None, 64)),
        Asked.of(AskCell("q", "r", 1, 1), 0, 7, (None, 64)),
        Asked.of(AskCell("q", "s", 1, 0), 0, 7, (None, 64)),
    ]
    assert len({asked, *others}) == 5
    warm, cold = (Asked.of(AskStages("q", "r", 2, temperature), 0, 7, FULL) for temperature in (0.0, None))
    assert warm != cold


def test_a_refusal_is_told_to_all_who_wait_and_not_kept(pool: ThreadPoolExecutor) -> None:
    recall, gate = Recall(), threading.Event()
    refusals = [OutOfRange(field="position", value=9, count=3)] * 8

    def ask(timeout_s: float) -> Answer:
        gate.wait(5.0)
        if refusals:
            raise refusals[0]
        return "there"

    waiting = [join(recall, pool, ask, 60.0) for _ in range(8)]
    until(lambda: recall._flights and all(one.running() for one in waiting), 5.0)
    gate.set()
    assert [type(one.exception(5.0)) for one in waiting] == [OutOfRange] * 8
    refusals.clear()
    assert recall.answer(asked(0), ask, 1.0) == "there"


def test_an_answer_that_cannot_be_read_is_a_fault_of_ours_and_not_kept(
    client: EngineClient, posted: list[Message], pool: ThreadPoolExecutor
) -> None:
    run_id, _ = started(client)
    asks: list[Callable[[], object]] = [
        lambda: client.stages(run_id, 0),
        lambda: client.lens(run_id),
        lambda: client.cut("m", "cpu", "the cat"),
        lambda: client.cell(run_id, 0, 0),
    ]
    for ask in [*asks, *asks]:
        before, waiting = len(posted), pool.submit(ask)
        until(lambda before=before: len(posted) > before, 5.0)
        hear(client, Answered(posted[-1].request_id, text='{"index":"x"}'))
        failure = waiting.exception(5.0)
        assert isinstance(failure, EngineError)
        assert not isinstance(failure, RecordInvalid)
        assert failure.info.code == "internal"
        assert failure.info.params["detail"]


def test_text_is_kept_as_it_came(client: EngineClient, posted: list[Message], pool: ThreadPoolExecutor) -> None:
    run_id, _ = started(client)
    stages = Stages(1, 0.0, 0, 1.0, (), 400, 400, 400, 0.0, 0.0, 0.0, 0.0, 0.5, 7, 7)
    waiting = pool.submit(client.stages, run_id, 1)
    until(lambda: looks(posted), 5.0)
    hear(client, Answered(looks(posted)[-1].request_id, text=codec.dump(stages).decode()))
    assert waiting.result(5.0) == client.stages(run_id, 1) == stages
    assert len(looks(posted)) == 1


def test_what_is_freed_is_asked_again(client: EngineClient, posted: list[Message], pool: ThreadPoolExecutor) -> None:
    run_id, key = started(client)
    ask_once(client, pool, posted, lambda: client.cell(run_id, 0, 0))
    late = pool.submit(client.cell, run_id, 0, 1)
    until(lambda: len(looks(posted)) == 2, 5.0)
    client.steer(run_id, key, "cancel")
    tell(client, looks(posted)[-1])
    assert late.result(5.0).tolist() == [[0.5]]
    for position in (0, 1):
        before, waiting = len(looks(posted)), pool.submit(client.cell, run_id, 0, position)
        until(lambda before=before: len(looks(posted)) == before + 1, 5.0)
        hear(client, Answered(looks(posted)[-1].request_id, RunFreed(run=run_id).info))
        assert isinstance(waiting.exception(5.0), RunFreed)


def test_with_its_engine_or_its_record_all_that_was_seen_of_a_run_goes(
    posted: list[Message], tmp_path: Path, pool: ThreadPoolExecutor
) -> None:
    client = EngineClient(Settings(home=tmp_path, lease_s=600.0, kept_runs=2))
    first, second = started(client)[0], started(client)[0]
    for run_id in (first, second):
        ask_once(client, pool, posted, lambda run_id=run_id: client.cell(run_id, 0, 0))
    assert {asked.run_id for asked in client._recall._kept} == {first, second}
    hear(client, StatusChanged(first, RunStatus.ENDED, StopReason.EOS))
    started(client)
    assert {asked.run_id for asked in client._recall._kept} == {second}
    waiting = pool.submit(client.cell, second, 0, 1)
    until(lambda: len(looks(posted)) == 3, 5.0)
    client._keeper.lost(0, -9)
    assert isinstance(waiting.exception(5.0), EngineLost)
    assert (client._recall._kept, client._recall._bytes, client._recall._flights) == ({}, 0, {})
    client._keeper.number = 1
    with pytest.raises(RunFreed):
        client.cell(second, 0, 0)
    client.close()


def asked(position: int, link: int = 0) -> Asked:
    return Asked.of(AskCell("q", "r", 0, position), link, 0, FULL)


def test_a_new_engine_is_asked_again() -> None:
    recall, told = Recall(), []

    def ask(timeout_s: float) -> Answer:
        told.append(timeout_s)
        return str(len(told))

    assert [recall.answer(asked(0, link), ask, 3.0) for link in (0, 0, 1, 1)] == ["1", "1", "2", "2"]
    assert told == [3.0, 3.0]


def test_what_is_kept_is_bounded_in_bytes_and_what_was_used_last_stays() -> None:
    recall, told = Recall(kept_bytes=10_000), []

    def look(position: int, size: int = 3_000) -> None:
        recall.answer(asked(position), lambda timeout_s: told.append(position) or np.zeros(size, np.uint8), 1.0)

    for position in (0, 1, 0, 2, 0, 1):
        look(position)
        assert recall._bytes <= 10_000
    assert told == [0, 1, 2, 1], "1 made room for 2, since 0 was used later"
    look(3, 20_000)
    look(3, 20_000)
    assert told == [0, 1, 2, 1, 3, 3], "too large to be kept, and nothing goes for it"
    look(1)
    assert len(told) == 6


def join(recall: Recall, pool: ThreadPoolExecutor, ask: Callable[[float], Answer], timeout_s: float) -> Future[Answer]:
    return pool.submit(recall.answer, asked(0), ask, timeout_s)


@pytest.mark.parametrize(("failure", "again"), [("timeout", True), ("closed", False)])
def test_who_has_more_patience_asks_again(pool: ThreadPoolExecutor, failure: str, again: bool) -> None:
    """The first one's time is over while another, who came later, still has his."""
    recall, gate = Recall(), threading.Event()

    def in_vain(timeout_s: float) -> Answer:
        gate.wait(5.0)
        raise EngineUnavailable(detail=failure)

    first = join(recall, pool, in_vain, 0.1)
    until(lambda: recall._flights, 5.0)
    second = join(recall, pool, lambda timeout_s: "seen", 60.0)
    until(second.running, 5.0)
    gate.set()
    assert isinstance(first.exception(5.0), EngineUnavailable)
    if again:
        assert second.result(5.0) == "seen"
    elif second.exception(5.0) is None:  # it came too late to join, and asked by itself
        assert second.result() == "seen"


def test_who_has_no_time_left_waits_no_longer(pool: ThreadPoolExecutor) -> None:
    clock, gate = Clock(0.0), threading.Event()
    recall = Recall(clock=clock)
    first = join(recall, pool, lambda timeout_s: str(gate.wait(5.0)), 60.0)
    until(lambda: recall._flights, 5.0)
    with pytest.raises(EngineUnavailable, match="timeout"):
        recall.answer(asked(0), lambda timeout_s: "never", 0.01)
    gate.set()
    assert first.result(5.0) == "True"
