"""Frozen dataclasses ↔ JSON, checked by type. Bytes travel as base64. Knows no run and no transport.

msgspec does the work: it refuses wrong types, missing fields, NaN and trailing text, and names the place.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from engine.errors import RecordInvalid
from engine.trace import SCHEMA_VERSION, RunRecord

T = TypeVar("T")

_encoder = msgspec.json.Encoder()


def dump(value: Any) -> bytes:
    """JSON of any dataclass or Struct that leaves the engine."""
    return _encoder.encode(value)


def load(data: str | bytes, kind: type[T]) -> T:
    """The value of type `kind`. Raises RecordInvalid."""
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise RecordInvalid(detail=str(error)) from error


def load_record(data: str | bytes) -> RunRecord:
    """A RunRecord from its JSON. Raises RecordInvalid, also for another schema version."""
    record = load(data, RunRecord)
    if record.schema != SCHEMA_VERSION:
        raise RecordInvalid(detail=f"schema {record.schema}; this version reads {SCHEMA_VERSION}")
    return record
