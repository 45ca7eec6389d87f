"""A record as CSV: one row for each generated token, for spreadsheets and notebooks.

Knows a record's fields and what a spreadsheet takes for a formula; does not know where the file goes. Column names are no reader's
words but field names, the same in every language.
"""

from __future__ import annotations

import csv
import io

from engine.trace import DecodeStep, PrefillTrace, RunRecord, Token

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "|", "%", "\uff1d", "\uff0b", "\uff0d", "\uff20")  # the last four: full width
COLUMNS = (
    *("index", "position", "id", "text", "bytes_hex", "special", "chosen_by", "at_s", "itl_s", "busy_s", "waited_s", "paused_s"),
    *("forward_s", "sample_s", "kv_tokens", "kv_bytes", "probability"),
)


def sheet(record: RunRecord) -> str:
    """The whole file, with a byte order mark, without which some spreadsheets take UTF-8 for something else. Times in seconds, sizes in
    bytes; what a token has not (the first one has no ITL) is empty."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(COLUMNS)
    if record.prefill is not None:
        writer.writerow(_first(record.prefill))
    writer.writerows(_step(step) for step in record.steps)
    return "\ufeff" + out.getvalue()


def harmless(text: str) -> str:
    """A text as a cell that no spreadsheet works out: what might begin a formula gets an apostrophe before it."""
    return f"'{text}" if text.lstrip(" \u00a0").startswith(FORMULA) or text.startswith("'") else text


def _token(index: int, token: Token) -> list[object]:
    return [index, token.position, token.id, harmless(token.text), token.raw.hex(" ").upper(), int(token.special)]


def _first(read: PrefillTrace) -> list[object]:
    times = ["", "", "", read.paused_s, read.prefill_s, read.sample_s]
    notes = [read.kv_tokens, read.kv_bytes, _chance(read)]
    return [*_token(0, read.first), read.chosen_by, read.at_s, *times, *notes]


def _step(step: DecodeStep) -> list[object]:
    times = [step.itl_s, step.busy_s, step.waited_s, step.paused_s, step.forward_s, step.sample_s]
    return [*_token(step.index, step.token), step.chosen_by, step.at_s, *times, step.kv_tokens, step.kv_bytes, _chance(step)]


def _chance(trace: PrefillTrace | DecodeStep) -> object:
    """The model's own probability of the token that was written, where it is among the candidates."""
    token = trace.first if isinstance(trace, PrefillTrace) else trace.token
    return next((one.probability for one in trace.candidates if one.id == token.id), "")
