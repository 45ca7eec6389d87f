"""What the machine can do, asked for: the engine's answers come in pieces between turns, the client's questions say how to measure."""

from __future__ import annotations

import weakref
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from engine import codec
from engine.calibration import Calibration, Conditions, Measuring
from engine.errors import EngineUnavailable, ErrorInfo, ModelNotFound, ModelNotLoaded, OutOfMemory
from engine.serve.answers import SURVEYS_WAITING, Answers
from engine.serve.asks import AskCalibration
from engine.serve.client import EngineClient
from engine.serve.models import Wanted
from engine.serve.protocol import Answered, Message
from engine.serve.scheduler import Scheduler
from engine.settings import Settings
from tests.exam import until
from tests.solo import pretend

KNOWN = Calibration(5e10, 2e10, 1e-7, "cpu", "float32", 1, "2026-01-01T10:00:00+01:00", Conditions(1024, 1 << 28, 5, "x 2", "2.13.0", 0.1))


class Notary:
    """Measures in three pieces. `asked`: for which model, and how."""

    def __init__(self, found: Calibration | Exception | None = KNOWN) -> None:
        self.asked: list[tuple[Any, Measuring]] = []
        self.done = 0
        self._found = found

    def terms(self, model: str) -> str:
        return ""

    def accept(self, model: str) -> None:
        pass

    def calibrate(self, model: Any, measuring: Measuring) -> Generator[None, None, Any]:
        self.asked.append((model, measuring))
        for _ in range(0 if measuring == "never" else 3):
            self.done += 1
            yield
        if isinstance(self._found, Exception):
            raise self._found
        return self._found


class Hall:
    """Answers with a scheduler that nobody works for but the test."""

    def __init__(self, notary: Notary) -> None:
        self.now = 0.0
        self.sent: list[Message] = []
        self.scheduler = Scheduler(lambda message: None)
        self.answers = Answers(self.scheduler, lambda message, array: self.sent.append(message), notary, self, lambda: self.now)

    def find(self, wanted: Wanted) -> str:
        if wanted.model != "m":
            raise ModelNotLoaded(model=wanted.model)
        return f"the model {wanted.model} on {wanted.device}"

    def ask(self, name: str = "q", model: str = "m", measuring: Measuring = "again", patience_s: float = 60.0) -> None:
        self.answers.take(AskCalibration(name, model, "cpu", measuring, patience_s))


def test_a_measurement_comes_in_pieces_between_turns() -> None:
    notary = Notary()
    hall = Hall(notary)
    hall.ask()
    assert notary.asked == [], "nothing is done in the thread that asks"
    for done in (1, 2, 3):
        assert hall.scheduler.turn()
        assert (notary.done, hall.sent) == (done, [])
    hall.scheduler.turn()
    assert hall.sent == [Answered("q", text=codec.dump(KNOWN).decode())]
    assert notary.asked == [("the model m on cpu", "again")]
    assert not hall.scheduler.turn(), "nothing is left over"


def test_what_is_kept_waits_for_no_turn() -> None:
    for found, text in ((KNOWN, codec.dump(KNOWN).decode()), (None, "")):
        hall = Hall(Notary(found))
        hall.ask(measuring="never")
        until(lambda hall=hall: hall.sent, 10.0)
        assert hall.sent == [Answered("q", text=text)]


@pytest.mark.parametrize(
    ("failure", "told"),
    [
        (OutOfMemory(cause="device", detail="no"), OutOfMemory(cause="device", detail="no").info),
        (ValueError("?"), ErrorInfo("internal", {"detail": "ValueError: ?"})),
    ],
)
def test_a_measurement_that_fails_says_so(failure: Exception, told: ErrorInfo) -> None:
    hall = Hall(Notary(failure))
    hall.ask()
    while hall.scheduler.turn():
        pass
    assert hall.sent == [Answered("q", told)]


def test_nobody_is_measured_for_in_vain() -> None:
    notary = Notary()
    hall = Hall(notary)
    hall.ask("late", patience_s=5.0)
    hall.now = 6.0
    hall.ask("stranger", model="x")
    while hall.scheduler.turn():
        pass
    assert hall.sent == [Answered("late", EngineUnavailable(detail="timeout").info), Answered("stranger", ModelNotLoaded(model="x").info)]
    assert notary.asked == []


def test_a_flood_of_measurements_is_refused() -> None:
    hall = Hall(Notary())
    for number in range(SURVEYS_WAITING + 1):
        hall.ask(str(number))
    assert hall.sent == [Answered(str(SURVEYS_WAITING), EngineUnavailable(detail="too many questions").info)]
    while hall.scheduler.turn():
        pass
    assert len(hall.sent) == SURVEYS_WAITING + 1
    hall.ask("later")
    while hall.scheduler.turn():
        pass
    assert hall.sent[-1] == Answered("later", text=codec.dump(KNOWN).decode())


def test_one_is_measured_after_the_other() -> None:
    """Each fills hundreds of MiB of its own; two at a time would disturb each other's times."""
    notary = Notary()
    hall = Hall(notary)
    for name in ("a", "b", "c"):
        hall.ask(name)
    seen = []
    while hall.scheduler.turn():
        seen.append((len(notary.asked), notary.done, len(hall.sent)))
    assert seen == [(asked, 3 * (asked - 1) + min(piece, 3), asked - (piece < 4)) for asked in (1, 2, 3) for piece in (1, 2, 3, 4)]
    assert [one.request_id for one in hall.sent] == ["a", "b", "c"]


def test_one_that_cannot_even_be_answered_does_not_hold_up_the_next() -> None:
    hall = Hall(Notary(ValueError("?")))
    told = hall.sent.append

    def broken(message: Message, array: Any) -> None:
        if message.request_id == "a":
            raise OSError("the connection is gone")
        told(message)

    hall.answers = Answers(hall.scheduler, broken, Notary(), hall, lambda: hall.now)
    hall.ask("a")
    hall.ask("b")
    while hall.scheduler.turn():
        pass
    assert hall.sent == [Answered("b", text=codec.dump(KNOWN).decode())]


def test_nothing_holds_the_model_while_it_is_measured() -> None:
    class Model:
        pass

    class Careful(Notary):
        def calibrate(self, model: Any, measuring: Measuring) -> Generator[None, None, Any]:
            return super().calibrate(None, measuring)

    notary = Careful()
    hall = Hall(notary)
    loaded = [Model()]
    seen = weakref.ref(loaded[0])
    hall.find = lambda wanted: loaded[0]  # type: ignore[method-assign]
    hall.ask()
    hall.scheduler.turn()
    assert notary.done == 1
    loaded.clear()
    assert seen() is None, "it may have to make room"
    while hall.scheduler.turn():
        pass
    assert hall.sent == [Answered("q", text=codec.dump(KNOWN).decode())]


@pytest.fixture
def posted(monkeypatch: pytest.MonkeyPatch) -> list[Message]:
    return pretend(monkeypatch)


@pytest.fixture
def client(posted: list[Message], tmp_path: Path) -> Iterator[EngineClient]:
    made = EngineClient(Settings(home=tmp_path, any_model=False))
    made.start()
    yield made
    made.close()


def test_the_client_asks_and_reads(client: EngineClient, posted: list[Message], monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[AskCalibration] = []
    answers = iter([codec.dump(KNOWN).decode(), codec.dump(KNOWN).decode(), ""])

    def answer(question: AskCalibration, timeout_s: float) -> str:
        asked.append(question)
        assert question.patience_s == timeout_s
        return next(answers)

    monkeypatch.setattr(client, "_ask", answer)
    assert client.calibration("smollm2-135m", "cpu") == KNOWN
    assert client.calibration("smollm2-135m", again=True) == KNOWN
    assert client.known_calibration("smollm2-135m") is None
    assert [(one.device, one.measuring) for one in asked] == [("cpu", "once"), ("auto", "again"), ("auto", "never")]
    with pytest.raises(ModelNotFound):
        client.calibration("../../etc")
