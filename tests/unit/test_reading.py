"""Bytes that a step has to read, against sums over the layers written out by hand and the tensors of a real cache."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from engine import LoadedModel, Run, RunSettings
from engine.errors import InvalidSetting, UnsupportedConfig
from engine.measure.reading import StepReads, step_reads, tokens_read
from engine.model.shape import ModelShape
from tests.prompts import prompt_of

Tiny = Callable[..., LoadedModel]
SHAPE = ModelShape("llama", 3, 32, 4, 2, 8, 100, 1024, (None, 5, None))


def by_hand(shape: ModelShape, context: int, dtype_bytes: int) -> int:
    """One key and one value after the other: for each layer, KV head and token that the newest one sees."""
    total = 0
    for window in shape.layer_windows:
        for position in range(context):
            if window is None or context - 1 - position < window:
                total += 2 * shape.num_key_value_heads * shape.head_dim * dtype_bytes
    return total


@pytest.mark.parametrize("windows", [(None, None, None), (5, 5, 5), (None, 5, 1), (40, 12, None)])
@pytest.mark.parametrize("context", [1, 2, 4, 5, 6, 40, 41])
@pytest.mark.parametrize("dtype_bytes", [2, 4])
def test_notes_written_out(tiny: Tiny, windows: tuple[int | None, ...], context: int, dtype_bytes: int) -> None:
    shape = replace(SHAPE, layer_windows=windows)
    info = replace(tiny().info, shape=shape, dtype_bytes=dtype_bytes)
    assert step_reads(info, context).notes_bytes == by_hand(shape, context, dtype_bytes)


def test_smollm2_by_hand(tiny: Tiny) -> None:
    """134,515,008 numbers of 2 bytes; 30 layers, 3 KV heads of 64, keys and values: 23,040 B a token."""
    shape = ModelShape("llama", 30, 576, 9, 3, 64, 49152, 8192, (None,) * 30)
    info = replace(tiny().info, shape=shape, dtype_bytes=2, body_parameters=106_203_456, head_parameters=28_311_552)
    assert step_reads(info, 100) == StepReads(269_030_016, 2_304_000)


def test_query_heads_read_together(tiny: Tiny) -> None:
    """Notes that four query heads share are read once, not four times."""
    info = replace(tiny().info, shape=replace(SHAPE, num_attention_heads=8))
    assert step_reads(info, 7) == step_reads(replace(info, shape=SHAPE), 7)


@pytest.mark.parametrize("kind", ["llama", "qwen3", "gemma3", "gpt2"])
@pytest.mark.parametrize("tokens", [20, 90])
def test_what_a_real_step_reads(tiny: Tiny, kind: str, tokens: int) -> None:
    """The cache after the step, and in a full window the one token that the step has pushed out again."""
    model = tiny(kind)
    run = Run(model, prompt_of(model, tokens), RunSettings(max_new_tokens=3, use_chat_template=False, ignore_eos=True))
    width = 2 * model.shape.num_key_value_heads * model.shape.head_dim * 4
    for step in run.decode():
        pushed_out = sum(width for window in model.shape.layer_windows if window is not None and step.kv_tokens >= window)
        assert step_reads(model.info, step.kv_tokens).notes_bytes == step.kv_bytes + pushed_out


@pytest.mark.parametrize("kind", ["llama", "qwen3", "gpt2", "gemma3"])
def test_weights_are_read_once_without_tables_that_are_looked_up(tiny: Tiny, kind: str) -> None:
    """A table of words that is the output head as well is read as that."""
    model = tiny(kind)
    embeddings, head = model.model.get_input_embeddings().weight, model.model.get_output_embeddings().weight
    places = sum(one.numel() for name, one in model.model.named_parameters() if "wpe" in name)
    every = sum(one.numel() for one in model.model.parameters())
    assert step_reads(model.info, 5).weights_bytes == 4 * (every - places - (0 if embeddings is head else embeddings.numel()))


def test_weights_that_were_not_counted_are_all_read(tiny: Tiny) -> None:
    info = replace(tiny().info, body_parameters=0, weight_bytes=4321)
    assert step_reads(info, 5).weights_bytes == 4321


def test_what_the_numbers_do_not_tell_is_refused(tiny: Tiny) -> None:
    info = tiny().info
    for context in (0, -1):
        with pytest.raises(InvalidSetting):
            step_reads(info, context)
    for shape in (replace(SHAPE, kv_lora_rank=16, qk_rope_head_dim=8), replace(SHAPE, layer_windows=(None, None))):
        with pytest.raises(UnsupportedConfig):
            step_reads(replace(info, shape=shape), 5)
        with pytest.raises(UnsupportedConfig):
            tokens_read(shape, 5)
