"""Records survive the way to JSON and back; hostile files are refused with a place."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import codec
from engine.errors import ErrorInfo, LoneSurrogate, RecordInvalid
from engine.model.shape import ModelShape
from engine.serve.protocol import Stepped
from engine.trace import Candidate, DecodeStep, ModelInfo, PrefillTrace, RunRecord, RunSettings, StopReason, Token

SHAPE = ModelShape("gemma3_text", 3, 32, 4, 2, 16, 400, 1024, (64, 64, None))
MODEL = ModelInfo(
    *("tiny", "Tiny", SHAPE, "cpu", "float32", 4, {"float32": 0.25}, 2, 1, 1000, 4000, 1024, True, "Be tiny", (2,), 0.5),
    attention_reason=None,
    versions={"torch": "2.13.0"},
)
HALF = Token(7, b"\xf0\x9f\xa4", "", "generated", 2)
CANDIDATES = (Candidate(7, b"\xf0\x9f\xa4", "", 0.75, 1.0), Candidate(9, b"</span>", "</span>", 0.25, 0.0))
PREFILL = PrefillTrace(2, 0.1, 0.2, 0.3, 0.4, 0.5, 0.0, 1.5, HALF, CANDIDATES, 1024, 2, 64)
STEP = DecodeStep(
    1, Token(2, b"<|im_end|>", "<|im_end|>", "generated", 3, True), CANDIDATES, 0.2, 0.1, 0.01, 0.001, 0.02, 1.72, 1280, 3, 80
)
RECORD = RunRecord(
    prompt="</span><script>alert(1)</script> 你好🤗\ufffd\u2028",
    settings=RunSettings(temperature=0.7, top_p=0.9, system_prompt=""),
    model=MODEL,
    created="2026-01-01T00:00:00+08:00",
    tokens=(Token(1, b"<|im_start|>", "<|im_start|>", "template", 0, True), Token(5, b" hi", " hi", "prompt", 1)),
    prefill=PREFILL,
    steps=(STEP,),
    stop_reason=StopReason.ERROR,
    error=ErrorInfo("out_of_memory", {"detail": "x", "wanted": -3, "share": 0.5}),
)


def changed(change: Callable[[dict[str, Any]], object]) -> str:
    record = json.loads(RECORD.to_json())
    change(record)
    return json.dumps(record)


def put(*place: str | int, value: Any) -> str:
    def change(record: Any) -> None:
        for key in place[:-1]:
            record = record[key]
        record[place[-1]] = value

    return changed(change)


def test_round_trip() -> None:
    assert RunRecord.from_json(RECORD.to_json()) == RECORD
    assert RunRecord.from_json(RECORD.to_json().encode()) == RECORD
    empty = RunRecord("hi", RunSettings(), MODEL, "2026-01-01T00:00:00", (), None, (), StopReason.STOPPED)
    assert RunRecord.from_json(empty.to_json()) == empty
    assert empty.generated == ()
    assert RECORD.generated == (HALF, STEP.token)


@given(prompt=st.text(), raw=st.binary(), number=st.floats(0, allow_nan=False, allow_infinity=False, max_value=1e18))
@settings(max_examples=60, deadline=None)
def test_round_trip_of_any_text_bytes_and_number(prompt: str, raw: bytes, number: float) -> None:
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        text = ""
    token, created = Token(3, raw, text, "prompt", 0), "2026-01-01T00:00:00Z"
    record = RunRecord(prompt, RunSettings(temperature=min(number, 1000.0)), MODEL, created, (token,), None, (), None)
    assert RunRecord.from_json(record.to_json()) == record


def test_a_record_that_does_not_say_who_chose_was_the_samplers() -> None:
    def forget(record: dict[str, Any]) -> None:
        for trace in (record["prefill"], *record["steps"]):
            del trace["chosen_by"]

    assert RunRecord.from_json(changed(forget)) == RECORD


def test_messages_of_the_channel_come_back() -> None:
    message = Stepped("run", STEP)
    assert codec.load(codec.dump(message), Stepped) == message


@pytest.mark.parametrize("text", ["", "{", "null", "[]", "3", '"x"', "{}", "\x00", "[" * 100_000, '{"schema": 1}', RECORD.to_json() + "x"])
def test_what_is_no_record(text: str) -> None:
    with pytest.raises(RecordInvalid):
        RunRecord.from_json(text)


@pytest.mark.parametrize("data", [b"\xff\xfe", RECORD.to_json().encode("utf-16"), RECORD.to_json().encode()[:-40]])
def test_bytes_that_are_no_record(data: bytes) -> None:
    with pytest.raises(RecordInvalid):
        RunRecord.from_json(data)


HUGE = 10**4000
PLACES: list[tuple[tuple[str | int, ...], Any]] = [
    (("schema",), 2),
    (("schema",), None),
    (("prompt",), 5),
    (("stop_reason",), "tired"),
    (("settings", "max_new_tokens"), 0),
    (("settings", "max_new_tokens"), HUGE),
    (("settings", "max_new_tokens"), "12"),
    (("settings", "max_new_tokens"), 12.5),
    (("settings", "temperature"), -1),
    (("settings", "temperature"), HUGE),
    (("settings", "temperature"), None),
    (("settings", "top_p"), 1.5),
    (("settings", "seed"), 2**63),
    (("settings", "use_chat_template"), 1),
    (("prefill", "queue_s"), float("nan")),
    (("prefill", "queue_s"), float("inf")),
    (("prefill", "queue_s"), -0.5),
    (("prefill", "kv_bytes"), 2**63),
    (("prefill", "kv_bytes"), HUGE),
    (("prefill", "first", "raw"), "not base64!"),
    (("prefill", "first", "kind"), "pirate"),
    (("prefill", "chosen_by"), "pirate"),
    (("steps", 0, "chosen_by"), None),
    (("prefill", "candidates", 0, "probability"), "1"),
    (("prefill",), None),
    (("steps", 0, "index"), 5),
    (("steps", 0, "at_s"), 1e300),
    (("steps", 0, "token", "position"), -1),
    (("steps",), {}),
    (("model", "shape", "num_key_value_heads"), 0),
    (("model", "shape", "layer_windows"), [64, "x", None]),
    (("model", "dtype_trials"), {"float32": -1}),
    (("error", "params"), {"detail": ["x"]}),
]


@pytest.mark.parametrize(("place", "value"), PLACES, ids=["-".join(map(str, row[0])) + f"-{index}" for index, row in enumerate(PLACES)])
def test_bad_values_are_refused_with_a_reason(place: tuple[str | int, ...], value: Any) -> None:
    text = put(*place, value=value)
    with pytest.raises(RecordInvalid) as caught:
        RunRecord.from_json(text)
    detail = str(caught.value.params["detail"])
    assert 0 < len(detail) < 500


@pytest.mark.parametrize("field", [field for field in json.loads(RECORD.to_json()) if field not in ("error", "schema", "origin")])
def test_missing_fields_are_refused(field: str) -> None:
    with pytest.raises(RecordInvalid, match=field):
        RunRecord.from_json(changed(lambda record: record.pop(field)))


def test_place_of_a_fault_is_named() -> None:
    with pytest.raises(RecordInvalid) as caught:
        RunRecord.from_json(put("steps", 0, "token", "position", value=-1))
    assert caught.value.params["place"] == "steps[0].token.position"


def test_text_that_is_not_unicode_cannot_leave() -> None:
    codec.check_text("你好🤗\ufffd\u2028")
    with pytest.raises(LoneSurrogate) as found:
        codec.check_text("ab\ud800")
    assert found.value.params == {"position": 2}
    with pytest.raises(LoneSurrogate) as caught:
        codec.dump(Token(1, b"", "ab\ud800", "prompt", 0))
    assert caught.value.params == {"position": 2}
