"""The app's client without a process: who may steer what, and what is refused, told and kept."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from engine import codec
from engine.errors import (
    EngineError,
    EngineUnavailable,
    InvalidSetting,
    LoneSurrogate,
    ModelNotFound,
    NotYours,
    RunFreed,
    RunUnknown,
)
from engine.model import registry
from engine.serve.asks import AskAttention, AskCell, AskCut, AskDecoded, AskLens, AskLinks, AskStages
from engine.serve.client import EngineClient
from engine.serve.keeper import Garbled
from engine.serve.protocol import Answered, Message, StatusChanged, Steer, Stepped, Submit
from engine.settings import Settings
from engine.trace import RunSettings, RunStatus, StopReason
from tests.exam import until
from tests.samples import step
from tests.solo import hear, pretend, submit

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def posted(monkeypatch: pytest.MonkeyPatch) -> list[Message]:
    return pretend(monkeypatch)


@pytest.fixture
def client(posted: list[Message], tmp_path: Path) -> Iterator[EngineClient]:
    made = EngineClient(Settings(home=tmp_path, lease_s=0.2))
    made.start()
    yield made
    made.close()


def test_only_the_key_steers(client: EngineClient, posted: list[Message]) -> None:
    run_id, key = submit(client)
    other_id, other_key = submit(client)
    assert len({run_id, key, other_id, other_key}) == 4
    assert min(len(run_id), len(key)) >= 22, "128 random bits"
    for wrong in (None, "", other_key, run_id, key + "x", "钥匙", "\ud800"):
        assert not client.can_steer(run_id, wrong)
        with pytest.raises(NotYours):
            client.steer(run_id, wrong, "stop")
    assert client.can_steer(run_id, key)
    assert not client.can_steer("nobody", key)
    with pytest.raises(RunUnknown):
        client.steer("nobody", key, "stop")
    client.steer(run_id, key, "play", 0.5)
    assert [message for message in posted if isinstance(message, Steer)] == [Steer(run_id, "play", 0.5)]


def test_an_ended_run_can_only_be_cancelled(client: EngineClient, posted: list[Message]) -> None:
    run_id, key = submit(client)
    hear(client, StatusChanged(run_id, RunStatus.ENDED, StopReason.EOS))
    for action in ("play", "pause", "step", "stop", "cancel"):
        client.steer(run_id, key, action)
    assert [message for message in posted if isinstance(message, Steer)] == [Steer(run_id, "cancel")]


def test_what_cannot_be_sent_is_refused_at_the_border(client: EngineClient, posted: list[Message]) -> None:
    with pytest.raises(LoneSurrogate) as caught:
        client.submit("ab\ud800", RunSettings(), model="m", session="s")
    assert caught.value.params == {"position": 2}
    with pytest.raises(LoneSurrogate):
        client.submit("ab", RunSettings(system_prompt="\udfff"), model="m", session="s")
    for pace_s in (-1.0, float("nan"), float("inf")):
        with pytest.raises(InvalidSetting):
            submit(client, pace_s=pace_s)
    with pytest.raises(LoneSurrogate):
        client.load_model("\ud800")
    with pytest.raises(InvalidSetting):
        RunSettings(seed=np.int64(3))
    with pytest.raises(TypeError):
        client.attention(submit(client)[0], np.int64(1), None)
    assert [type(message) for message in posted] == [Submit]
    assert len(client._book._entries) == 1


def test_a_message_that_cannot_be_read_ends_its_run(client: EngineClient, posted: list[Message]) -> None:
    run_id, _ = submit(client)
    hear(client, Stepped(run_id, step(1)))
    broken = codec.dump(Stepped(run_id, step(2))).replace(b'"busy_s":0.011', b'"busy_s":null')
    client._keeper.receive(broken, lambda: b"")
    view = client.view(run_id)
    assert view is not None
    assert view.error is not None
    assert (view.status, view.error.code, len(view.steps)) == (RunStatus.ENDED, "internal", 1)
    assert posted[-1] == Steer(run_id, "cancel")


@pytest.mark.parametrize(
    "message", [b"\xff\xfe", b"not json", b"[1]", b'{"type":"answered","request_id":7}', b'{"type":"model_ready","model":"m"}']
)
def test_a_message_for_nobody_in_particular_gives_its_process_up(client: EngineClient, message: bytes) -> None:
    with pytest.raises(Garbled):
        client._keeper.receive(message, lambda: b"")


def test_an_array_that_is_not_the_one_announced_is_told_to_the_waiter(client: EngineClient, posted: list[Message]) -> None:
    run_id, _ = submit(client)
    heard: list[EngineError] = []

    def look() -> None:
        with pytest.raises(EngineError) as caught:
            client.attention(run_id, 0, timeout_s=5.0)
        heard.append(caught.value)

    waiter = threading.Thread(target=look)
    waiter.start()
    until(lambda: isinstance(posted[-1], AskAttention), 5.0)
    question = posted[-1]
    assert isinstance(question, AskAttention)
    with pytest.raises(ValueError, match="reshape"):
        hear(client, Answered(question.request_id, dtype="float32", dims=(2, 2)), b"1234")
    waiter.join(5.0)
    assert [error.code for error in heard] == ["internal"]


def test_a_question_for_rows_says_how_many(client: EngineClient, posted: list[Message]) -> None:
    run_id, _ = submit(client)
    with pytest.raises(EngineUnavailable):
        client.attention(run_id, 3, 2, timeout_s=0.01, rows=5)
    question = posted[-1]
    assert isinstance(question, AskAttention)
    assert (question.layer, question.head, question.rows) == (3, 2, 5)


def test_every_question_says_how_long_it_is_waited_for(client: EngineClient, posted: list[Message]) -> None:
    run_id, _ = submit(client)
    asked: list[Callable[[], object]] = [
        lambda: client.attention(run_id, 0, timeout_s=0.01),
        lambda: client.links(run_id, 1, 0, timeout_s=0.01),
        lambda: client.lens(run_id, timeout_s=0.01),
        lambda: client.cell(run_id, 0, 0, timeout_s=0.01),
        lambda: client.stages(run_id, 0, 0.5, timeout_s=0.01),
        lambda: client.cut("m", "cpu", "the cat", timeout_s=0.01),
        lambda: client.decoded("m", "cpu", (1, 2), True, timeout_s=0.01),
    ]
    for ask in asked:
        with pytest.raises(EngineUnavailable):
            ask()
    questions = posted[-len(asked) :]
    assert [type(one) for one in questions] == [AskAttention, AskLinks, AskLens, AskCell, AskStages, AskCut, AskDecoded]
    assert [getattr(one, "patience_s", None) for one in questions] == [0.01] * len(asked)


def test_a_run_is_stamped_when_it_is_asked_for(client: EngineClient, posted: list[Message]) -> None:
    before = time.perf_counter()
    submit(client)
    command = posted[-1]
    assert isinstance(command, Submit)
    assert command.submitted_at is not None
    assert before <= command.submitted_at <= time.perf_counter()


def test_the_view_keeps_device_and_newest_pace(client: EngineClient) -> None:
    run_id, key = submit(client, device="cpu", pace_s=0.5)

    def kept() -> tuple[str, float]:
        view = client.view(run_id)
        assert view is not None
        return view.device, view.pace_s

    assert kept() == ("cpu", 0.5)
    client.steer(run_id, key, "pause")
    assert kept() == ("cpu", 0.5)
    client.steer(run_id, key, "play", 0.0)
    assert kept() == ("cpu", 0.0)
    hear(client, StatusChanged(run_id, RunStatus.ENDED, StopReason.EOS))
    client.steer(run_id, key, "play", 2.0)
    assert kept() == ("cpu", 0.0), "an ended run has no new pace"
    assert submit(client)
    view = client.view(submit(client)[0])
    assert view is not None
    assert (view.device, view.pace_s) == ("auto", 0.0)


def test_where_visitors_may_not_name_any_model_only_known_keys_pass(posted: list[Message], tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    closed = EngineClient(Settings(home=tmp_path, any_model=False))
    for model in ("some-one/model", str(tmp_path), "Qwen/Qwen3-0.6B", "", "x" * 10_000):
        for refused in (
            lambda model=model: closed.load_model(model),
            lambda model=model: submit(closed, model=model),
            lambda model=model: closed.terms(model),
            lambda model=model: closed.accept_terms(model),
        ):
            with pytest.raises(ModelNotFound) as caught:
                refused()
            assert len(str(caught.value.params["model"])) <= 120
    assert posted == []
    for spec in registry.MODELS:
        closed.load_model(spec.key)
        submit(closed, model=spec.key)
    chosen = EngineClient(Settings(home=tmp_path, model=str(tmp_path), any_model=False))
    chosen.load_model(str(tmp_path))  # the installation's own choice
    assert len(posted) == 2 * len(registry.MODELS) + 1


def test_a_run_of_a_dead_engine_has_no_live_memory(client: EngineClient) -> None:
    run_id, _ = submit(client)
    client._keeper.lost(0, -9)
    client._keeper.number = 1
    with pytest.raises(RunFreed):
        client.attention(run_id, 0, None)
    with pytest.raises(RunUnknown):
        client.cell("nobody", 0, 0)


def test_a_closed_client_answers_at_once(client: EngineClient) -> None:
    client.close()
    with pytest.raises(EngineUnavailable):
        client.terms("m")


def test_the_client_leaves_torch_out() -> None:
    code = "import sys, engine.serve.client; print(sorted({'torch', 'transformers', 'streamlit'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
