"""Who holds the memory, through AppTest: each line's number, source and tag; an honest word where a source told nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from streamlit.testing.v1 import AppTest

from engine.trace import ModelInfo, RunSettings, RunStatus, RunView
from engine.usage import MemoryReading
from tests.app.visit import ask, go_to, open_app, view_of, words_of
from tests.samples import INFO, PREFILL, step
from ui import i18n, numbers, resources
from ui.sections.memory import Share, reading_at, shares

pytestmark = pytest.mark.usefixtures("engine_process")
MIB = 1024**2


def at_marks(language: str = "en") -> tuple[AppTest, RunView]:
    app = open_app(language)
    run = ask(app)
    go_to(app, "marks")
    assert not app.exception, app.exception
    return app, run


def lines(app: AppTest) -> str:
    """All that the section says, bars included."""
    return "\n".join(str(part.proto.body) for part in app.get("html")) + words_of(app)


def shown_as(app: AppTest, monkeypatch: pytest.MonkeyPatch, change: Callable[[RunView], RunView]) -> str:
    """The page, with its run as `change` makes it."""
    changed = change(view_of(app))
    monkeypatch.setattr(resources.engine(), "view", lambda run_id: changed)
    app.run()
    assert not app.exception, app.exception
    return lines(app)


@pytest.mark.parametrize("language", i18n.LANGUAGES)
def test_every_owner_has_a_number_a_source_and_a_tag(language: str) -> None:
    app, run = at_marks(language)
    said = lines(app)
    assert run.model is not None
    for name in ("weights", "notes", "queries", "rest", "others", "from_tensors", "from_resident", "from_system"):
        assert i18n.text(language, f"memory.{name}") in said, name
    newest = run.steps[-1]
    for size in (run.model.weight_bytes, newest.kv_bytes, newest.recorded_bytes):
        assert numbers.mebibytes(size) in said
    at, found = reading_at(run, len(run.steps))
    assert found is not None, "the first token's reading is there in any case"
    rest, others = shares(run.model, newest, found)[3:]
    assert rest.size_bytes is not None
    assert others.size_bytes is not None
    assert numbers.mebibytes(rest.size_bytes) in said
    assert numbers.mebibytes(others.size_bytes) in said
    assert rest.size_bytes + run.model.weight_bytes + found[0].kv_bytes + found[0].recorded_bytes == found[1].process_bytes
    assert i18n.text(language, "memory.unavailable") not in said
    assert i18n.text(language, "shell.measured") in said
    assert i18n.text(language, "memory.untimed") in said
    assert at <= len(run.steps)


def test_the_cursor_shows_the_memory_of_its_step(monkeypatch: pytest.MonkeyPatch) -> None:
    app, run = at_marks()
    app.session_state["cursor"] = 1
    app.run()
    assert not app.exception
    assert numbers.mebibytes(run.steps[0].kv_bytes) in lines(app)
    app.session_state["cursor"] = 0
    app.run()
    assert i18n.text("en", "memory.read_first") in lines(app)


def test_while_the_pen_moves_the_list_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    app, _ = at_marks()
    said = shown_as(app, monkeypatch, lambda run: replace(run, status=RunStatus.RUNNING, stop_reason=None))
    assert i18n.text("en", "memory.moving") in said
    assert i18n.text("en", "memory.from_tensors") not in said


def test_before_the_first_token_there_is_nothing_to_list(monkeypatch: pytest.MonkeyPatch) -> None:
    app, _ = at_marks()
    said = shown_as(app, monkeypatch, lambda run: replace(run, prefill=None, steps=()))
    assert i18n.text("en", "memory.none") in said


def test_an_old_record_says_that_nothing_was_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def older(run: RunView) -> RunView:
        assert run.prefill is not None
        steps = tuple(replace(step, memory=None) for step in run.steps)
        return replace(run, prefill=replace(run.prefill, memory=None), steps=steps)

    app, run = at_marks()
    said = shown_as(app, monkeypatch, older)
    assert said.count(i18n.text("en", "memory.missing_unread")) == 2
    assert numbers.mebibytes(run.steps[-1].kv_bytes) in said


@pytest.mark.parametrize("language", i18n.LANGUAGES)
def test_a_card_that_tells_nothing_says_why(language: str, monkeypatch: pytest.MonkeyPatch) -> None:
    app, _ = at_marks(language)
    for word in ("no_library", "no_driver", "no_card", "hidden", "not_supported", "not_told", "process_hidden", "failed"):
        reading = MemoryReading(process_bytes=5, missing={"nvml": word, "torch": "failed"})

        def on_card(run: RunView, reading: MemoryReading = reading) -> RunView:
            assert run.prefill is not None
            assert run.model is not None
            return replace(
                run, model=replace(run.model, device="cuda:0"), prefill=replace(run.prefill, memory=reading),
                steps=tuple(replace(step, memory=None) for step in run.steps),
            )  # fmt: skip

        with monkeypatch.context() as patch:
            said = shown_as(app, patch, on_card)
        assert i18n.text(language, f"memory.missing_{word}") in said, word
        assert i18n.text(language, "memory.missing_failed") in said
        assert i18n.text(language, "memory.unavailable") in said


def test_a_reason_out_of_a_file_is_shown_literally(monkeypatch: pytest.MonkeyPatch) -> None:
    hostile = "<script>$x$ :red[y]"

    def imported(run: RunView) -> RunView:
        reading = MemoryReading(missing={"process": hostile})
        return replace(run, steps=(*run.steps[:-1], replace(run.steps[-1], memory=reading)))

    app, _ = at_marks()
    assert f"` {hostile} `" in shown_as(app, monkeypatch, imported)


def cuda(reading: MemoryReading) -> tuple[Share, ...]:
    info = replace(INFO, device="cuda:1", weight_bytes=40 * MIB)
    return shares(info, PREFILL, (PREFILL, reading))[3:]


def told(share: Share) -> tuple[int | None, str, str]:
    return share.size_bytes, share.source, share.why


def test_on_a_card_the_parts_add_up_to_what_is_in_use() -> None:
    whole = MemoryReading(
        process_bytes=1, system_used_bytes=9, reserved_bytes=90 * MIB, device_used_bytes=500 * MIB, device_process_bytes=200 * MIB
    )
    rest, others = cuda(whole)
    assert told(rest) == (160 * MIB - PREFILL.kv_bytes, "nvml", "")
    assert told(others) == (300 * MIB, "nvml", "")
    assert 40 * MIB + PREFILL.kv_bytes + rest.size_bytes + others.size_bytes == whole.device_used_bytes
    assert rest.evidence == others.evidence == "computed"


def test_without_the_driver_the_allocator_tells_the_rest() -> None:
    rest, others = cuda(MemoryReading(reserved_bytes=90 * MIB, device_used_bytes=500 * MIB, missing={"nvml": "process_hidden"}))
    assert told(rest) == (50 * MIB - PREFILL.kv_bytes, "torch", "")
    assert told(others) == (None, "nvml", "process_hidden")


def test_on_apple_others_cannot_be_told() -> None:
    info = replace(INFO, device="mps", weight_bytes=40 * MIB)
    rest, others = shares(info, PREFILL, (PREFILL, MemoryReading(1, 5, 9, 60 * MIB, 70 * MIB)))[3:]
    assert told(rest) == (30 * MIB - PREFILL.kv_bytes, "torch", "")
    assert told(others) == (None, "system", "shared")


def test_less_than_nothing_is_not_shown() -> None:
    def on_cpu(info: ModelInfo, reading: MemoryReading) -> list[tuple[int | None, str, str]]:
        return [told(share) for share in shares(info, PREFILL, (PREFILL, reading))[3:]]

    swapped = MemoryReading(process_bytes=20, system_used_bytes=10)
    assert on_cpu(INFO, swapped) == [(None, "resident", "elsewhere"), (None, "system", "elsewhere")]
    half = MemoryReading(process_bytes=1000, missing={"system": "failed"})
    assert on_cpu(INFO, half) == [(1000 - INFO.weight_bytes - PREFILL.kv_bytes, "resident", ""), (None, "system", "failed")]
    assert on_cpu(INFO, MemoryReading()) == [(None, "resident", "not_told"), (None, "system", "not_told")]


def test_pages_of_files_are_not_taken_off_what_never_counted_them() -> None:
    """Weights are mapped from their file: the process has them, what the system calls in use has not. Older readings cannot tell."""
    new = MemoryReading(process_bytes=900 * MIB, process_shared_bytes=600 * MIB, system_used_bytes=1000 * MIB)
    assert told(shares(INFO, PREFILL, (PREFILL, new))[4]) == (700 * MIB, "system", "")
    low = replace(new, system_used_bytes=500 * MIB)
    assert told(shares(INFO, PREFILL, (PREFILL, low))[4]) == (200 * MIB, "system", "")
    assert told(shares(INFO, PREFILL, (PREFILL, replace(new, process_shared_bytes=None)))[4]) == (100 * MIB, "system", "")
    assert shares(INFO, PREFILL, (PREFILL, new))[3].whole_bytes == 900 * MIB, "its own share is all that it has"


def test_the_newest_reading_before_the_cursor_counts() -> None:
    first, second = MemoryReading(process_bytes=1), MemoryReading(process_bytes=2)
    steps = tuple(replace(step(index), memory=second if index == 3 else None) for index in range(1, 6))
    made = RunView("r" * 22, "q", RunSettings(), "m", "2026-01-01T10:00:00+01:00", RunStatus.ENDED, INFO)
    run = replace(made, prefill=replace(PREFILL, memory=first), steps=steps)
    assert [reading_at(run, at)[0] for at in range(6)] == [0, 0, 0, 3, 3, 3]
    assert [reading_at(run, at)[1][1] for at in (2, 5)] == [first, second]
    assert reading_at(replace(run, prefill=PREFILL), 2) == (0, None)
