"""Frozen dataclasses ↔ JSON, checked by type. Bytes travel as base64. Knows no run and no transport.

msgspec does the work: it refuses wrong types, missing fields, NaN and trailing text, and names the place.
What it cannot know (ranges, sizes, what has to agree with what) is checked here, so that a hostile file cannot get past the import.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator, Sized
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from engine.errors import EngineError, ErrorInfo, ErrorValue, InvalidSetting, LoneSurrogate, RecordInvalid
from engine.model.shape import ModelShape
from engine.trace import SCHEMA_VERSION, Candidate, DecodeStep, ModelInfo, PrefillTrace, RunRecord, RunSettings, Token

T = TypeVar("T")

RECORD_LIMIT_BYTES = 7_000_000  # of a file; a step of ten candidates takes 1,500
TOKENS_MOST, TEXT_MOST, WORD_MOST, ENTRIES_MOST, SOURCES_MOST = 65_536, 1_000_000, 200, 64, 8
SECONDS_LEAST, SECONDS_MOST = 1e-9, 10**8  # one tick of the clock; three years
_MAX_INT = 2**63 - 1
_EXACT_INT = 2**53 - 1  # beyond it a browser's numbers are not exact any more
_CERTAIN = 1 + 1e-6  # a probability, give or take what rounding does
_SHAPE_MOST = {"num_hidden_layers": 1_000, "hidden_size": 2**20, "head_dim": 2**16} | dict.fromkeys(
    ("num_attention_heads", "num_key_value_heads"), 4_096
)
_PLACE = re.compile(r" - at `(.+?)`$")
_NAME = re.compile(r"required field `(.+?)`")
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
        raise _unreadable(error) from error


def load_record(data: str | bytes) -> RunRecord:
    """A RunRecord from its JSON. Raises RecordInvalid, also for another schema version and for what no run can have written.

    Its `field` says what is wrong (size | text | json | deep | kind | missing | setting | schema | range | length | disagrees | order |
    twice), `place` where, `detail` what was expected, for a log. What the sentence about that kind tells of it is in params of their own:
    size and limit; position (byte) of a text; name of what is missing; allowed; found and known schema; low and high; most.
    """
    _check_file(data)
    record = load(data, RunRecord)
    if record.schema != SCHEMA_VERSION:
        raise _refused("schema", "$.schema", f"expected {SCHEMA_VERSION}", found=record.schema, known=SCHEMA_VERSION)
    _check_keys(data)
    _check_numbers(record)
    _check_words(record)
    _check_model(record.model)
    _check_tokens(record)
    _check_traces(record)
    return record


def _refused(kind: str, place: str, detail: str, **told: ErrorValue) -> RecordInvalid:
    return RecordInvalid(field=kind, place=place.removeprefix("$."), detail=detail, **told)


def _unreadable(error: Exception) -> RecordInvalid:
    """What msgspec, or a setting's own range, says about the text."""
    said = str(error)[:400]
    found, missing = _PLACE.search(said), _NAME.search(said)
    place, detail = found.group(1) if found else "$", _PLACE.sub("", said)
    if isinstance(error, InvalidSetting):
        allowed = error.params["allowed"]
        return _refused("setting", f"$.settings.{error.params['field']}", f"allowed: {allowed}", allowed=allowed)
    if isinstance(error, UnicodeDecodeError):
        return _refused("text", place, detail, position=error.start)
    if isinstance(error, RecursionError):
        return _refused("deep", place, detail)
    if missing is not None:
        return _refused("missing", place, detail, name=missing.group(1))
    return _refused("kind" if isinstance(error, msgspec.ValidationError) else "json", place, detail)


def _check_file(data: str | bytes) -> None:
    """Size first: nothing is read of a file that is too large. Then whether it is text at all, in the one encoding of JSON."""
    if len(data) > RECORD_LIMIT_BYTES:
        raise _refused("size", "$", "too large", size=len(data), limit=RECORD_LIMIT_BYTES)
    if isinstance(data, bytes):
        try:
            data = data.decode()
        except UnicodeDecodeError as error:
            raise _refused("text", "$", f"no UTF-8 from byte {error.start} on", position=error.start) from error
    if data.startswith("\ufeff"):
        raise _refused("text", "$", "a byte order mark before the JSON", position=0)
    if (zero := data.find("\0")) >= 0:
        raise _refused("text", "$", "a zero byte", position=len(data[:zero].encode(errors="surrogatepass")))


def _check_keys(data: str | bytes) -> None:
    """A name that stands twice in one object means one thing to one reader and another to the next. One pass, however many names."""

    def pairs(found: list[tuple[str, Any]]) -> None:
        seen: set[str] = set()
        for name, _ in found:
            if name in seen:
                raise _refused("twice", name[:WORD_MOST], f"{name[:WORD_MOST]} stands twice in one object")
            seen.add(name)

    try:
        json.loads(data, object_pairs_hook=pairs, parse_int=len, parse_float=len, parse_constant=len)
    except RecursionError as error:
        raise _unreadable(error) from error


def _numbers(value: object, place: str) -> Iterator[tuple[str, int | float]]:
    """Every number in a record with its place. Settings know their own ranges, parameters of an error may be anything."""
    if isinstance(value, int | float):
        yield place, value
    elif isinstance(value, tuple):
        for index, item in enumerate(value):
            yield from _numbers(item, f"{place}[{index}]")
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from _numbers(item, f"{place}.{name}")
    elif dataclasses.is_dataclass(value) and not isinstance(value, ErrorInfo | RunSettings):
        for field in dataclasses.fields(value):
            yield from _numbers(getattr(value, field.name), f"{place}.{field.name}")


def _check_numbers(record: RunRecord) -> None:
    for place, number in _numbers(record, "$"):
        _check_range(place, number, 0, SECONDS_MOST if place.endswith("_s") else _EXACT_INT)
    for value in (record.error.params if record.error else {}).values():
        if not isinstance(value, str):
            _check_range("$.error.params", value, -_MAX_INT, _MAX_INT)


def _check_range(place: str, number: float, low: float, high: float) -> None:
    """The number itself is not quoted: it may have thousands of digits."""
    if not low <= number <= high:
        raise _refused("range", place, f"expected a number from {low:,} to {high:,}", low=low, high=high)


def _check_words(record: RunRecord) -> None:
    """Lengths of all texts and lists that are none of a run's own length, and the date."""
    model, error = record.model, record.error
    words = {"model_id": model.model_id, "name": model.name, "device": model.device, "dtype": model.dtype}
    words |= {"attention_reason": model.attention_reason or "", "lens_reason": model.lens_reason or ""}
    words |= {"model_type": model.shape.model_type}
    lists: dict[str, Sized] = {"model.versions": model.versions, "model.dtype_trials": model.dtype_trials, "model.eos_ids": model.eos_ids}
    for name, text in [*words.items(), *model.versions.items(), *((name, name) for name in model.dtype_trials)]:
        _check_length(f"$.model.{name[:WORD_MOST]}", text, WORD_MOST)
    _check_length("$.prompt", record.prompt, TEXT_MOST)
    _check_length("$.settings.system_prompt", record.settings.system_prompt or "", TEXT_MOST)
    _check_length("$.model.default_system_prompt", model.default_system_prompt, TEXT_MOST)
    for name, entries in (lists | ({"error.params": error.params} if error else {})).items():
        _check_length(f"$.{name}", entries, ENTRIES_MOST)
    for text in (error.code, *error.params, *map(str, error.params.values())) if error else ():
        _check_length("$.error", text, 10_000)
    try:
        datetime.fromisoformat(record.created)
    except ValueError as failure:
        raise _refused("kind", "$.created", "Expected `date`, as in `2026-01-01T12:00:00+00:00`") from failure


def _check_length(place: str, long: Sized, most: int) -> None:
    """Characters of a text, entries of a list."""
    if len(long) > most:
        raise _refused("length", place, f"at most {most:,}", most=most)


def _check_model(model: ModelInfo) -> None:
    shape = model.shape
    for name, most in _SHAPE_MOST.items():
        _check_range(f"$.model.shape.{name}", getattr(shape, name), 1, most)
    if shape.num_attention_heads % shape.num_key_value_heads:
        raise _refused("disagrees", "$.model.shape.num_key_value_heads", f"expected a divisor of {shape.num_attention_heads}")
    if not 1 <= len(shape.layer_windows) <= shape.num_hidden_layers:
        raise _refused("disagrees", "$.model.shape.layer_windows", f"expected one entry for each of {shape.num_hidden_layers} layers")
    for window in shape.layer_windows:
        if window is not None:
            _check_range("$.model.shape.layer_windows", window, 1, _EXACT_INT)
    if (shape.kv_lora_rank is None) != (shape.qk_rope_head_dim is None):
        raise _refused("disagrees", "$.model.shape.kv_lora_rank", "expected both ranks or none")
    for name, most in (("dtype_bytes", 16), ("context_length", 2**31), ("prefill_threads", 2**16), ("decode_threads", 2**16)):
        _check_range(f"$.model.{name}", getattr(model, name), 1, most)


def _check_tokens(record: RunRecord) -> None:
    """Places count on from 0, bytes and text agree, ids are in the vocabulary, and there are no more than may be."""
    written = record.generated
    if len(record.tokens) + len(written) > TOKENS_MOST:
        raise _refused("length", "$.steps", f"at most {TOKENS_MOST:,} tokens, the question's included", most=TOKENS_MOST)
    if len(written) > record.settings.max_new_tokens:
        raise _refused("disagrees", "$.steps", f"{len(written):,} tokens; at most {record.settings.max_new_tokens:,} were asked for")
    for position, token in enumerate((*record.tokens, *written)):
        asked = position < len(record.tokens)
        first = "$.prefill.first" if position == len(record.tokens) else f"$.steps[{position - len(record.tokens) - 1}].token"
        place = f"$.tokens[{position}]" if asked else first
        if token.position != position:
            raise _refused("order", f"{place}.position", f"{token.position}; expected {position}")
        if (token.kind == "generated") == asked:
            raise _refused("disagrees", f"{place}.kind", f"{token.kind} does not belong here")
        _check_piece(token, record.model.shape, place)


def _check_piece(piece: Token | Candidate, shape: ModelShape, place: str) -> None:
    try:
        text = piece.raw.decode()
    except UnicodeDecodeError:
        text = ""
    if piece.text != text:
        raise _refused("disagrees", f"{place}.text", "expected the text of the token's bytes")
    _check_range(f"{place}.id", piece.id, 0, (shape.vocab_size or _EXACT_INT) - 1)


def _check_traces(record: RunRecord) -> None:
    """Steps count on from the first token, which prefill gives, and so do their stamps: figures and cursors rely on it."""
    read, origin = record.prefill, record.origin
    if read is None:
        if record.steps:
            raise _refused("order", "$.steps", "steps without prefill")
    else:
        _check_reading(record, read)
    if origin is not None and origin.index > len(record.generated):
        raise _refused("disagrees", "$.origin.index", f"expected at most {len(record.generated):,}")
    stamp_s = read.at_s if read is not None else 0.0
    for number, step in enumerate(record.steps, start=1):
        place = f"$.steps[{number - 1}]"
        if step.index != number:
            raise _refused("order", place, f"index {step.index}; expected {number}")
        if step.at_s < stamp_s:
            raise _refused("order", f"{place}.at_s", "earlier than the token before it")
        stamp_s = step.at_s
        _check_range(f"{place}.forward_s", step.forward_s, SECONDS_LEAST, SECONDS_MOST)
        _check_chances(record, step, number, place)


def _check_reading(record: RunRecord, read: PrefillTrace) -> None:
    """As many tokens as there are, at least one, read in a time to divide by."""
    _check_range("$.prefill.prompt_tokens", read.prompt_tokens, 1, TOKENS_MOST)
    _check_range("$.prefill.prefill_s", read.prefill_s, SECONDS_LEAST, SECONDS_MOST)
    if read.prompt_tokens != len(record.tokens):
        raise _refused("disagrees", "$.prefill.prompt_tokens", f"{read.prompt_tokens}; expected {len(record.tokens)}, as many as `tokens`")
    if len(read.layer_s) > record.model.shape.num_hidden_layers:
        raise _refused("disagrees", "$.prefill.layer_s", f"expected at most {record.model.shape.num_hidden_layers} layers")
    _check_chances(record, read, 0, "$.prefill")


def _check_chances(record: RunRecord, trace: PrefillTrace | DecodeStep, index: int, place: str) -> None:
    """What every generated token comes with: candidates, the notes after it and what memory was read."""
    if trace.kv_tokens > len(record.tokens) + index:
        raise _refused("disagrees", f"{place}.kv_tokens", f"expected at most {len(record.tokens) + index}")
    _check_length(f"{place}.candidates", trace.candidates, ENTRIES_MOST)
    _check_range(f"{place}.drawn", trace.drawn or 0, 0, 1)
    missing = trace.memory.missing if trace.memory is not None else {}
    _check_length(f"{place}.memory.missing", missing, SOURCES_MOST)
    for word in (*missing, *missing.values()):
        _check_length(f"{place}.memory.missing", word, WORD_MOST)
    for number, candidate in enumerate(trace.candidates):
        if max(candidate.probability, candidate.drawn_from) > _CERTAIN:
            raise _refused("range", f"{place}.candidates[{number}]", "expected probabilities from 0 to 1", low=0, high=1)
        _check_piece(candidate, record.model.shape, f"{place}.candidates[{number}]")
