"""Files that are no records, or lie: (name, what is told of it, bytes). For tests of the import; made from a recording that is right."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from engine.codec import SECONDS_LEAST

GOOD = (Path(__file__).resolve().parents[1] / "assets" / "records" / "smollm2-en.json").read_bytes()
SCRIPT = "</span><script>alert(1)</script>"


def changed(*place: str | int, value: Any) -> bytes:
    """The good record with another value at one place."""
    record: Any = json.loads(GOOD)
    at = record
    for key in place[:-1]:
        at = at[key]
    at[place[-1]] = value
    return json.dumps(record, ensure_ascii=False).encode()


def without(*place: str) -> bytes:
    record: Any = json.loads(GOOD)
    at = record
    for key in place[:-1]:
        at = at[key]
    del at[place[-1]]
    return json.dumps(record).encode()


def _reshaped(change: Callable[[Any], None]) -> bytes:
    record = json.loads(GOOD)
    change(record)
    return json.dumps(record).encode()


def _swap(record: Any) -> None:
    steps = record["steps"]
    steps[3], steps[4] = steps[4], steps[3]


def _backwards(record: Any) -> None:
    record["steps"][5]["at_s"] = record["steps"][3]["at_s"]


def many_names(count: int) -> bytes:
    """An object of so many names that no record has, the last of them twice."""
    names = b",".join(b'"k%d":0' % number for number in (*range(count), count - 1))
    return GOOD.replace(b'{"prompt"', b'{"x":{' + names + b'},"prompt"', 1)


def shortest() -> bytes:
    """The good record with the smallest durations that may be."""

    def quicken(record: Any) -> None:
        record["prefill"] |= dict.fromkeys(("queue_s", "template_s", "tokenize_s", "sample_s", "paused_s", "at_s"), 0)
        record["prefill"] |= {"prefill_s": SECONDS_LEAST, "layer_s": [0] * len(record["prefill"]["layer_s"])}
        for step in record["steps"]:
            step |= dict.fromkeys(("gap_s", "paused_s", "sample_s", "busy_s", "at_s"), 0) | {"forward_s": SECONDS_LEAST, "parts": None}

    return _reshaped(quicken)


def files() -> Iterator[tuple[str, str, bytes]]:
    """Name, kind of fault as in engine.codec.load_record, the file. The one of 50 MB is made anew by each caller."""
    yield from _unreadable()
    yield from _lies()


def _unreadable() -> Iterator[tuple[str, str, bytes]]:
    """What is no JSON, or no record."""
    yield "empty", "json", b""
    yield "white space", "json", b" \n "
    yield "no json", "json", b"Dear model, why is the sky blue?"
    yield "a list", "kind", b"[]"
    yield "null", "kind", b"null"
    yield "no fields", "missing", b"{}"
    yield "truncated", "json", GOOD[: len(GOOD) // 2]
    yield "one byte short", "json", GOOD[:-1]
    yield "something after it", "json", GOOD + b"{}"
    yield "byte order mark", "text", b"\xef\xbb\xbf" + GOOD
    yield "utf-16", "text", GOOD.decode().encode("utf-16")
    yield "a picture", "text", b"\x89PNG\r\n\x1a\n" + bytes(64)
    yield "a zero byte", "text", GOOD.replace(b"sky", b"s\0y", 1)
    yield "half a character", "text", GOOD[:40] + b"\xe4\xbd" + GOOD[40:]
    yield "deep lists", "deep", GOOD.replace(b'{"prompt"', b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b',"prompt"', 1)
    yield "deep objects", "deep", GOOD.replace(b'{"prompt"', b'{"x":' + b'{"a":' * 50_000 + b"1" + b"}" * 50_000 + b',"prompt"', 1)
    yield "a name twice", "twice", GOOD.replace(b'{"prompt"', b'{"prompt":"other","prompt"', 1)
    yield "100,000 names and one twice", "twice", many_names(100_000)
    yield "another schema", "schema", changed("schema", value=2)
    yield "text for a number", "kind", changed("prefill", "kv_bytes", value="many")
    yield "an object for a list", "kind", changed("steps", value={"0": 1})
    yield "a missing field", "missing", without("model", "shape", "head_dim")
    yield "nan", "json", GOOD.replace(b'"queue_s":', b'"queue_s":NaN,"was":', 1)
    yield "infinity", "json", GOOD.replace(b'"queue_s":', b'"queue_s":Infinity,"was":', 1)
    yield "5,000 digits", "kind", GOOD.replace(b'"kv_bytes":', b'"kv_bytes":' + b"9" * 5_000 + b',"was":', 1)


def _lies() -> Iterator[tuple[str, str, bytes]]:
    """What has the form of a record, and no run can have written."""
    yield "a huge number", "range", changed("prefill", "kv_bytes", value=2**60)
    yield "ages", "range", changed("steps", 2, "busy_s", value=1e300)
    yield "a negative time", "range", changed("steps", 2, "gap_s", value=-0.5)
    yield "a question read in no time", "range", changed("prefill", "prefill_s", value=0)
    yield "a step in no time", "range", changed("steps", 2, "forward_s", value=0.0)
    yield "no question read", "range", _reshaped(lambda record: record["prefill"].update(prompt_tokens=0))
    yield "reasons without end", "length", changed("prefill", "memory", value={"missing": {str(number): "no" for number in range(1_000)}})
    yield "an endless reason", "length", changed("steps", 1, "memory", value={"missing": {"nvml": "no" * 1_000}})
    yield "a setting out of range", "setting", changed("settings", "top_p", value=1.5)
    yield "a million layers", "range", changed("model", "shape", "num_hidden_layers", value=1_000_000)
    yield "no heads", "range", changed("model", "shape", "num_key_value_heads", value=0)
    yield "heads that do not divide", "disagrees", changed("model", "shape", "num_key_value_heads", value=7)
    yield "more windows than layers", "disagrees", changed("model", "shape", "layer_windows", value=[None] * 31)
    yield "a window of nothing", "range", changed("model", "shape", "layer_windows", value=[0] * 30)
    yield "steps out of order", "order", _reshaped(_swap)
    yield "time that runs back", "order", _reshaped(_backwards)
    yield "steps without a reading", "order", changed("prefill", value=None)
    yield "a script for a token", "disagrees", changed("steps", 1, "token", "text", value=SCRIPT)
    yield "a token elsewhere", "order", changed("tokens", 3, "position", value=9)
    yield "an answer in the question", "disagrees", changed("tokens", 3, "kind", value="generated")
    yield "more notes than tokens", "disagrees", changed("steps", 0, "kv_tokens", value=10_000_000)
    yield "more tokens than were asked for", "disagrees", changed("settings", "max_new_tokens", value=3)
    yield "a count that is wrong", "disagrees", changed("prefill", "prompt_tokens", value=5)
    yield "certain twice over", "range", changed("steps", 0, "candidates", 0, "probability", value=2.0)
    yield "an id beyond the vocabulary", "range", changed("steps", 0, "token", "id", value=10**9)
    yield "no date", "kind", changed("created", value="yesterday")
    yield "an endless name", "length", changed("model", "name", value="M" * 10_000)
    yield "an endless error", "length", changed("error", value={"code": "internal", "params": {"detail": "9" * 100_000}})
