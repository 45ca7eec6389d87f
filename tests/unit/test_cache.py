"""The live cache: bytes against the formula, cells against the model's own tensors, failures undone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from transformers.cache_utils import DynamicLayer

from engine import LoadedModel, Run, RunSettings
from engine.errors import OutOfRange, RunFreed, UnsupportedConfig
from engine.kv.cache import LiveCache
from engine.kv.sizes import kv_bytes
from engine.model.owned import owned
from tests.prompts import prompt_of
from tests.reference import ids_of, uncached_logits

Tiny = Callable[..., LoadedModel]
KINDS = ["llama", "qwen2", "qwen3", "gpt2", "gemma3"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tokens", [20, 62, 100])
def test_measured_bytes_equal_the_formula_at_every_step(tiny: Tiny, kind: str, tokens: int) -> None:
    """Per layer min(tokens, window − 1) once the pass is over: a sliding layer keeps what the next token may still see."""
    model = tiny(kind)
    run = Run(model, prompt_of(model, tokens), RunSettings(max_new_tokens=6, use_chat_template=False, ignore_eos=True))
    traces = [run.prefill(), *run.decode()]
    width = 2 * model.shape.num_key_value_heads * model.shape.head_dim * 4
    for index, trace in enumerate(traces):
        count = tokens + index
        assert trace.kv_tokens == count
        assert trace.kv_bytes == sum(width * (count if window is None else min(count, window - 1)) for window in model.shape.layer_windows)
        assert trace.kv_bytes == kv_bytes(model.shape, tokens=count, dtype_bytes=4, between_steps=True)
    assert run.kv_bytes() == traces[-1].kv_bytes


@pytest.mark.parametrize("kind", KINDS)
def test_cached_logits_equal_uncached_ones(tiny: Tiny, kind: str) -> None:
    model = tiny(kind)
    ids = ids_of(Run(model, prompt_of(model, 90), RunSettings(use_chat_template=False)).tokens)
    whole = uncached_logits(model, ids)
    cache = LiveCache(model.model)
    with torch.inference_mode():
        rows = [cache.forward(torch.tensor([ids[:70]]))] + [cache.forward(torch.tensor([[one]])) for one in ids[70:]]
    assert (torch.stack(rows) - whole[69:]).abs().max() <= 1e-4
    assert cache.tokens() == 90


def test_three_runs_do_not_share_a_cache(tiny: Tiny) -> None:
    model = tiny()
    for _ in range(3):
        run = Run(model, "the cat sat", RunSettings(max_new_tokens=5, ignore_eos=True))
        steps = list(run.decode())
        assert steps[-1].kv_tokens == len(run.tokens) + 5 - 1


def test_cell_is_the_key_and_value_of_that_token(tiny: Tiny) -> None:
    model = tiny("qwen3")
    run = Run(model, prompt_of(model, 12), RunSettings(max_new_tokens=3, use_chat_template=False, ignore_eos=True))
    list(run.decode())
    with torch.inference_mode():
        ids = ids_of(run.tokens) + ids_of(run.record().generated)[:-1]
        layers = model.model(torch.tensor([ids]), use_cache=True).cache.layers
    for layer, position in ((0, 0), (1, 7), (2, 13)):
        expected = torch.stack((layers[layer].keys[0, :, position], layers[layer].values[0, :, position])).numpy()
        cell = run.cell(layer, position)
        assert cell.dtype == np.float32
        assert cell.shape == (2, 2, 16)
        assert np.allclose(cell, expected, atol=1e-5)


@pytest.mark.parametrize(("layer", "position"), [(3, 0), (-1, 0), (0, 14), (0, -1)])
def test_cells_that_are_not_there(tiny: Tiny, layer: int, position: int) -> None:
    model = tiny("qwen3")
    run = Run(model, prompt_of(model, 14), RunSettings(max_new_tokens=1, use_chat_template=False))
    run.prefill()
    with pytest.raises(OutOfRange):
        run.cell(layer, position)


def test_a_sliding_layer_says_what_it_has_forgotten(tiny: Tiny) -> None:
    model = tiny("gemma3")
    run = Run(model, prompt_of(model, 100), RunSettings(max_new_tokens=3, use_chat_template=False, ignore_eos=True))
    list(run.decode())  # 102 tokens read; a sliding layer keeps the last 63
    recorded = run._live_stepper().recorder
    assert recorded is not None
    assert np.array_equal(run.cell(0, 39)[0], recorded.keys(0)[:, 39].numpy())
    assert np.array_equal(run.cell(0, 101)[0], recorded.keys(0)[:, 101].numpy())
    with pytest.raises(OutOfRange):
        run.cell(0, 38)
    assert run.cell(2, 0).shape == (2, 2, 16)


@pytest.mark.parametrize("kind", ["llama", "gemma3"])
@pytest.mark.parametrize("tokens", [20, 63, 100])
@pytest.mark.parametrize("layer", [0, 1, 2])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("new", [1, 80])
def test_a_failed_pass_leaves_the_cache_as_it_was(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch, kind: str, tokens: int, layer: int, when: str, new: int
) -> None:
    model = tiny(kind)
    ids = ids_of(Run(model, prompt_of(model, tokens), RunSettings(use_chat_template=False)).tokens)
    cache = LiveCache(model.model)
    with torch.inference_mode():
        cache.forward(torch.tensor([ids]))
        ends = [(tokens - cache._layers[n].keys.shape[2], tokens - 1) for n in range(3)]  # what each layer holds
        cells = [[cache.cell(n, position) for position in ends[n]] for n in range(3)]
        _fail_in(monkeypatch, cache, layer, when)
        with pytest.raises(MemoryError):
            cache.forward(torch.tensor([[5] * new]))
    assert cache.tokens() == tokens
    for n in range(3):
        assert cache._layers[n].get_seq_length() == tokens
        assert np.array_equal([cache.cell(n, position) for position in ends[n]], cells[n])
    assert cache.bytes() == kv_bytes(model.shape, tokens=tokens, dtype_bytes=4, between_steps=True)
    monkeypatch.undo()
    with torch.inference_mode():
        again = cache.forward(torch.tensor([[5] * new]))
    assert (again - uncached_logits(model, [*ids, *[5] * new])[-1]).abs().max() <= 1e-4


def _fail_in(monkeypatch: pytest.MonkeyPatch, cache: LiveCache, layer: int, when: str) -> None:
    broken = cache._layers[layer]
    update = broken.update

    def fail(*args: object, **kwargs: object) -> None:
        if when == "after":
            update(*args, **kwargs)
        raise MemoryError

    monkeypatch.setattr(broken, "update", fail)


def test_a_failed_prompt_leaves_nothing(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = LiveCache(tiny().model)
    _fail_in(monkeypatch, cache, 2, "after")
    with torch.inference_mode(), pytest.raises(MemoryError):
        cache.forward(torch.tensor([[5, 6, 7]]))
    assert (cache.tokens(), cache.bytes()) == (0, 0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tokens", [1, 30, 69, 70])
def test_a_fork_goes_on_as_if_it_had_read_no_more(tiny: Tiny, kind: str, tokens: int) -> None:
    """70 tokens read one by one: a window of 64 has forgotten what any fork but the last one would need."""
    model = tiny(kind)
    ids = ids_of(Run(model, prompt_of(model, 70), RunSettings(use_chat_template=False)).tokens)
    cache = LiveCache(model.model)
    with torch.inference_mode():
        cache.forward(torch.tensor([ids[:40]]))
        for one in ids[40:]:
            cache.forward(torch.tensor([[one]]))
        fork = cache.fork(tokens)
        assert (fork is None) == (kind == "gemma3" and tokens < 70)
        if fork is None:
            return
        assert fork.tokens() == tokens
        assert fork.bytes() == kv_bytes(model.shape, tokens=tokens, dtype_bytes=4, between_steps=True)
        logits = fork.forward(torch.tensor([[5, 6]]))
        assert (logits - uncached_logits(model, [*ids[:tokens], 5, 6])[-1]).abs().max() <= 1e-4
        logits = cache.forward(torch.tensor([[7]]))
        assert (logits - uncached_logits(model, [*ids, 7])[-1]).abs().max() <= 1e-4
    assert (fork.tokens(), cache.tokens()) == (tokens + 2, 71)


def stored_bytes(cache: LiveCache) -> int:
    """Of the storages that its tensors keep alive, each once."""
    held = [tensor.untyped_storage() for layer in cache._layers for tensor in (layer.keys, layer.values)]
    return sum({storage.data_ptr(): storage.nbytes() for storage in held}.values())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("read", [40, 100])
def test_a_prompt_keeps_no_more_alive_than_its_notes(tiny: Tiny, kind: str, read: int) -> None:
    """A window is cut out of all that was read, which must not stay behind it."""
    cache = LiveCache(tiny(kind).model)
    with torch.inference_mode():
        cache.forward(torch.tensor([[5] * read]))
        assert stored_bytes(cache) == cache.bytes() == kv_bytes(tiny(kind).shape, tokens=read, dtype_bytes=4, between_steps=True)
        cache.forward(torch.tensor([[6]]))
    pushed_out = sum(2 * 2 * 16 * 4 for window in tiny(kind).shape.layer_windows if window is not None and read >= window)
    assert stored_bytes(cache) == cache.bytes() + pushed_out


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("read", "tokens"), [(40, 1), (40, 12), (40, 41), (100, 100), (100, 101)])
def test_a_fork_that_never_grows_keeps_its_own_tokens_alive_and_no_others(tiny: Tiny, kind: str, read: int, tokens: int) -> None:
    """The other run may be gone long since."""
    cache = LiveCache(tiny(kind).model)
    with torch.inference_mode():
        cache.forward(torch.tensor([[5] * read]))
        cache.forward(torch.tensor([[6]]))
        fork = cache.fork(tokens)
    if kind == "gemma3" and tokens < read + 1 and read >= 63:
        assert fork is None
        return
    assert fork is not None
    assert stored_bytes(fork) == fork.bytes() == kv_bytes(tiny(kind).shape, tokens=tokens, dtype_bytes=4, between_steps=True)


def test_a_window_that_cannot_be_cut_out_fails_like_the_pass_itself(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    cache, calls = LiveCache(tiny("gemma3").model), []

    def refuse(tensor: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        if len(calls) > 2:
            raise MemoryError
        return owned(tensor)

    with torch.inference_mode():
        cache.forward(torch.tensor([list(range(5, 75))]))
        cells = [cache.cell(0, position) for position in range(7, 70)]
        monkeypatch.setattr("engine.kv.cache.owned", refuse)
        with pytest.raises(MemoryError):
            cache.forward(torch.tensor([[5] * 9]))
        monkeypatch.undo()
        assert cache.tokens() == 70
        assert np.array_equal([cache.cell(0, position) for position in range(7, 70)], cells)
        logits = cache.forward(torch.tensor([[7]]))
    assert (logits - uncached_logits(tiny("gemma3"), [*range(5, 75), 7])[-1]).abs().max() <= 1e-4


@pytest.mark.parametrize("read", [62, 63])
def test_a_window_that_is_not_full_forgets_nothing(tiny: Tiny, read: int) -> None:
    model = tiny("gemma3")
    ids = ids_of(Run(model, prompt_of(model, read), RunSettings(use_chat_template=False)).tokens)
    cache = LiveCache(model.model)
    with torch.inference_mode():
        cache.forward(torch.tensor([ids]))
        fork = cache.fork(10)
        assert fork is not None
        logits = fork.forward(torch.tensor([[5]]))
    assert (logits - uncached_logits(model, [*ids[:10], 5])[-1]).abs().max() <= 1e-4
    assert np.array_equal(fork.cell(0, 9), cache.cell(0, 9))


def test_a_cache_of_another_kind_is_refused(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    class Other(DynamicLayer):
        pass

    from transformers import cache_utils

    monkeypatch.setitem(cache_utils.DYNAMIC_LAYER_TYPE_MAPPING, "full_attention", Other)
    with pytest.raises(UnsupportedConfig):
        LiveCache(tiny().model)


def test_free_drops_the_cache(tiny: Tiny) -> None:
    run = Run(tiny(), "the cat")
    assert run.kv_bytes() == 0
    run.prefill()
    assert run.kv_bytes() > 0
    run.free()
    for ask in (run.kv_bytes, lambda: run.cell(0, 0)):
        with pytest.raises(RunFreed):
            ask()
