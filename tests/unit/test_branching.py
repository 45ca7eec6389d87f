"""What a branch's record says: the fork's own token among its candidates, everything else as it was; and answers written by force."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest
import torch

from engine import LoadedModel, Run, RunRecord, StopReason
from engine.errors import OutOfRange, StagesUnavailable
from engine.generate import forking
from engine.generate.sampling import as_scores
from engine.generate.stepper import Stepper
from engine.measure.clock import Clock
from engine.measure.latency import worked_s
from engine.stem import branch_settings, stem_of
from tests.branches import ANSWER, DRAWN, FOREIGN, OPEN, finished, forced_to, read_ids, started, written
from tests.prompts import prompt_of
from tests.reference import ids_of, uncached_logits

Tiny = Callable[..., LoadedModel]


class Ticks:
    """A clock on which one second passes with every look; `at` may be moved."""

    def __init__(self) -> None:
        self.at = 0.0

    def read(self) -> float:
        self.at += 1.0
        return self.at


def timed(model: LoadedModel, ticks: Ticks, tokens: int = 20) -> Run:
    """A finished run: submitted at 0, first id at 4; a step takes 4 s and its start is 1 s after the id before."""
    run = Run(model, prompt_of(model, tokens), OPEN, submitted_at=0.0, clock=Clock(torch.device("cpu"), ticks.read))
    list(run.decode())
    return run


def assert_adds_up(run: Run) -> None:
    """From the first id to the last all time is latency or pause."""
    steps = run.record().steps
    assert sum(step.itl_s + step.paused_s for step in steps) == pytest.approx(steps[-1].at_s - run.prefill().at_s)


@pytest.mark.parametrize("index", [0, 1, 5])
def test_a_stem_is_what_both_runs_share(tiny: Tiny, index: int) -> None:
    run = finished(tiny(), 20)
    record = run.record()
    stem = stem_of(record, index, FOREIGN, "r1")
    assert (stem.run_id, stem.index, stem.token_id) == ("r1", index, FOREIGN)
    assert stem.instead_of == record.generated[index]
    assert stem.read_ids == ids_of(record.tokens) + written(run)[:index]
    assert stem.newest == [run.prefill(), *record.steps][index]
    parts = run.prefill().template_s + run.prefill().tokenize_s + run.prefill().prefill_s + run.prefill().sample_s
    assert worked_s(stem.prefill, stem.steps) == pytest.approx(parts + sum(step.busy_s for step in record.steps[:index]))


def test_a_branch_has_power_again() -> None:
    assert branch_settings(dataclasses.replace(DRAWN, power_cut_at=3)) == DRAWN


@pytest.mark.parametrize("index", [0, 6])
def test_the_rewritten_trace_keeps_times_and_candidates(tiny: Tiny, index: int) -> None:
    parent = finished(tiny(), 20)
    branch = parent.branch(index, FOREIGN)
    old, new = ([run.prefill(), *run.record().steps][index] for run in (parent, branch))
    assert branch.newest == new
    for field in dataclasses.fields(old):
        assert field.name in ("token", "first", "candidates", "chosen_by") or getattr(new, field.name) == getattr(old, field.name)
    assert [one for one in new.candidates if one.id != FOREIGN] == list(old.candidates)
    (added,) = [one for one in new.candidates if one.id == FOREIGN]
    logits = uncached_logits(parent.model, read_ids(parent))[19 + index].double()
    assert added.probability == pytest.approx(logits.softmax(-1)[FOREIGN].item(), rel=1e-4)
    fresh = forced_to(parent, index, FOREIGN)
    (same,) = [one for one in [fresh.prefill(), *fresh.record().steps][index].candidates if one.id == FOREIGN]
    assert (added.probability, added.drawn_from) == pytest.approx((same.probability, same.drawn_from))
    likely = [one.probability for one in new.candidates]
    assert likely == sorted(likely, reverse=True)


def test_a_candidate_that_was_offered_is_not_added_again(tiny: Tiny) -> None:
    parent = finished(tiny(), 20)
    offered = parent.record().steps[2].candidates
    for one in offered:
        assert parent.branch(3, one.id).record().steps[-1].candidates == offered


def test_a_model_that_does_not_show_its_scores_is_asked_once_more(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    parent = finished(tiny("gemma3"), 70)
    expected = parent.branch(5, FOREIGN).record().steps[-1].candidates

    def refuse(self: Stepper, index: int) -> torch.Tensor:
        raise StagesUnavailable(reason="head")

    monkeypatch.setattr(Stepper, "logits", refuse)
    branch = parent.branch(5, FOREIGN)
    assert [one.id for one in branch.record().steps[-1].candidates] == [one.id for one in expected]
    for one, other in zip(branch.record().steps[-1].candidates, expected, strict=True):
        assert one.probability == pytest.approx(other.probability, rel=1e-4)
    list(branch.decode())
    assert written(branch) == written(forced_to(parent, 5, FOREIGN))


def test_a_candidates_shares_are_those_of_the_whole_distribution(tiny: Tiny) -> None:
    model = tiny()
    scores = as_scores(uncached_logits(model, [5, 6, 7])[-1])
    expected = torch.tensor(scores).double().softmax(-1)
    for id in (0, 77, int(scores.argmax())):
        candidate = forking._candidate(scores, id, model, OPEN)
        assert candidate.probability == pytest.approx(expected[id].item())
        assert candidate.drawn_from == float(id == scores.argmax())


@pytest.mark.parametrize(
    ("index", "token_id", "field"), [(ANSWER, 5, "index"), (-1, 5, "index"), (3, 10_000, "token_id"), (3, -1, "token_id")]
)
def test_what_cannot_be_branched_is_named(tiny: Tiny, index: int, token_id: int, field: str) -> None:
    parent = finished(tiny(), 20)
    with pytest.raises(OutOfRange) as caught:
        parent.branch(index, token_id)
    assert caught.value.params["field"] == field
    assert (parent.stop_reason, parent.error) == (StopReason.LENGTH, None)


def test_nothing_to_branch_before_the_first_token(tiny: Tiny) -> None:
    with pytest.raises(OutOfRange):
        Run(tiny(), "the cat", OPEN).branch(0, 5)


def test_the_record_of_a_branch_is_whole(tiny: Tiny) -> None:
    parent = finished(tiny(), 20)
    branch = parent.branch(4, FOREIGN)
    for _ in range(2):  # as it begins, and when it has ended
        record = branch.record()
        assert RunRecord.from_json(record.to_json()) == record
        assert record.origin is not None
        assert (record.origin.index, record.origin.instead_of) == (4, parent.record().generated[4])
        assert (record.prefill, record.steps[:3]) == (parent.prefill(), parent.record().steps[:3])
        assert [token.position for token in (*record.tokens, *record.generated)] == list(range(len(record.tokens) + len(record.generated)))
        list(branch.decode())
    assert parent.record().origin is None


def test_forced_tokens_are_written_whatever_the_sampler_says(tiny: Tiny) -> None:
    model = tiny()
    free, forced = started(model, 20), Run(model, prompt_of(model, 20), DRAWN, forced=(FOREIGN, 5, FOREIGN))
    list(free.decode())
    list(forced.decode())
    assert written(forced)[:3] == [FOREIGN, 5, FOREIGN]
    traces = [forced.prefill(), *forced.record().steps]
    assert [trace.drawn for trace in traces] == [trace.drawn for trace in (free.prefill(), *free.record().steps)]
    assert all(any(one.id == id for one in trace.candidates) for trace, id in zip(traces, written(forced), strict=True))
    for id in (-1, model.shape.vocab_size):
        with pytest.raises(OutOfRange):
            Run(model, "the cat", forced=(5, id))


def chosen_by(run: Run | RunRecord) -> list[str]:
    record = run.record() if isinstance(run, Run) else run
    assert record.prefill is not None
    return [record.prefill.chosen_by, *(step.chosen_by for step in record.steps)]


def test_who_chose_a_token_is_kept(tiny: Tiny) -> None:
    """The sampler; whoever forces it; the reader at each fork, however many branches lie one behind the other."""
    forced = Run(tiny(), prompt_of(tiny(), 20), DRAWN, forced=(FOREIGN, 5))
    list(forced.decode())
    assert chosen_by(forced) == ["forced", "forced"] + ["sampler"] * (ANSWER - 2)
    middle = forced.branch(4, FOREIGN)
    assert chosen_by(middle) == ["forced", "forced", "sampler", "sampler", "reader"]
    list(middle.decode())
    last = middle.branch(7, FOREIGN)
    list(last.decode())
    by = ["forced", "forced", "sampler", "sampler", "reader", "sampler", "sampler", "reader", *["sampler"] * (ANSWER - 8)]
    assert chosen_by(last) == chosen_by(RunRecord.from_json(last.record().to_json())) == by
    first = Run.revive(last.model, last.prompt, DRAWN, stem_of(last.record(), 0, 5, ""))
    list(first.decode())
    assert chosen_by(first) == ["reader"] + ["sampler"] * (ANSWER - 1)
    assert chosen_by(finished(tiny(), 20)) == ["sampler"] * ANSWER


def test_a_reader_who_writes_what_the_sampler_would_has_chosen_all_the_same(tiny: Tiny) -> None:
    parent = finished(tiny(), 20)
    assert chosen_by(parent.branch(3, written(parent)[3])) == ["sampler", "sampler", "sampler", "reader"]


def test_any_answer_can_be_had_by_force(tiny: Tiny) -> None:
    """Chinese and an emoji, whose characters are several tokens each."""
    model = tiny()
    ids = model.tokenizer("桌子🤗橘", add_special_tokens=False)["input_ids"]
    run = Run(model, "the cat", dataclasses.replace(OPEN, max_new_tokens=len(ids)), forced=ids)
    list(run.decode())
    assert b"".join(token.raw for token in run.record().generated).decode() == "桌子🤗橘"


def test_the_time_from_the_fork_to_the_click_is_the_readers(tiny: Tiny) -> None:
    ticks = Ticks()
    parent = timed(tiny(), ticks)
    forked_at = parent.record().steps[3].at_s
    ticks.at = 1000.0
    branch = parent.branch(4, FOREIGN)  # asked at 1001
    assert branch.newest is not None
    assert branch.newest.at_s == forked_at
    ticks.at = 1005.0  # a second of taking over, three of waiting for a turn, and the look that follows
    step = next(branch.decode())
    assert (step.gap_s, step.paused_s, step.waited_s, step.busy_s) == (1006.0 - forked_at, 1002.0 - forked_at, 4.0, 4.0)
    assert (step.itl_s, step.at_s) == (8.0, 1010.0)
    assert next(branch.decode()).gap_s == 1.0
    assert_adds_up(branch)
    assert_adds_up(parent)


def test_reading_once_more_is_neither_work_nor_waiting(tiny: Tiny) -> None:
    ticks = Ticks()
    parent = timed(tiny("gemma3"), ticks, 70)
    forked_at = parent.record().steps[3].at_s
    ticks.at = 1000.0
    branch = parent.branch(4, FOREIGN)  # asked at 1001, taken over from 1002 on, read from 1003 on
    assert branch.origin is not None
    assert branch.origin.reread_s == 5.0  # four looks on the way, and the last
    assert branch.newest == dataclasses.replace(
        parent.record().steps[3],
        token=branch.record().generated[4],
        candidates=branch.newest.candidates,  # type: ignore[union-attr]
        chosen_by="reader",
    )
    step = next(branch.decode())
    assert (step.gap_s, step.paused_s, step.waited_s) == (1010.0 - forked_at, 1001.0 - forked_at + 7.0, 2.0)
    assert_adds_up(branch)


def test_a_pause_and_a_wait_before_the_first_step_of_a_branch(tiny: Tiny) -> None:
    """`submitted_at` lies before the call: what lies between was waiting, but for what the reader held back."""
    ticks = Ticks()
    parent = timed(tiny(), ticks)
    forked_at = parent.record().steps[3].at_s
    ticks.at = 2000.0
    stem = stem_of(parent.record(), 4, FOREIGN, "")
    branch = Run.revive(parent.model, parent.prompt, parent.settings, stem, submitted_at=1500.0, parent=parent)
    branch.note_pause(30.0)
    step = next(branch.decode())
    assert (step.gap_s, step.paused_s, step.waited_s) == (2003.0 - forked_at, 1531.0 - forked_at, 472.0)


def test_without_the_other_run_the_clock_goes_on_from_the_fork(tiny: Tiny) -> None:
    """Nobody knows how long ago that was: a branch of a record has no pause before its click."""
    ticks = Ticks()
    parent = timed(tiny(), ticks)
    forked_at = parent.record().steps[3].at_s
    stem = stem_of(parent.record(), 4, FOREIGN, "")
    ticks.at = 50_000.0
    clock = Clock(torch.device("cpu"), ticks.read)
    branch = Run.revive(parent.model, parent.prompt, parent.settings, stem, submitted_at=50_000.0, clock=clock)
    step = next(branch.decode())
    assert branch.origin is not None
    assert (step.paused_s, step.waited_s, step.busy_s) == (branch.origin.reread_s + 2.0, 2.0, 4.0)
    assert step.at_s == forked_at + step.itl_s + step.paused_s
    assert_adds_up(branch)


def test_time_that_was_worked_before_the_fork_counts_for_the_bell(tiny: Tiny) -> None:
    """Prefill 2 s (and what tokenizing took), 4 s a step: a limit of 19 s lets five tokens be written by each."""
    ticks = Ticks()
    parent = timed(tiny(), ticks)
    parent.settings = dataclasses.replace(OPEN, time_limit_s=19.0)
    for index in (0, 2, 4, 5):
        branch = parent.branch(index, FOREIGN)
        list(branch.decode())
        assert (branch.stop_reason, len(branch.record().generated)) == (StopReason.TIMEOUT, 6)
