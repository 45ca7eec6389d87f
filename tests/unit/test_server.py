"""What the engine process does with commands that go wrong: whoever waits for one hears of it. No process and no model here."""

from __future__ import annotations

import math
import threading
from collections import deque
from pathlib import Path
from types import SimpleNamespace

import msgspec
import numpy as np
import pytest

from engine import codec
from engine.errors import EngineUnavailable, ErrorInfo, ModelNotLoaded, OutOfRange, RunUnknown
from engine.findings import TextCut
from engine.generate.tokens import Vocabulary
from engine.serve import server as server_module
from engine.serve.answers import CUTS_WAITING, Answers
from engine.serve.asks import AskAttention, AskCut, AskDecoded, AskTerms, Look, Question
from engine.serve.models import Wanted
from engine.serve.protocol import Answered, LoadModel, Message, ModelFailed, StatusChanged, Steer, Submit, read_event
from engine.serve.scheduler import Scheduler
from engine.serve.server import Outbox, Server
from engine.settings import Settings
from engine.trace import RunSettings, RunStatus, StopReason
from tests.exam import until
from tests.fakes import make_tokenizer
from tests.hall import Clock

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
    answers = Answers(scheduler, outbox.put, notary=SimpleNamespace(), shelf=SimpleNamespace())
    scheduler.find = lambda run_id: SimpleNamespace(work=SimpleNamespace(look=lambda question: np.zeros(1).view(Huge)))
    answers.take(AskAttention("q", "r", 0))
    scheduler.turn()
    until(lambda: wire.sent, 5.0)
    assert wire.events() == [Answered("q", ErrorInfo("internal", {"detail": "MemoryError: no room for a copy"}))]


def test_an_array_follows_its_announcement(wire: FakeWire) -> None:
    outbox, scheduler = Outbox(wire), Scheduler(lambda message: None)
    answers = Answers(scheduler, outbox.put, notary=SimpleNamespace(), shelf=SimpleNamespace())
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


def asked(answers: Answers, scheduler: Scheduler, question: Question) -> list[str]:
    """The looks that were computed."""
    looks: list[str] = []

    def look(found: Look) -> str:
        looks.append(found.request_id)
        return "seen"

    scheduler.find = lambda run_id: SimpleNamespace(work=SimpleNamespace(look=look))
    answers.take(question)
    return looks


@pytest.mark.parametrize(("patience_s", "waited_s", "answered"), [(15.0, 16.0, False), (60.0, 59.0, True), (60.0, 61.0, False)])
def test_a_look_is_computed_while_somebody_waits_for_it(wire: FakeWire, patience_s: float, waited_s: float, answered: bool) -> None:
    outbox, scheduler, clock = Outbox(wire), Scheduler(lambda message: None), Clock()
    answers = Answers(scheduler, outbox.put, notary=SimpleNamespace(), shelf=SimpleNamespace(), clock=clock)
    looks = asked(answers, scheduler, AskAttention("q", "r", 0, patience_s=patience_s))
    clock.now += waited_s
    scheduler.turn()
    until(lambda: wire.sent, 5.0)
    assert wire.events() == [Answered("q", text="seen") if answered else Answered("q", EngineUnavailable(detail="timeout").info)]
    assert looks == ["q"] * answered


def test_a_cut_waits_for_no_run(wire: FakeWire) -> None:
    """The worker is not there at all, as in the middle of a long prompt: the answer comes."""
    tokenizer = make_tokenizer()
    models = {Wanted("m", "cpu"): SimpleNamespace(tokenizer=tokenizer, vocabulary=Vocabulary(tokenizer))}
    answers = Answers(Scheduler(lambda message: None), Outbox(wire).put, SimpleNamespace(), SimpleNamespace(find=models.__getitem__))
    answers.take(AskCut("q", "m", "cpu", "the cat"))
    until(lambda: wire.sent, 30.0)
    (answer,) = wire.events()
    assert isinstance(answer, Answered)
    assert [word.raw for word in codec.load(answer.text or "", TextCut).words] == [b"the", b" cat"]


def test_the_text_of_ids_waits_for_no_run_and_is_the_tokenizers_own(wire: FakeWire) -> None:
    tokenizer = make_tokenizer()
    model = SimpleNamespace(tokenizer=tokenizer, vocabulary=Vocabulary(tokenizer), shape=SimpleNamespace(vocab_size=len(tokenizer)))
    shelf = SimpleNamespace(find={Wanted("m", "cpu"): model}.__getitem__)
    answers = Answers(Scheduler(lambda message: None), Outbox(wire).put, SimpleNamespace(), shelf)
    text = "the cat 你好🤗"
    ids = (1, *tokenizer(text, add_special_tokens=False)["input_ids"], 2)
    for number, skip in enumerate((True, False)):
        answers.take(AskDecoded(str(number), "m", "cpu", ids, skip))
    for number, stranger in enumerate((-1, len(tokenizer), 2**62), start=2):
        answers.take(AskDecoded(str(number), "m", "cpu", (*ids, stranger), True))
    until(lambda: len(wire.sent) == 5, 30.0)
    told = wire.events()
    assert told[:2] == [Answered("0", text=text), Answered("1", text=f"<|im_start|>{text}<|im_end|>")]
    assert told[2:] == [
        Answered(str(number), OutOfRange(field="id", value=stranger, count=len(tokenizer)).info)
        for number, stranger in enumerate((-1, len(tokenizer), 2**62), start=2)
    ]


def test_the_tokenizer_is_asked_by_one_thread_at_a_time(wire: FakeWire) -> None:
    """The worker may be encoding a prompt: a fast tokenizer that two threads use at once fails ("Already borrowed")."""
    lock, decoding = threading.RLock(), threading.Event()

    def decode(ids: list[int], skip_special_tokens: bool) -> str:
        decoding.set()
        other = threading.Thread(target=lambda: free.append(lock.acquire(blocking=False)))
        other.start()
        other.join()
        return "text"

    free: list[bool] = []
    model = SimpleNamespace(
        tokenizer=SimpleNamespace(decode=decode), vocabulary=SimpleNamespace(lock=lock), shape=SimpleNamespace(vocab_size=9)
    )
    answers = Answers(Scheduler(lambda message: None), Outbox(wire).put, SimpleNamespace(), SimpleNamespace(find=lambda wanted: model))
    with lock:  # as the worker does in the middle of a long prompt
        answers.take(AskDecoded("q", "m", "cpu", (1, 2), True))
        assert not decoding.wait(0.2)
    until(lambda: wire.sent, 5.0)
    assert wire.events() == [Answered("q", text="text")]
    assert free == [False], "it holds the lock while it decodes"


def test_a_cut_by_a_model_that_is_not_held_says_so(server: Server, wire: FakeWire) -> None:
    server._handle(codec.dump(AskCut("q", "m", "cpu", "the cat")), 1.0)
    server._handle(codec.dump(AskDecoded("d", "m", "cpu", (1, 2), True)), 1.0)
    until(lambda: len(wire.sent) == 2, 5.0)
    assert wire.events() == [Answered(request, ModelNotLoaded(model="m").info) for request in "qd"]


def test_a_flood_of_cuts_is_refused_and_has_one_thread(wire: FakeWire) -> None:
    gate, names = threading.Event(), set()
    clock = Clock()

    def find(wanted: Wanted) -> SimpleNamespace:
        names.add(threading.get_ident())
        assert gate.wait(30.0)
        raise ModelNotLoaded(model=wanted.model)

    scheduler = Scheduler(lambda message: None)
    answers = Answers(scheduler, Outbox(wire).put, SimpleNamespace(), SimpleNamespace(find=find), clock)
    answers.take(AskCut("first", "m", "cpu", "a"))
    until(lambda: names, 30.0)
    for number in range(CUTS_WAITING + 3):
        answers.take(AskCut(str(number), "m", "cpu", "a"))
    refused = [Answered(str(CUTS_WAITING + more), EngineUnavailable(detail="too many questions").info) for more in range(3)]
    until(lambda: len(wire.sent) >= 3, 5.0)
    assert wire.events() == refused
    assert scheduler._questions == deque()
    clock.now += 15.5
    gate.set()
    until(lambda: len(wire.sent) == CUTS_WAITING + 4, 30.0)
    late = EngineUnavailable(detail="timeout").info
    assert wire.events()[3:] == [
        Answered("first", ModelNotLoaded(model="m").info),
        *(Answered(str(number), late) for number in range(CUTS_WAITING)),
    ]
    assert len(names) == 1


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
