"""The shelf: every finished run of this session as a frozen record, those brought as files among them.

Knows the session's runs and the engine's client; does not know how records are drawn or written (ui.sections, ui.spreadsheet, ui.handout).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from engine import codec
from engine.errors import EngineError
from engine.trace import RunRecord, RunStatus, RunView, weight
from ui import resources, state

MOST = 30  # records; the oldest go first
MOST_WEIGHT = 180_000  # tokens and candidates over all of them; about 50 MB
EXAMPLES_DIR = Path(__file__).resolve().parent.parent / "assets" / "records"
EXAMPLES = ("smollm2_en", "gemma_zh")  # files <name, with a dash>.json, made by tests.shipped_records
RECORDS, COUNT, OPEN = "records", "count", "open"


@dataclass(frozen=True, slots=True)
class Filed:
    """One record on the shelf. `number` counts those of the session from 1; `run_id`, `key`: the run it is shown as, as long as the client
    has it; `recording`: it came from a file; `size_bytes`: as JSON, counted once, when it is filed."""

    number: int
    run_id: str
    key: str | None
    record: RunRecord
    recording: bool = False
    size_bytes: int = 0

    @property
    def weight(self) -> int:
        return weight(self.record.tokens, self.record.prefill, *self.record.steps)

    @property
    def name(self) -> str:
        return f"#{self.number}"


def records() -> tuple[Filed, ...]:
    """All that is on the shelf, the newest first."""
    found: tuple[Filed, ...] = state.shelf().get(RECORDS, ())
    return found


def numbered(number: int | None) -> Filed | None:
    return next((one for one in records() if one.number == number), None)


def collect() -> None:
    """File the runs of this session that have ended since the last picture. Once in every script run: a record leaves the client's book
    some time. A run that was refused before it had a model has nothing to be kept."""
    current, waiting = state.run_id(), state.shelf()[OPEN]
    if current is not None and state.run_key() is not None:  # found again by its address
        waiting.setdefault(current, state.run_key())
    for run_id, key in list(waiting.items()):
        view = resources.engine().view(run_id)
        if view is None or view.status == RunStatus.ENDED:
            del waiting[run_id]
        if view is not None and (record := record_of(view)) is not None and not any(one.run_id == run_id for one in records()):
            _put(run_id, key, record, recording=view.recording)


def record_of(view: RunView) -> RunRecord | None:
    """A run that has ended as it is kept; None for one that has not, and for one without a model."""
    if view.status != RunStatus.ENDED or view.model is None:
        return None
    said = (view.prompt, view.settings, view.model, view.created, view.tokens, view.prefill, view.steps, view.stop_reason, view.error)
    return RunRecord(*said, origin=view.origin)


def _put(run_id: str, key: str | None, record: RunRecord, *, recording: bool) -> Filed:
    """The newest on the shelf; the oldest leave as long as there are too many."""
    shelf = state.shelf()
    shelf[COUNT] = shelf.get(COUNT, 0) + 1
    filed = Filed(shelf[COUNT], run_id, key, record, recording, len(codec.dump(record)))
    kept = [filed, *records()][:MOST]
    while len(kept) > 1 and sum(one.weight for one in kept) > MOST_WEIGHT:
        kept.pop()
    shelf[RECORDS] = tuple(kept)
    return filed


def take(data: bytes) -> Filed:
    """A record that was brought as a file: on the shelf, and a run of the client's book. Raises RecordInvalid, TooManyRuns; nothing has
    changed then."""
    record = codec.load_record(data)
    known = next((one for one in records() if one.record == record), None)
    if known is not None:
        return known
    run_id, key = _played(record)
    return _put(run_id, key, record, recording=True)


def open_again(number: int) -> None:
    """Record `number` becomes the run of all pages: its own run where the client still has it, else a recording of it. For callbacks; a
    refusal becomes the notice of the next picture."""
    filed = numbered(number)
    if filed is None:
        return
    try:
        filed = _standing(filed)
    except EngineError as error:
        state.notify(error.info)
        return
    current = state.current_view()
    if current is not None and current.status != RunStatus.ENDED and current.run_id != filed.run_id and state.may_steer():
        state.steer("stop")  # one pen at a time; what it has written comes on the shelf
    state.adopt(filed.run_id, filed.key or "", filed.record.prompt)


def _standing(filed: Filed) -> Filed:
    """The record with a run that the client has: a new recording of it where the old one has left the book; where the
    record comes from stays as it was. Raises TooManyRuns."""
    if resources.engine().view(filed.run_id) is not None:
        return filed
    run_id, key = _played(filed.record)
    again = replace(filed, run_id=run_id, key=key)
    state.shelf()[RECORDS] = tuple(again if one.number == filed.number else one for one in records())
    return again


def _played(record: RunRecord) -> tuple[str, str]:
    return resources.engine().file_record(record, session=state.session_id(), device=str(state.get(state.DEVICE)))


def replay_example(name: str) -> None:
    """One of the recordings that came with the app becomes the run of all pages, with no model at all. For callbacks."""
    try:
        filed = take((EXAMPLES_DIR / f"{name.replace('_', '-')}.json").read_bytes())
    except EngineError as error:
        state.notify(error.info)
        return
    open_again(filed.number)
