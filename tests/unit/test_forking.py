"""Branches: their memory, tokens and scores against a fresh run that is forced to the same prefix, and against one pass without a cache."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from engine import LoadedModel, Run, RunRecord, RunSettings, StopReason
from engine.errors import OutOfMemory, RunFreed
from engine.generate.stepper import Stepper
from engine.kv.sizes import kv_bytes
from engine.stem import stem_of
from tests.branches import ANSWER, DRAWN, FOREIGN, KINDS, OPEN, assert_equal, finished, forced_to, passes, started, written

Tiny = Callable[..., LoadedModel]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tokens", [20, 60, 90], ids=["before", "across", "past"])  # gemma3's window of 64
@pytest.mark.parametrize("index", [0, 4, ANSWER - 1])
def test_a_branch_goes_on_as_a_run_forced_to_the_same_prefix(tiny: Tiny, kind: str, tokens: int, index: int) -> None:
    parent = finished(tiny(kind), tokens)
    branch = parent.branch(index, FOREIGN)
    assert written(branch) == [*written(parent)[:index], FOREIGN]
    list(branch.decode())
    assert branch.stop_reason is StopReason.LENGTH
    assert_equal(branch, forced_to(parent, index, FOREIGN))


@pytest.mark.parametrize("settings", [OPEN, replace(DRAWN, top_k=3, temperature=2.5, seed=8)], ids=["greedy", "wild"])
def test_whatever_the_settings(tiny: Tiny, settings: RunSettings) -> None:
    parent = finished(tiny("qwen3"), 20, settings)
    branch = parent.branch(5, FOREIGN)
    list(branch.decode())
    assert_equal(branch, forced_to(parent, 5, FOREIGN))


def test_a_branch_that_writes_the_same_token_becomes_the_same_answer(tiny: Tiny) -> None:
    parent = finished(tiny(), 20)
    branch = parent.branch(5, written(parent)[5])
    list(branch.decode())
    assert written(branch) == written(parent)
    assert branch.record().steps[4] == replace(parent.record().steps[4], chosen_by="reader")


@pytest.mark.parametrize("kind", ["llama", "gemma3"])
def test_the_run_that_is_left_goes_on_as_if_nothing_had_happened(tiny: Tiny, kind: str) -> None:
    alone, parent = finished(tiny(kind), 40), started(tiny(kind), 40)
    steps = parent.decode()
    for _ in range(6):
        next(steps)
    branches = [parent.branch(index, FOREIGN) for index in (6, 3, 0)]
    list(branches[0].decode())
    next(branches[1].decode())
    list(steps)
    assert_equal(parent, alone)
    for index, branch in zip((6, 3, 0), branches, strict=True):
        list(branch.decode())
        assert_equal(branch, forced_to(alone, index, FOREIGN))
    assert_equal(parent, alone)


@pytest.mark.parametrize("tokens", [20, 90])
def test_a_branch_of_a_branch(tiny: Tiny, tokens: int) -> None:
    parent = finished(tiny("gemma3"), tokens)
    middle = parent.branch(7, FOREIGN)
    list(middle.decode())
    for index in (3, 7, 9):  # before the first fork, at it and behind it
        branch = middle.branch(index, FOREIGN + 1)
        list(branch.decode())
        assert_equal(branch, forced_to(middle, index, FOREIGN + 1))
        assert branch.origin is not None
        assert branch.origin.instead_of.id == written(middle)[index]


@pytest.mark.parametrize(
    ("tokens", "index", "again"), [(20, 4, False), (50, 4, False), (51, 4, False), (90, 4, True), (90, ANSWER - 1, False)]
)
def test_all_is_read_again_only_where_a_window_has_forgotten(tiny: Tiny, tokens: int, index: int, again: bool) -> None:
    """A window of 64 keeps 63 between two steps; 12 tokens written are 11 read: 52 of the prompt are one too many for an earlier fork."""
    origin = finished(tiny("gemma3"), tokens).branch(index, FOREIGN).origin
    assert origin is not None
    assert (origin.reread_s is not None) == again
    if again:
        assert origin.reread_s is not None
        assert origin.reread_s > 0


def test_one_token_too_many_for_the_window(tiny: Tiny) -> None:
    for tokens, again in ((52, False), (53, True)):
        origin = finished(tiny("gemma3"), tokens).branch(1, FOREIGN).origin
        assert origin is not None
        assert (origin.reread_s is not None) == again


@pytest.mark.parametrize("kind", ["llama", "gemma3"])
@pytest.mark.parametrize("index", [0, 4, ANSWER - 1])
@pytest.mark.parametrize("known", [False, True], ids=["nobody", "freed"])
def test_a_freed_run_is_left_by_reading_once_more(tiny: Tiny, kind: str, index: int, known: bool) -> None:
    parent = finished(tiny(kind), 70)
    record = parent.record()
    other = forced_to(parent, index, FOREIGN)
    parent.free()
    with pytest.raises(RunFreed):
        parent.branch(index, FOREIGN)
    stem = stem_of(RunRecord.from_json(record.to_json()), index, FOREIGN, "r1")
    branch = Run.revive(parent.model, parent.prompt, parent.settings, stem, parent=parent if known else None)
    assert branch.origin is not None
    assert (branch.origin.run_id, branch.origin.index, branch.origin.instead_of) == ("r1", index, record.generated[index])
    assert branch.origin.reread_s is not None
    list(branch.decode())
    assert_equal(branch, other)


def test_notes_of_another_model_or_another_text_are_not_taken_over(tiny: Tiny) -> None:
    model = tiny()
    parent, stranger = finished(model, 20), started(model, 21)
    stem = stem_of(parent.record(), 3, FOREIGN, "")
    for left in (replace_model(parent), stranger):
        branch = Run.revive(model, parent.prompt, parent.settings, stem, parent=left)
        assert branch.origin is not None
        assert branch.origin.reread_s is not None
        list(branch.decode())
        assert_equal(branch, forced_to(parent, 3, FOREIGN))


def replace_model(run: Run) -> Run:
    """The same run of the same model, loaded a second time."""
    other = finished(replace(run.model), len(run.tokens))
    assert written(other) == written(run)
    return other


@pytest.mark.parametrize("again", [False, True], ids=["taken over", "read again"])
def test_guesses_of_the_layers_come_along(tiny: Tiny, again: bool) -> None:
    parent = finished(tiny("gemma3"), 70)
    branch = parent.branch(3 if again else ANSWER - 1, FOREIGN)
    assert branch.origin is not None
    assert (branch.origin.reread_s is not None) == again
    assert branch.lens() == parent.lens()


def test_a_branch_that_finds_no_memory_says_so_and_harms_nobody(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    parent = finished(tiny("gemma3"), 90)

    def refuse(*given: object) -> None:
        torch.empty(2**60, dtype=torch.uint8)

    with monkeypatch.context() as patched:
        patched.setattr(Stepper, "reread", refuse)
        with pytest.raises(OutOfMemory):
            parent.branch(3, FOREIGN)
    branch = parent.branch(3, FOREIGN)
    list(branch.decode())
    assert_equal(branch, forced_to(parent, 3, FOREIGN))


def test_a_branch_holds_its_own_tokens_only(tiny: Tiny) -> None:
    """Bytes are those of its tokens at once, and nothing of the other run's is kept alive, before it grows and after."""
    parent = finished(tiny(), 40, replace(DRAWN, max_new_tokens=60))
    parent.attention(0)  # joins what was recorded in its first layer
    branch = parent.branch(2, FOREIGN)
    shape = branch.model.shape
    assert branch.kv_bytes() == kv_bytes(shape, tokens=42, dtype_bytes=4)
    recorded = 42 * shape.num_hidden_layers * shape.num_attention_heads * shape.head_dim * 4
    assert branch.record().steps[-1].recorded_bytes == recorded
    for tokens in (42, 43):
        stepper = branch._live_stepper()
        assert stepper.recorder is not None
        assert stored_bytes(*(layer.keys for layer in stepper.cache._layers)) * 2 == stepper.cache.bytes() == branch.kv_bytes()
        blocks = [block for rows in stepper.recorder._layers.values() for block in rows.queries]
        assert stored_bytes(*blocks) == stepper.recorder.recorded_bytes() == recorded // 42 * tokens
        heads = stored_bytes(*stepper.heads)
        assert heads == len(stepper.heads) * shape.hidden_size * 4
        assert branch.held_bytes() >= branch.kv_bytes() + recorded // 42 * tokens + heads
        next(branch.decode())


def stored_bytes(*tensors: torch.Tensor) -> int:
    """Of the storages that these tensors keep alive, each once."""
    return sum({one.untyped_storage().data_ptr(): one.untyped_storage().nbytes() for one in tensors}.values())


def test_a_branch_of_what_was_read_again_keeps_its_own_heads_only(tiny: Tiny) -> None:
    parent = finished(tiny(), 20)
    again = Run.revive(parent.model, parent.prompt, DRAWN, stem_of(parent.record(), 9, FOREIGN, ""))
    stepper = again.branch(2, FOREIGN)._live_stepper()
    assert stored_bytes(*stepper.heads) == 3 * parent.model.shape.hidden_size * 4


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("index", [0, 4, ANSWER - 1])
def test_taking_over_reads_nothing(tiny: Tiny, kind: str, index: int) -> None:
    """No pass, which is what a branch costs where all is read again: the prompt, then the answer."""
    parent = finished(tiny(kind), 20)
    with passes(parent.model) as lengths:
        parent.branch(index, FOREIGN)
        assert lengths == []
        Run.revive(parent.model, parent.prompt, DRAWN, stem_of(parent.record(), index, FOREIGN, ""))
        assert lengths == [20, index][: 2 if index else 1]


@pytest.mark.parametrize("kind", ["llama", "gemma3"])
def test_a_full_recorder_stays_full_and_maps_are_still_right(tiny: Tiny, kind: str) -> None:
    parent = finished(tiny(kind), 30, replace(DRAWN, recording_limit_bytes=0))
    branch = parent.branch(4, FOREIGN)
    list(branch.decode())
    assert branch.record().steps[-1].recorded_bytes == 0
    assert_equal(branch, forced_to(parent, 4, FOREIGN))


def test_without_capture_a_branch_records_nothing_either(tiny: Tiny) -> None:
    branch = finished(tiny(), 20, replace(DRAWN, capture_attention=False)).branch(4, FOREIGN)
    assert branch.origin is not None
    assert branch.origin.reread_s is None
    assert [step.recorded_bytes for step in branch.decode()] == [0] * 7
