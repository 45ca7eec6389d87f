"""The work of a step without notes, against sums that must come out by theory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from engine import LoadedModel
from engine.errors import UnsupportedConfig
from engine.measure import flops
from engine.trace import ModelInfo
from tests.samples import INFO
from ui.sections import step, without

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


def test_a_step_reads_the_weights_that_it_multiplies_with() -> None:
    info: ModelInfo = replace(INFO, body_parameters=100, head_parameters=20, dtype_bytes=2, weight_bytes=999)
    assert step.read_bytes(info) == 240
    assert step.read_bytes(replace(info, body_parameters=0, head_parameters=0)) == 999, "not counted: all there are"
