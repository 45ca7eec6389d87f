"""What is said of two records: their own work is compared, waiting is told apart, and what differs can be seen."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine import codec
from engine.trace import RunRecord
from tests.app.visit import bring, go_to, open_app, words_of
from tests.hostile_files import GOOD
from ui import comparing, i18n, numbers, state

RECORD = codec.load_record(GOOD)


def queued(seconds: float) -> RunRecord:
    """The same run, which had to stand in a queue, and waited for others before each of its tokens."""
    assert RECORD.prefill is not None
    steps = tuple(replace(step, gap_s=seconds, paused_s=0.0, at_s=step.at_s + seconds * (step.index + 1)) for step in RECORD.steps)
    return replace(RECORD, prefill=replace(RECORD.prefill, queue_s=seconds, at_s=RECORD.prefill.at_s + seconds), steps=steps)


def test_a_runs_own_work_is_without_queue_and_turns_of_others() -> None:
    read = RECORD.prefill
    assert read is not None
    for record in (RECORD, queued(5.0)):
        assert comparing.work_s(record, "ttft") == pytest.approx(read.template_s + read.tokenize_s + read.prefill_s + read.sample_s)
        assert comparing.work_s(record, "tpot") == pytest.approx(sum(step.busy_s for step in RECORD.steps) / len(RECORD.steps))
    assert comparing.work_s(replace(RECORD, steps=()), "tpot") is None
    assert comparing.work_s(replace(RECORD, prefill=None, steps=()), "ttft") is None


@pytest.mark.usefixtures("engine_process")
@pytest.mark.parametrize("language", i18n.LANGUAGES)
def test_who_only_waited_longer_was_not_slower(language: str) -> None:
    app = go_to(open_app(language), "records")
    bring(app, queued(0.0).to_json().encode())
    bring(app, queued(5.0).to_json().encode())
    app.button_group(key=state.PICKED_RECORDS).set_value([1, 2]).run()
    assert not app.exception, app.exception
    said = words_of(app)
    for name in ("ttft", "tpot"):
        time = numbers.milliseconds(comparing.work_s(RECORD, name))
        assert i18n.text(language, f"records.{name}_alike", fast="#1", slow="#2", a=time, b=time) in said
    waited = {"queue": numbers.milliseconds(5.0), "waited": numbers.milliseconds(5.0 * len(RECORD.steps))}
    assert i18n.text(language, "records.left_out", name="#2", **waited) in said
    beginning = i18n.text(language, "records.left_out", name="#1", **waited).split("#1")[0] + "#1"
    assert beginning not in said, "that one had not to wait"


LONG = "the same words again and again and again and again and again and again "


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        (("short", "other"), ["short", "other"]),
        ((LONG + "cat", LONG + "dog"), ["again cat", "again dog"]),
        (("a b", "a  b"), ["a·b", "a··b"]),
    ],
)
def test_what_differs_is_seen(values: tuple[str, str], shown: list[str]) -> None:
    said = comparing.parting(values)
    assert len(set(said)) == 2
    assert [words[-5:] for words in said] == [words[-5:] for words in shown]
    assert all(len(words) <= comparing.SAID_MOST + 1 for words in said)


def test_three_long_values_all_differ() -> None:
    values = (LONG + "cat" + LONG, LONG + "dog" + LONG, "something else")
    said = comparing.parting(values)
    assert len(set(said)) == 3
    assert "cat" in said[0]
    assert said[0].startswith("…")
    assert said[0].endswith("…")
