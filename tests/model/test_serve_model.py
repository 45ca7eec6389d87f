"""The engine process on the real SmolLM2: right answers for everybody at once, and back again after a crash."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from engine.serve.client import EngineClient, Ticket
from engine.settings import Settings
from engine.trace import RunSettings, RunStatus, RunView

MODEL = "smollm2-135m"
QUESTIONS = {"What is the capital of France?": "Paris", "What is the capital of Japan?": "Tokyo"}


def until(happened: Callable[[], object], timeout_s: float) -> float:
    began_at = time.monotonic()
    while not happened():
        assert time.monotonic() - began_at < timeout_s, "it did not happen in time"
        time.sleep(0.02)
    return time.monotonic() - began_at


@pytest.fixture(scope="module")
def client(smollm2_dir: Path) -> Iterator[EngineClient]:
    made = EngineClient(replace(Settings.from_env(), lease_s=600.0))
    made.start()
    made.load_model(MODEL, "cpu")
    until(lambda: made.model_status(MODEL, "cpu").state == "ready", 120.0)
    yield made
    made.close()


def ask(client: EngineClient, prompt: str, **settings: int | bool) -> Ticket:
    return client.submit(prompt, RunSettings(**{"max_new_tokens": 12} | settings), model=MODEL, device="cpu", session=prompt)


def wait(client: EngineClient, ticket: Ticket) -> RunView:
    def ended() -> bool:
        view = client.view(ticket.run_id)
        return view is not None and view.status is RunStatus.ENDED

    until(ended, 120.0)
    view = client.view(ticket.run_id)
    assert view is not None
    return view


def text(view: RunView) -> str:
    return b"".join(token.raw for token in view.generated).decode()


def test_two_sessions_at_once_get_the_right_answers(client: EngineClient) -> None:
    alone = [text(wait(client, ask(client, prompt))) for prompt in QUESTIONS]
    tickets = [ask(client, prompt) for prompt in QUESTIONS]
    views = [wait(client, ticket) for ticket in tickets]
    assert [text(view) for view in views] == alone
    for view, answer in zip(views, QUESTIONS.values(), strict=True):
        assert answer in text(view)
    assert all(max(step.waited_s for step in view.steps) > 0.005 for view in views), "each has waited for a turn of the other"


def test_a_crash_costs_the_run_and_little_time(client: EngineClient) -> None:
    ticket = ask(client, "Tell me a long story.", max_new_tokens=400, ignore_eos=True)

    def going() -> bool:
        view = client.view(ticket.run_id)
        return view is not None and len(view.steps) > 5

    until(going, 60.0)
    pid = client.status().pid
    assert pid is not None
    psutil.Process(pid).kill()
    view = wait(client, ticket)
    assert view.error is not None
    assert view.error.code == "engine_lost"
    assert len(view.steps) > 5
    assert until(lambda: client.status().state == "ready", 15.0) < 15.0
    following = wait(client, ask(client, "What is the capital of France?"))
    assert "Paris" in text(following)
