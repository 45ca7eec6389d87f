"""The real engine process and the app: whichever ends first, and however, the other does the right thing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from engine.errors import EngineError, ErrorInfo, RunFreed
from engine.serve import link as link_module
from engine.serve.client import EngineClient
from engine.serve.keeper import Keeper
from engine.settings import Settings
from engine.trace import RunSettings, RunStatus, StopReason
from tests.exam import LONG, Exam, alive, open_exam, until

KILLED = -9 if os.name == "posix" else 15  # how a process ends that was killed: Windows knows no signals, only psutil's exit code
ROOT = Path(__file__).resolve().parents[2]
HELD_S = 1.0


@pytest.fixture(scope="module")
def tiny(tiny_dir: Callable[..., Path]) -> str:
    return str(tiny_dir("llama"))


@pytest.fixture(scope="module")
def exam(tiny: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Exam]:
    """One engine for the tests that leave it alive, or that get it alive again."""
    made = open_exam(tiny, tmp_path_factory.mktemp("home"))
    yield made
    made.client.close()


@pytest.mark.skipif(os.name != "posix", reason="Windows has no signal that one process could ignore")
def test_ctrl_c_in_the_terminal_is_for_the_app_alone(exam: Exam) -> None:
    ticket = exam.submit()
    until(lambda: exam.steps(ticket) > 2)
    before, pid = exam.steps(ticket), exam.client.status().pid
    assert pid is not None
    os.kill(pid, signal.SIGINT)
    until(lambda: exam.steps(ticket) > before + 5)
    exam.client.steer(ticket.run_id, ticket.key, "cancel")
    until(lambda: exam.ended(ticket))
    assert exam.client.status().pid == pid


def test_a_killed_engine_leaves_what_was_written_and_is_replaced(exam: Exam) -> None:
    live, waiting = exam.submit(), exam.submit(play=False, session="other")
    until(lambda: exam.steps(live) > 5)
    before = exam.client.status()
    assert before.pid is not None
    psutil.Process(before.pid).kill()
    until(lambda: exam.ended(live) and exam.ended(waiting), 5.0)
    view = exam.view(live)
    assert view.stop_reason is StopReason.ERROR
    assert view.error is not None
    assert (view.error.code, view.error.params) == ("engine_lost", {"exit_code": KILLED})
    assert len(view.steps) > 5
    with pytest.raises(EngineError):
        exam.client.attention(live.run_id, 0, None)
    following = exam.submit(RunSettings(max_new_tokens=3, ignore_eos=True))  # sent as soon as the new one is up
    assert len(exam.answer(following)) == 3
    after = exam.client.status()
    assert (after.state, after.restarts) == ("ready", before.restarts + 1)
    assert after.pid != before.pid
    until(lambda: exam.client.model_status(exam.model, "cpu").state == "ready", 15.0)


def test_an_unwatched_run_gives_its_turn_back(tiny: str, tmp_path: Path) -> None:
    exam = open_exam(tiny, tmp_path, lease_s=2.0)
    try:
        ticket = exam.submit(LONG, pace_s=0.2)
        until(lambda: exam.ended(ticket), 30.0)
        view = exam.client.view(ticket.run_id)
        assert view is not None
        assert (view.status, view.stop_reason, view.error) == (RunStatus.ENDED, StopReason.STOPPED, ErrorInfo("unwatched"))
        assert 1 <= len(view.steps) < 150
        with pytest.raises(RunFreed):
            exam.client.attention(ticket.run_id, 0, None)
        engine = exam.client.status().pid
    finally:
        exam.client.close()
    assert not alive(engine)
    assert exam.client.status().state == "closed"
    exam.client.close()


@pytest.mark.parametrize("moment", ["starting", "loading", "playing"])
def test_the_engine_ends_with_the_app_however_that_ends(tiny: str, tmp_path: Path, moment: str) -> None:
    code = f"""
import sys, time
from pathlib import Path
from engine.serve import link as link_module
from engine.serve.client import EngineClient
from engine.serve.keeper import Keeper
from engine.settings import Settings
from engine.trace import RunSettings
client = EngineClient(Settings(home=Path({str(tmp_path)!r}), offline=True))
client.start()
while client.status().pid is None: time.sleep(0.01)
if {moment!r} != "starting": client.load_model({tiny!r}, "cpu")
if {moment!r} == "playing":
    run = client.submit("the cat", RunSettings(max_new_tokens=900, ignore_eos=True), model={tiny!r}, device="cpu", session="s", pace_s=0.1)
    while not client.view(run.run_id).steps: time.sleep(0.01); client.touch(run.run_id)
print(client.status().pid, flush=True)
time.sleep(60)
"""
    app = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert app.stdout is not None
    with app.stdout as out:
        engine = int(out.readline())
    if moment == "loading":
        time.sleep(0.7)  # in the middle of torch's own start
    assert alive(engine)
    app.kill()
    app.wait()
    assert until(lambda: not alive(engine), 10.0) < 5.0


def test_waiting_for_an_engine_that_starts_counts(tiny: str, tmp_path: Path) -> None:
    """The engine is held for a second while it starts, so that a clock that begins with its first sign of life would be a second short."""
    exam = Exam(EngineClient(Settings(home=tmp_path, lease_s=600.0, offline=True)), tiny)
    asked_at = time.perf_counter()
    exam.client.start()
    try:
        until(lambda: exam.client.status().pid is not None)
        engine = psutil.Process(exam.client.status().pid)
        engine.suspend()
        ticket = exam.submit(RunSettings(max_new_tokens=2, ignore_eos=True))
        submitted_s = time.perf_counter() - asked_at
        time.sleep(HELD_S)
        engine.resume()
        until(lambda: exam.view(ticket).tokens)
        tokens_s = time.perf_counter() - asked_at
        until(lambda: exam.ended(ticket))
        prefill = exam.view(ticket).prefill
        assert prefill is not None
        assert prefill.queue_s > HELD_S
        assert prefill.at_s > tokens_s - submitted_s - HELD_S / 2, "the clock has run since the reader asked"
        assert prefill.at_s - prefill.ttft_s == pytest.approx(0.0, abs=1e-3)
    finally:
        exam.client.close()


def test_closing_does_not_wait_for_an_engine_that_does_not_read(tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_module, "LEAVING_S", 0.3)
    keeper = Keeper(Settings(home=tmp_path, offline=True), lambda data, more: None, lambda number, code: [])
    keeper.start()
    until(lambda: keeper.status().state == "ready")
    pid = keeper.status().pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    sent: list[int] = []

    def flood() -> None:
        for number in range(100):
            keeper.post(b"x" * 1_000_000)
            sent.append(number)

    sender = threading.Thread(target=flood, daemon=True)
    sender.start()
    until(lambda: keeper._lock.locked() and time.sleep(0.3) is None and keeper._lock.locked(), 10.0)
    assert len(sent) < 100
    closer = threading.Thread(target=keeper.close, daemon=True)
    closer.start()
    closer.join(10.0)
    try:
        assert not closer.is_alive()
        assert not alive(pid)
    finally:
        if alive(pid):
            psutil.Process(pid).kill()
    sender.join(5.0)
    assert not sender.is_alive()


def test_closing_while_the_engine_is_coming_up_leaves_nothing(exam: Exam, tmp_path: Path) -> None:
    for delay_s in (0.0, 0.05, 0.5):
        client = EngineClient(Settings(home=tmp_path, offline=True))
        client.start()
        time.sleep(delay_s)
        client.close()
        mine = [child for child in psutil.Process().children() if "engine.serve.server" in " ".join(child.cmdline())]
        assert [child.pid for child in mine] == [exam.client.status().pid], "only the engine that the other tests share"
