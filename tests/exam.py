"""A client with its real engine process and one tiny model, and short words for what tests do with them."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import psutil

from engine.serve.client import EngineClient, Ticket
from engine.settings import Settings
from engine.trace import RunSettings, RunStatus, RunView

UP_S = 120.0  # a cold start of torch on a busy machine
LONG = RunSettings(max_new_tokens=900, ignore_eos=True)


def until(happened: Callable[[], object], timeout_s: float = UP_S) -> float:
    """Wait; gives the seconds it took."""
    began_at = time.monotonic()
    while not happened():
        assert time.monotonic() - began_at < timeout_s, "it did not happen in time"
        time.sleep(0.005)
    return time.monotonic() - began_at


def alive(pid: int | None) -> bool:
    return pid is not None and psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


class Exam:
    """A client with one tiny model, and short words for what tests do with it."""

    def __init__(self, client: EngineClient, model: str) -> None:
        self.client, self.model = client, model

    def submit(
        self, settings: RunSettings = LONG, *, session: str = "s", model: str | None = None, play: bool = True, pace_s: float = 0.0
    ) -> Ticket:
        name = self.model if model is None else model
        return self.client.submit("the cat sat on", settings, model=name, device="cpu", session=session, play=play, pace_s=pace_s)

    def view(self, ticket: Ticket) -> RunView:
        view = self.client.view(ticket.run_id)
        assert view is not None
        return view

    def steps(self, ticket: Ticket) -> int:
        return len(self.view(ticket).steps)

    def ended(self, ticket: Ticket) -> bool:
        return self.view(ticket).status is RunStatus.ENDED

    def answer(self, ticket: Ticket) -> list[int]:
        until(lambda: self.ended(ticket))
        return [token.id for token in self.view(ticket).generated]


def open_exam(tiny: str, home: Path, lease_s: float = 600.0) -> Exam:
    exam = Exam(EngineClient(Settings(home=home, lease_s=lease_s, offline=True)), tiny)
    exam.client.start()
    exam.client.load_model(tiny, "cpu")
    until(lambda: exam.client.model_status(tiny, "cpu").state == "ready")
    return exam
