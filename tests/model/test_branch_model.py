"""Branches of the real SmolLM2 in float32: tokens, scores and maps against a run forced to the same prefix."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine import LoadedModel, Run, RunSettings, StopReason
from engine.stem import stem_of
from tests.branches import assert_equal, forced_to, passes, read_ids, written
from tests.reference import greedy_ids

PROMPT = "Name three colours and say what each one is good for."
SETTINGS = RunSettings(max_new_tokens=8, ignore_eos=True)


@pytest.fixture(scope="module")
def parent(smollm2: LoadedModel) -> Run:
    run = Run(smollm2, PROMPT, SETTINGS)
    list(run.decode())
    return run


@pytest.mark.parametrize(("index", "again"), [(0, False), (4, True)], ids=["taken over", "read again"])
def test_a_branch_is_what_the_model_goes_on_to_say(parent: Run, index: int, again: bool) -> None:
    """The second likeliest token at that place; what follows is also what transformers' own generate writes after it."""
    second = [parent.prefill(), *parent.record().steps][index].candidates[1].id
    stem = stem_of(parent.record(), index, second, "")
    branch = Run.revive(parent.model, PROMPT, SETTINGS, stem) if again else parent.branch(index, second)
    assert branch.origin is not None
    assert (branch.origin.reread_s is not None) == again
    begun = [token.id for token in branch.tokens] + written(branch)
    list(branch.decode())
    assert_equal(branch, forced_to(parent, index, second))
    assert written(branch)[index + 1 :][:3] == greedy_ids(parent.model, begun, 3)


def test_drawn_numbers_go_on_where_they_stood(smollm2: LoadedModel) -> None:
    settings = RunSettings(max_new_tokens=6, temperature=1.0, top_p=0.95, top_k=50, seed=3, ignore_eos=True)
    parent = Run(smollm2, PROMPT, settings)
    list(parent.decode())
    foreign = smollm2.tokenizer("Z", add_special_tokens=False)["input_ids"][0]
    branch = parent.branch(2, foreign)
    list(branch.decode())
    assert_equal(branch, forced_to(parent, 2, foreign))


def test_the_end_token_ends_a_branch(parent: Run) -> None:
    polite = Run(parent.model, PROMPT, RunSettings(max_new_tokens=4), forced=written(parent)[:4])
    list(polite.decode())
    branch = polite.branch(2, parent.model.info.eos_ids[0])
    assert list(branch.decode()) == []
    assert branch.stop_reason is StopReason.EOS


def test_taking_over_reads_nothing(parent: Run) -> None:
    """What it costs in time is a figure of tests.bench."""
    with passes(parent.model) as lengths:
        parent.branch(5, 5)
    assert lengths == []


def test_a_power_cut_and_the_run_after_it(parent: Run) -> None:
    cut = Run(parent.model, PROMPT, replace(SETTINGS, power_cut_at=5))
    list(cut.decode())
    assert cut.stop_reason is StopReason.OUT_OF_MEMORY
    assert written(cut) == written(parent)[:5]
    assert cut._live_stepper().cache.tokens() == len(read_ids(cut))
    branch = cut.branch(4, written(parent)[4])
    list(branch.decode())
    assert_equal(branch, parent)
