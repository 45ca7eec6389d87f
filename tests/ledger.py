"""A book of runs, written into by hand: short words for what the engine would tell of a run."""

from __future__ import annotations

import msgspec

from engine import codec
from engine.serve.book import Book, Entry
from engine.serve.protocol import Message, Prefilled, StatusChanged, Stepped, Submit, Tokenized
from engine.stem import stem_of
from engine.trace import RunSettings, RunStatus, StopReason
from tests.samples import INFO, PREFILL, step, token


def command(run_id: str, play: bool = True) -> Submit:
    return Submit(run_id, "s", "m", "cpu", "why?", RunSettings(max_new_tokens=9), play)


def tell(book: Book, message: Message) -> None:
    """As the keeper does: with the engine's own JSON."""
    book.apply(message, codec.dump(message).decode())


def end(book: Book, run_id: str) -> None:
    tell(book, StatusChanged(run_id, RunStatus.ENDED, StopReason.LENGTH))


def written(book: Book, run_id: str, steps: int) -> Entry:
    """A run that has written its first token and so many more."""
    entry = book.add(command(run_id), "key")
    tell(book, Tokenized(run_id, INFO, (token(0), token(1), token(2))))
    tell(book, Prefilled(run_id, PREFILL))
    for index in range(1, steps + 1):
        tell(book, Stepped(run_id, step(index)))
    return entry


def branch(book: Book, left: Entry, run_id: str, index: int) -> Entry:
    stem = stem_of(left.snapshot(), index, 7, left.command.run_id)
    return book.add(msgspec.structs.replace(command(run_id), stem=stem), "key", left)
