"""Which models are held: loaded once, two at most, never taken from under a run. With makers that only count."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest

from engine.errors import EngineError, ErrorInfo, ModelNotFound, ModelNotLoaded, Offline
from engine.serve.job import Job
from engine.serve.models import ModelPool, Progress, Wanted
from engine.serve.protocol import Message, ModelFailed, ModelFreed, ModelProgress, ModelReady
from engine.trace import RunStatus
from tests.exam import until
from tests.hall import CountingWork, Hall
from tests.samples import INFO

ONE, TWO, THREE = (Wanted(name, "cpu") for name in ("one", "two", "three"))


@dataclass
class CountingMaker:
    """`broken`: what preparing or loading a model raises, once. `ready`: models whose weights are there. `gate`: preparing waits for it."""

    loads: list[str] = field(default_factory=list)
    discards: int = 0
    broken: dict[tuple[str, str], Exception] = field(default_factory=dict)
    ready: set[str] = field(default_factory=set)
    gate: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)
    at_once: int = 0
    most_at_once: int = 0

    def __post_init__(self) -> None:
        self.gate.set()

    def check(self, model: str) -> None:
        if model.startswith(".."):
            raise ModelNotFound(model=model)

    def place(self, device: str) -> str:
        return "cpu" if device == "auto" else device

    def is_ready(self, model: str) -> bool:
        return model in self.ready

    def prepare(self, model: str, progress: Progress) -> None:
        with self.lock:
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        progress("download", 0, 10)
        if not self.gate.wait(10.0):
            raise TimeoutError
        with self.lock:
            self.at_once -= 1
        self._break("prepare", model)

    def load(self, model: str, device: str, progress: Progress) -> SimpleNamespace:
        progress("load", 0, 0)
        self._break("load", model)
        self.loads.append(model)
        return SimpleNamespace(info=INFO, name=model)

    def discard(self) -> None:
        self.discards += 1

    def _break(self, stage: str, model: str) -> None:
        failure = self.broken.pop((stage, model), None)
        if failure is not None:
            raise failure


class Library(Hall):
    """A hall with a pool; `settle` lets fetching threads and the worker do all they can."""

    def __init__(self) -> None:
        super().__init__()
        self.maker = CountingMaker()
        self.heard: list[Message] = []
        self.pool = ModelPool(self.scheduler, self.heard.append, self.maker)

    def ask(self, name: str, wanted: Wanted, length: int = 1) -> CountingWork:
        work = self.works[name] = CountingWork(name, self.clock, self.diary, length)
        self.scheduler.add(Job(name, name, work, self.clock.now, group=wanted, ready=False))
        self.pool.want(wanted)
        return work

    def settle(self, turns: int = 10) -> None:
        for thread in threading.enumerate():
            if thread.name == "fetch":
                thread.join(10.0)
        self.turns(turns)

    def kinds(self, kind: type[Message]) -> list[str]:
        return [message.model for message in self.heard if isinstance(message, kind)]


@pytest.fixture
def library() -> Library:
    return Library()


def test_a_model_is_loaded_once_and_its_runs_then_go(library: Library) -> None:
    for name in "abc":
        library.ask(name, ONE)
    library.settle()
    assert library.maker.loads == ["one"]
    assert all(library.last_words(name).status is RunStatus.ENDED for name in "abc")
    assert library.pool.want(ONE)
    assert library.kinds(ModelReady) == ["one"]
    assert [(event.stage, event.total) for event in library.heard if isinstance(event, ModelProgress)] == [("download", 10), ("load", 0)]


def test_one_model_under_two_device_names_is_one_model(library: Library) -> None:
    library.pool.want(ONE)
    library.settle()
    library.pool.want(Wanted("one", "auto"))
    library.pool.want(TWO)
    library.settle()
    assert library.maker.loads == ["one", "two"]
    assert library.pool.take(ONE) is library.pool.take(Wanted("one", "auto"))
    assert library.kinds(ModelFreed) == []
    library.pool.take(TWO)
    library.pool.want(THREE)
    library.settle()
    assert library.kinds(ModelFreed) == ["one", "one"], "both names go together"


def test_the_least_recently_used_makes_room_and_its_ended_runs_are_freed(library: Library) -> None:
    first = library.ask("a", ONE)
    library.settle()
    library.ask("b", TWO)
    library.settle()
    library.pool.want(ONE)
    library.ask("c", THREE)
    library.settle()
    assert library.kinds(ModelFreed) == ["two"]
    assert not first.freed
    assert library.works["b"].freed
    assert library.maker.discards == 1


def test_a_question_leaves_the_order_of_use_as_it_was(library: Library) -> None:
    for wanted in (ONE, TWO):
        library.pool.want(wanted)
        library.settle()
    assert library.pool.find(ONE).name == "one"
    library.pool.want(THREE)
    library.settle()
    assert library.kinds(ModelFreed) == ["one"], "still the least recently used"
    with pytest.raises(ModelNotLoaded) as caught:
        library.pool.find(ONE)
    assert caught.value.params == {"model": "one"}


def test_a_model_with_a_live_run_stays_and_the_newcomer_waits(library: Library) -> None:
    library.ask("a", ONE, length=1_000)
    library.ask("b", TWO, length=1_000)
    library.settle()
    library.ask("c", THREE)
    library.settle()
    assert library.maker.loads in (["one", "two"], ["two", "one"])
    assert library.statuses("c") == ["queued"]
    library.scheduler.steer("b", "stop")
    library.settle()
    assert library.kinds(ModelFreed) == ["two"]
    assert library.last_words("c").status is RunStatus.ENDED
    assert library.last_words("a").status is RunStatus.RUNNING


@pytest.mark.parametrize("stage", ["prepare", "load"])
@pytest.mark.parametrize(("failure", "code"), [(Offline(model="one"), "offline"), (ValueError("bad header"), "load_failed")])
def test_a_failed_load_fails_who_waits_and_can_be_tried_again(library: Library, stage: str, failure: Exception, code: str) -> None:
    library.maker.broken[stage, "one"] = failure
    library.ask("a", ONE)
    library.settle()
    error = library.last_words("a").error
    assert error is not None
    assert error.code == code
    assert [event.error for event in library.heard if isinstance(event, ModelFailed)] == [error]
    library.ask("b", ONE)
    library.settle()
    assert library.last_words("b").error is None
    assert library.maker.loads == ["one"]


def test_a_failed_newcomer_costs_nobody_a_model(library: Library) -> None:
    library.pool.want(ONE)
    library.pool.want(TWO)
    library.settle()
    library.maker.broken["prepare", "three"] = Offline(model="three")
    library.pool.want(THREE)
    library.settle()
    with pytest.raises(EngineError):
        library.pool.want(Wanted("../../etc", "cpu"))
    assert library.kinds(ModelFreed) == []
    assert library.kinds(ModelFailed) == ["three"]
    assert ErrorInfo("offline", {"model": "three"}) in [event.error for event in library.heard if isinstance(event, ModelFailed)]


def test_one_model_is_fetched_at_a_time_and_what_is_there_does_not_wait(library: Library) -> None:
    library.maker.gate.clear()
    library.maker.ready.add("three")
    for wanted in (ONE, TWO):
        library.pool.want(wanted)
    until(lambda: library.maker.at_once == 1)
    library.pool.want(THREE)
    until(lambda: library.turns(5) and library.kinds(ModelReady) == ["three"])
    assert library.maker.loads == ["three"]
    library.maker.gate.set()
    library.settle()
    assert sorted(library.maker.loads) == ["one", "three", "two"]
    assert library.maker.most_at_once == 1
