"""The engine's own steps per second, with and without watchers on the live channel. Knows no browser."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn
from starlette.applications import Starlette

from engine.serve.client import EngineClient, Ticket
from engine.trace import RunSettings, RunStatus, RunView
from tests.bench.report import Figure, paired
from ui import channel as live_channel
from ui import resources

QUESTION = "Tell me a long story about an orange that rolled off a table."
STEPS = 100
LOAD_TIMEOUT_S = 300.0


def wait_for_model(client: EngineClient) -> None:
    settings = resources.settings()
    deadline = time.perf_counter() + LOAD_TIMEOUT_S
    while (status := client.model_status(settings.model, settings.device)).state != "ready":
        assert status.state != "failed", status.error
        assert time.perf_counter() < deadline, "the model did not load in time"
        time.sleep(0.2)


def submit(client: EngineClient, steps: int) -> Ticket:
    settings = resources.settings()
    wanted = RunSettings(max_new_tokens=steps, ignore_eos=True)
    return client.submit(QUESTION, wanted, model=settings.model, device=settings.device, session="bench")


def wait_for_end(client: EngineClient, run_id: str) -> RunView:
    while True:
        client.touch(run_id)
        view = client.view(run_id)
        assert view is not None
        if view.status is RunStatus.ENDED:
            assert view.error is None, view.error
            return view
        time.sleep(0.5)


def steps_per_s(view: RunView) -> float:
    """Decode steps over the time between the first id and the last."""
    assert view.prefill is not None
    return len(view.steps) / (view.steps[-1].at_s - view.prefill.at_s)


@contextmanager
def serving() -> Iterator[int]:
    """The channel's own route on a free port, in this process."""
    from tests.browser.driver import free_port

    port = free_port()
    server = uvicorn.Server(uvicorn.Config(Starlette(routes=live_channel.routes()), port=port, log_level="warning"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.05)
    yield port
    server.should_exit = True
    thread.join(10)


def alone(client: EngineClient) -> float:
    ticket = submit(client, STEPS)
    return steps_per_s(wait_for_end(client, ticket.run_id))


def watched(client: EngineClient, port: int, count: int) -> float:
    ticket = submit(client, STEPS)
    command = [sys.executable, str(Path(__file__).with_name("watchers.py")), str(count)]
    command.append(f"ws://127.0.0.1:{port}{live_channel.path_of(ticket.run_id)}")
    watchers = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    view = wait_for_end(client, ticket.run_id)
    seen = json.loads(watchers.communicate(timeout=30)[0])
    assert seen == [STEPS - 1] * count, f"watchers saw {seen} of {STEPS - 1} steps"
    return steps_per_s(view)


def channel() -> Iterator[Figure]:
    """Steps per second with one and with ten watchers that draw nothing, against none."""
    client = resources.engine()
    try:
        wait_for_model(client)
        alone(client)
        with serving() as port:
            for count, target in ((1, ">= 0.95"), (10, ">= 0.9")):
                seen, bare, ratio = paired(lambda n=count: watched(client, port, n), lambda: alone(client), 5)
                yield Figure(f"watchers_{count}", seen, "steps/s", f"engine alone {bare:.1f} steps/s", ratio, target)
    finally:
        resources.close()
