"""Frozen dataclasses ↔ JSON, checked by type. Bytes travel as base64. Knows no run and no transport.

msgspec does the work: it refuses wrong types, missing fields, NaN and trailing text, and names the place.
What it cannot know (ranges, numbers beyond 64 bits) is checked here, so that a hostile file cannot get past the import.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec

from engine.errors import EngineError, ErrorInfo, InvalidSetting, LoneSurrogate, RecordInvalid
from engine.model.shape import ModelShape
from engine.trace import SCHEMA_VERSION, RunRecord

T = TypeVar("T")

_MAX_INT = 2**63 - 1
_encoder = msgspec.json.Encoder()


def dump(value: Any) -> bytes:
    """JSON of any dataclass or Struct that leaves the engine. Raises LoneSurrogate for text that is not valid Unicode."""
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError as error:
        raise LoneSurrogate(position=error.start) from error


def check_text(text: str) -> None:
    """Raises InvalidSetting for what is no text; LoneSurrogate for text that cannot be written as UTF-8, and so neither sent nor read
    by a tokenizer."""
    if not isinstance(text, str):
        raise InvalidSetting(field="text", value=type(text).__name__, allowed="text")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise LoneSurrogate(position=error.start) from error


def load(data: str | bytes, kind: type[T]) -> T:
    """The value of type `kind`. Raises RecordInvalid."""
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError, EngineError) as error:
        raise RecordInvalid(detail=str(error)) from error


def load_record(data: str | bytes) -> RunRecord:
    """A RunRecord from its JSON. Raises RecordInvalid, also for another schema version and for numbers no run can have."""
    record = load(data, RunRecord)
    for place, number in _numbers(record, "$"):
        if not 0 <= number <= _MAX_INT:  # the number itself is not quoted: it may have thousands of digits
            raise RecordInvalid(detail=f"expected a number from 0 to 2^63-1 - at `{place}`")
    if record.schema != SCHEMA_VERSION:
        raise RecordInvalid(detail=f"schema {record.schema}; this version reads {SCHEMA_VERSION}")
    _check_shape(record.model.shape)
    _check_order(record)
    return record


def _numbers(value: object, place: str) -> Iterator[tuple[str, int | float]]:
    """Every number in a record with its place. Parameters of an error may be anything and are left out."""
    if isinstance(value, int | float):
        yield place, value
    elif isinstance(value, tuple):
        for index, item in enumerate(value):
            yield from _numbers(item, f"{place}[{index}]")
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from _numbers(item, f"{place}.{name}")
    elif dataclasses.is_dataclass(value) and not isinstance(value, ErrorInfo):
        for field in dataclasses.fields(value):
            yield from _numbers(getattr(value, field.name), f"{place}.{field.name}")


def _check_shape(shape: ModelShape) -> None:
    for name in ("num_hidden_layers", "hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim"):
        if getattr(shape, name) < 1:
            raise RecordInvalid(detail=f"{name} is 0; expected at least 1 - at `$.model.shape`")


def _check_order(record: RunRecord) -> None:
    """Steps count on from the first token, which prefill gives: figures and cursors rely on it."""
    if record.steps and record.prefill is None:
        raise RecordInvalid(detail="steps without prefill - at `$.steps`")
    for number, step in enumerate(record.steps, start=1):
        if step.index != number:
            raise RecordInvalid(detail=f"index {step.index}; expected {number} - at `$.steps[{number - 1}]`")
