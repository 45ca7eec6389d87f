"""The work of a step without notes, against sums that must come out by theory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from engine import LoadedModel
from engine.errors import UnsupportedConfig
from engine.measure import flops
from engine.measure.reading import step_reads
from engine.trace import ModelInfo, RunSettings, RunStatus, RunView
from tests.samples import INFO
from ui import numbers
from ui.sections import without

Tiny = Callable[..., LoadedModel]


@pytest.mark.parametrize("kind", ["llama", "gemma3"])
def test_all_steps_with_notes_are_one_reading_of_everything_but_for_the_head(tiny: Tiny, kind: str) -> None:
    info = tiny(kind).info
    work = without.work_until(info, 7, 30)
    assert work.context == 37
    assert work.with_notes == flops.prefill_flops(info, 37) + 30 * 2 * info.head_parameters
    assert work.without == sum(flops.prefill_flops(info, context) for context in range(7, 38))


def test_the_first_token_costs_the_same_with_and_without(tiny: Tiny) -> None:
    work = without.work_until(tiny().info, 7, 0)
    assert work.with_notes == work.without
    assert without.work_of(tiny().info, 1).factor == 1, "one token behind nothing is one pass over one token"


def test_the_factor_grows_towards_the_number_of_tokens() -> None:
    """Where the body outweighs head and attention, n tokens are n times the work of one."""
    info = replace(INFO, body_parameters=10**9, head_parameters=1)
    assert without.work_of(info, 500).factor == pytest.approx(500, rel=1e-3)


def test_a_model_that_does_not_tell_is_not_guessed() -> None:
    with pytest.raises(UnsupportedConfig):
        without.work_of(INFO, 5)


@pytest.mark.parametrize(("factor", "words"), [(1.0, "1.0"), (9.96, "10.0"), (27.94, "28"), (1234.5, "1,234")])
def test_factors_in_words(factor: float, words: str) -> None:
    assert without.times(factor) == words


def view_with(info: ModelInfo) -> RunView:
    return RunView("r", "", RunSettings(), "m", "", RunStatus.ENDED, model=info)


def test_what_the_pictures_are_given_adds_up_to_what_a_step_reads() -> None:
    shape = replace(INFO.shape, layer_windows=(None, 4))
    info = replace(INFO, shape=shape, body_parameters=100, head_parameters=20, dtype_bytes=2)
    given = numbers.reading_formula(view_with(info))
    assert given["weights_read_bytes"] == 240
    assert given["windows"] == [None, 4]
    for context in (1, 3, 4, 5, 40):
        notes = sum(min(context, window or context) for window in given["windows"]) * given["layer_token_bytes"]
        assert notes == step_reads(info, context).notes_bytes


def test_of_a_model_that_does_not_tell_what_it_reads_nothing_is_said() -> None:
    latent = replace(INFO, shape=replace(INFO.shape, kv_lora_rank=6, qk_rope_head_dim=2))
    assert "weights_read_bytes" not in numbers.reading_formula(view_with(latent))
    assert numbers.reading_formula(view_with(latent)) == numbers.notes_formula(view_with(latent)) != {}
