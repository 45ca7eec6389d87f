"""Looks into attention: means, windows of rows and links against eager attention, whether queries were kept or are read once more."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from engine import LoadedModel, Run, RunSettings
from engine.errors import AttentionUnavailable, OutOfRange, RunFreed
from engine.model.attention import LayerStates
from tests.kept import HEADS, KINDS, LAYERS, finished, read_ids
from tests.reference import eager_attention

Tiny = Callable[..., LoadedModel]


@pytest.fixture(scope="module", params=KINDS)
def model(request: pytest.FixtureRequest, tiny: Tiny) -> LoadedModel:
    return tiny(request.param)


@pytest.fixture(scope="module", params=["all", "some", "none"])
def looked_into(request: pytest.FixtureRequest, model: LoadedModel) -> tuple[Run, np.ndarray]:
    """A finished run and the eager maps [layers, heads, queries, keys] of all that it has read."""
    run = finished(model, request.param)
    return run, eager_attention(model, read_ids(run))


def expected_map(eager: np.ndarray, layer: int | None, head: int | None) -> np.ndarray:
    chosen = eager if layer is None else eager[layer : layer + 1]
    return (chosen if head is None else chosen[:, head : head + 1]).mean((0, 1))


@pytest.mark.parametrize("layer", [None, 0, 1, 2])
@pytest.mark.parametrize("head", [None, 0, 3])
def test_every_mean_equals_eager_attention(looked_into: tuple[Run, np.ndarray], layer: int | None, head: int | None) -> None:
    run, eager = looked_into
    seen, expected = run.attention(layer, head), expected_map(eager, layer, head)
    assert seen.dtype == np.float32
    assert seen.shape == expected.shape  # n × n, however often a token comes again; the answer's rows among them
    assert np.abs(seen - expected).max() <= 1e-5
    assert np.allclose(seen.sum(1), 1, atol=1e-5)
    assert not np.triu(seen, 1).any()


@pytest.mark.parametrize("layer", [None, 0, 2])
@pytest.mark.parametrize("head", [None, 1])
def test_any_window_shows_the_numbers_of_the_whole_map(looked_into: tuple[Run, np.ndarray], layer: int | None, head: int | None) -> None:
    run, _ = looked_into
    whole = run.attention(layer, head)
    kept = run.record().steps[-1].recorded_bytes > 0
    for until in (1, 2, 63, 64, 65, 100, len(whole) - 1, len(whole)):
        for rows in (None, 1, 30, 64, 10_000):
            first = 0 if rows is None else max(until - rows, 0)
            seen = run.attention(layer, head, rows, until)
            if kept:  # else a pass over fewer tokens may round differently
                assert np.array_equal(seen, whole[first:until, :until])
            assert np.abs(seen - whole[first:until, :until]).max() <= 1e-6


def test_every_link_equals_eager_attention(looked_into: tuple[Run, np.ndarray]) -> None:
    run, eager = looked_into
    newest = eager.shape[2] - 1
    for query, key in ((0, 0), (1, 0), (63, 0), (64, 0), (64, 1), (90, 88), (newest, 0), (newest, 40), (newest, newest)):
        seen = run.links(query, key)
        assert seen.dtype == np.float32
        assert seen.shape == (LAYERS, HEADS)
        assert np.abs(seen - eager[:, :, query, key]).max() <= 1e-5


def test_the_strongest_heads_are_those_of_eager_attention(looked_into: tuple[Run, np.ndarray]) -> None:
    run, eager = looked_into
    seen, expected = run.links(100, 97).ravel(), eager[:, :, 100, 97].ravel()
    gaps = np.abs(np.diff(np.sort(expected)))
    assert gaps[gaps > 0].min() > 1e-7  # else the order would be chance
    assert seen.argsort(kind="stable").tolist() == expected.argsort(kind="stable").tolist()


@pytest.mark.parametrize("keeps", ["all", "none"])
def test_a_window_hides_a_key_from_a_link_altogether(tiny: Tiny, keeps: str) -> None:
    run = finished(tiny("gemma3"), keeps)  # window 64 on layers 0 and 1
    assert not run.links(100, 36)[:2].any()
    assert run.links(100, 36)[2].all()
    assert run.links(100, 37).all()


@pytest.mark.parametrize("keeps", ["all", "none"])
def test_equal_tokens_have_rows_and_columns_of_their_own(tiny: Tiny, keeps: str) -> None:
    run = finished(tiny("qwen3"), keeps)
    ids = read_ids(run)
    seen = run.attention(1, 2)
    assert len(set(ids)) < len(ids) / 4
    assert seen.shape == (len(ids), len(ids))
    assert len(np.unique(seen, axis=0)) == len(ids)


@pytest.mark.parametrize("keeps", ["all", "none"])
def test_what_is_not_there_is_named(tiny: Tiny, keeps: str) -> None:
    run = finished(tiny(), keeps)
    count = len(read_ids(run))
    refused: list[tuple[str, Callable[[], object]]] = [
        ("query", lambda: run.links(count, 0)),
        ("query", lambda: run.links(-1, 0)),
        ("key", lambda: run.links(5, 6)),
        ("key", lambda: run.links(5, -1)),
        ("until", lambda: run.attention(0, until=0)),
        ("until", lambda: run.attention(0, until=count + 1)),
        ("rows", lambda: run.attention(None, rows=0, until=5)),
        ("layer", lambda: run.attention(LAYERS)),
        ("head", lambda: run.attention(None, HEADS)),
    ]
    for field, look in refused:
        with pytest.raises(OutOfRange) as caught:
            look()
        assert caught.value.params["field"] == field


def test_no_link_before_prefill_nor_after_free_nor_when_off(tiny: Tiny) -> None:
    run = Run(tiny(), "the cat")
    with pytest.raises(OutOfRange):
        run.links(0, 0)
    run.prefill()
    run.free()
    with pytest.raises(RunFreed):
        run.links(0, 0)
    off = Run(tiny(), "the cat", RunSettings(capture_attention=False, recording_limit_bytes=0))
    off.prefill()
    with pytest.raises(AttentionUnavailable) as caught:
        off.links(0, 0)
    assert caught.value.params == {"reason": "off"}


def test_means_over_layers_take_no_memory_of_all_layers(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every layer is added to one sum, and no single allocation (as torch's profiler counts them) is larger than that sum."""
    run = finished(tiny("qwen3"), "all")
    sums: list[int] = []
    add_map = LayerStates.add_map

    def noting(self: LayerStates, total: torch.Tensor, head: int | None) -> None:
        sums.append(total.data_ptr())
        add_map(self, total, head)

    monkeypatch.setattr(LayerStates, "add_map", noting)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        seen = run.attention(None)
    assert (len(sums), len(set(sums))) == (LAYERS, 1)
    assert max(event.self_cpu_memory_usage for event in profile.events()) == seen.nbytes
