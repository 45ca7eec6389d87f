"""A glance is the newest row of the map of means, at hand at once or not at all."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from engine import LoadedModel, Run, RunSettings
from engine.errors import RunFreed
from engine.generate.rereading import Rereading
from tests.prompts import prompt_of
from tests.reference import eager_attention, ids_of

Tiny = Callable[..., LoadedModel]
KINDS = ["llama", "qwen2", "qwen3", "gemma3", "gpt2"]
SETTINGS = RunSettings(max_new_tokens=6, use_chat_template=False, ignore_eos=True)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tokens", [1, 40, 62, 63, 64, 65, 130])
def test_a_glance_is_the_newest_row_of_the_map(tiny: Tiny, kind: str, tokens: int) -> None:
    """gemma3 has a window of 64 in two of its three layers."""
    run = Run(tiny(kind), prompt_of(tiny(kind), tokens), SETTINGS)
    run.prefill()
    steps = iter(run.decode())
    for read in range(tokens, tokens + 6):
        row = run.glance()
        assert row is not None
        assert (row.dtype, row.shape) == (np.float32, (read,))
        assert row.sum() == pytest.approx(1, abs=1e-5)
        assert row == pytest.approx(run.attention(None, None, rows=1)[0], abs=1e-6)
        next(steps, None)


@pytest.mark.parametrize("kind", KINDS)
def test_against_transformers_own_attention(tiny: Tiny, kind: str) -> None:
    run = Run(tiny(kind), prompt_of(tiny(kind), 90), SETTINGS)
    list(run.decode())
    ids = [*ids_of(run.tokens), *ids_of(run.record().generated)][:-1]
    row = run.glance()
    assert row is not None
    assert row == pytest.approx(eager_attention(tiny(kind), ids)[:, :, -1].mean((0, 1)), abs=1e-5)


def test_glances_at_every_step_keep_nothing_and_change_nothing(tiny: Tiny) -> None:
    plain, watched = (Run(tiny("gemma3"), prompt_of(tiny("gemma3"), 70), SETTINGS) for _ in range(2))
    steps = list(plain.decode())
    for step, expected in zip(watched.decode(), steps, strict=True):
        watched.glance()
        assert (step.token, step.recorded_bytes, step.kv_bytes) == (expected.token, expected.recorded_bytes, expected.kv_bytes)
    assert np.array_equal(watched.attention(1, 2), plain.attention(1, 2))


def test_a_branch_has_glances(tiny: Tiny) -> None:
    run = Run(tiny(), prompt_of(tiny(), 30), SETTINGS)
    list(run.decode())
    branch = run.branch(2, 7)
    for _ in branch.decode():
        assert branch.glance() == pytest.approx(branch.attention(None, None, rows=1)[0], abs=1e-6)


def test_no_glance_without_a_map_at_hand(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object) -> None:
        raise AssertionError("a glance must not read anything once more")

    monkeypatch.setattr(Rereading, "_read", refuse)
    off = RunSettings(max_new_tokens=3, use_chat_template=False, capture_attention=False)
    full = RunSettings(max_new_tokens=3, use_chat_template=False, recording_limit_bytes=0)
    for settings in (off, full):
        run = Run(tiny(), "the cat", settings)
        assert run.glance() is None, "nothing has been read"
        list(run.decode())
        assert run.glance() is None


def test_freed(tiny: Tiny) -> None:
    run = Run(tiny(), "the cat", SETTINGS)
    run.prefill()
    run.free()
    with pytest.raises(RunFreed):
        run.glance()
