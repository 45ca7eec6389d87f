"""What the engine process does with commands that go wrong: whoever waits for one hears of it. No process and no model here."""

from __future__ import annotations

import math
import threading
from pathlib import Path
from types import SimpleNamespace

import msgspec
import numpy as np
import pytest

from engine import codec
from engine.errors import ErrorInfo, RunUnknown
from engine.serve import server as server_module
from engine.serve.answers import Answers
from engine.serve.protocol import (
    Answered,
    AskAttention,
    AskTerms,
    LoadModel,
    Look,
    Message,
    ModelFailed,
    StatusChanged,
    Steer,
    Submit,
    read_event,
)
from engine.serve.scheduler import Scheduler
from engine.serve.server import Outbox, Server
from engine.settings import Settings
from engine.trace import RunSettings, RunStatus, StopReason
from tests.exam import until

RUN = Submit("r", "s", "smollm2-135m", "cpu", "why?", RunSettings())


class FakeWire:
    """Keeps what is sent."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []

    def send(self, data: bytes) -> None:
        self.sent.append(data)

    def events(self) -> list[Message]:
        return [read_event(data) for data in self.sent]


@pytest.fixture
def wire() -> FakeWire:
    return FakeWire()


@pytest.fixture
def server(wire: FakeWire, tmp_path: Path) -> Server:
    made = Server(wire, Settings(home=tmp_path, offline=True))
    made._pool.want = lambda wanted: False
    return made


def broken(*args: object, **options: object) -> None:
    raise ZeroDivisionError("a fault of ours")


TOLD = ErrorInfo("internal", {"detail": "ZeroDivisionError: a fault of ours"})
ENDED = StatusChanged("r", RunStatus.ENDED, StopReason.ERROR, TOLD)


@pytest.mark.parametrize(
    ("part", "method", "command", "answer"),
    [
        ("_pool", "want", RUN, ENDED),
        ("_pool", "want", LoadModel("m", "cpu"), ModelFailed("m", "cpu", TOLD)),
        ("_answers", "take", AskAttention("q", "r", 0), Answered("q", TOLD)),
        ("_answers", "take", AskTerms("q", "m"), Answered("q", TOLD)),
    ],
    ids=["submit", "load", "look", "terms"],
)
def test_a_command_that_fails_unexpectedly_is_told_to_who_waits(
    server: Server, wire: FakeWire, monkeypatch: pytest.MonkeyPatch, part: str, method: str, command: Message, answer: Message
) -> None:
    monkeypatch.setattr(getattr(server, part), method, broken)
    assert server._handle(codec.dump(command), 1.0), "the process goes on"
    until(lambda: answer in wire.events(), 5.0)
    if isinstance(command, Submit):
        assert all(job.ended for job in server._scheduler._jobs.values()), "nothing is left that waits for a model for ever"


def test_steering_that_fails_ends_its_run(server: Server, wire: FakeWire, monkeypatch: pytest.MonkeyPatch) -> None:
    server._handle(codec.dump(RUN), 1.0)
    steer = server._scheduler.steer
    monkeypatch.setattr(server._scheduler, "steer", lambda run, action, *rest: broken() if action == "play" else steer(run, action, *rest))
    server._handle(codec.dump(Steer("r", "play", 0.1)), 1.0)
    until(lambda: ENDED in wire.events(), 5.0)
    assert server._scheduler._jobs["r"].ended


def test_a_command_for_nobody_ends_the_process(server: Server) -> None:
    with pytest.raises(msgspec.MsgspecError):
        server._handle(b"not json", 1.0)
    with pytest.raises(msgspec.MsgspecError):
        server._handle(b'{"type":"no such command"}', 1.0)


@pytest.mark.parametrize(("stamp", "counts"), [(40.0, 40.0), (None, 50.0), (60.0, 50.0)])
def test_waiting_counts_from_when_it_was_asked_for(server: Server, stamp: float | None, counts: float) -> None:
    server._handle(codec.dump(msgspec.structs.replace(RUN, submitted_at=stamp)), 50.0)
    job = server._scheduler.find("r")
    assert (job.submitted_at, job.work._submitted_at) == (counts, counts)


def test_an_array_that_cannot_be_sent_leaves_no_announcement_behind(wire: FakeWire) -> None:
    outbox = Outbox(wire)

    class Huge(np.ndarray):
        def tobytes(self, order: str | None = "C") -> bytes:
            raise MemoryError("no room for a copy")

    scheduler = Scheduler(outbox.put)
    answers = Answers(scheduler, outbox.put, notary=SimpleNamespace())
    scheduler.find = lambda run_id: SimpleNamespace(work=SimpleNamespace(look=lambda question: np.zeros(1).view(Huge)))
    answers.take(AskAttention("q", "r", 0))
    scheduler.turn()
    until(lambda: wire.sent, 5.0)
    assert wire.events() == [Answered("q", ErrorInfo("internal", {"detail": "MemoryError: no room for a copy"}))]


def test_an_array_follows_its_announcement(wire: FakeWire) -> None:
    outbox, scheduler = Outbox(wire), Scheduler(lambda message: None)
    answers = Answers(scheduler, outbox.put, notary=SimpleNamespace())
    asked: list[Look] = []

    def look(question: Look) -> np.ndarray:
        asked.append(question)
        return np.arange(6, dtype=np.float32).reshape(3, 2).T  # not in C order

    scheduler.find = lambda run_id: SimpleNamespace(work=SimpleNamespace(look=look))
    question = AskAttention("q", "r", 1, None, 2, 3)
    answers.take(question)
    scheduler.turn()
    until(lambda: len(wire.sent) == 2, 5.0)
    announced = read_event(wire.sent[0])
    assert isinstance(announced, Answered)
    assert math.prod(announced.dims) * 4 == len(wire.sent[1])
    assert np.frombuffer(wire.sent[1], np.float32).reshape(announced.dims).tolist() == [[0.0, 2.0, 4.0], [1.0, 3.0, 5.0]]
    assert asked == [question]


def test_a_question_about_nobody_is_answered(server: Server, wire: FakeWire) -> None:
    server._handle(codec.dump(AskAttention("q", "nobody", 0)), 1.0)
    server._scheduler.turn()
    until(lambda: wire.sent, 5.0)
    assert wire.events() == [Answered("q", RunUnknown(run="nobody").info)]


def test_a_sender_that_fails_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[int] = []
    gone = threading.Event()

    def leave(code: int) -> None:
        left.append(code)
        gone.set()

    monkeypatch.setattr(server_module, "leave", leave)
    Outbox(SimpleNamespace(send=broken)).put(LoadModel("m", "cpu"))
    assert gone.wait(5.0)
    assert left == [1], "a sender that is dead while the engine lives would leave everybody waiting"
