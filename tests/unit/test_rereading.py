"""The limit of what is kept of the queries, and reading once more beyond it: when, how far, and what it leaves as it was."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from engine import LoadedModel, Run
from engine.errors import OutOfMemory
from engine.generate.rereading import Rereading
from engine.model import attend, capture
from tests.kept import HEADS, KINDS, LAYERS, bytes_per_token, finished, prompt_tokens, read_ids, started

Tiny = Callable[..., LoadedModel]


@pytest.fixture(scope="module", params=KINDS)
def model(request: pytest.FixtureRequest, tiny: Tiny) -> LoadedModel:
    return tiny(request.param)


@pytest.mark.parametrize(("share", "missing", "kept"), [(0, 0, 0), (1, 1, 0), (1, 0, 1)], ids=["nothing", "a byte too few", "just enough"])
def test_a_prompt_is_kept_whole_or_not_at_all(model: LoadedModel, share: int, missing: int, kept: int) -> None:
    needed = prompt_tokens(model) * bytes_per_token(model)
    run = started(model, share * needed - missing)
    assert run.prefill().recorded_bytes == kept * needed


def test_a_step_beyond_the_limit_empties_the_recorder_for_good(model: LoadedModel) -> None:
    run = finished(model, "some")
    prompt = run.prefill().prompt_tokens
    kept = [prompt + 1, prompt + 2, prompt + 3, 0, 0, 0, 0]
    assert [step.recorded_bytes for step in run.record().steps] == [count * bytes_per_token(model) for count in kept]


def test_the_limit_is_never_passed_on_the_way(model: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """A prompt of which a third would fit: the first layer's size tells at once, so that not even that third is kept meanwhile."""
    held: list[int] = []
    add = capture.Recorder.add

    def noting(self: capture.Recorder, *shown: object) -> None:
        add(self, *shown)
        held.append(self.recorded_bytes())

    monkeypatch.setattr(capture.Recorder, "add", noting)
    needed = prompt_tokens(model) * bytes_per_token(model)
    started(model, needed // 3)
    assert held == [0] * LAYERS


def test_the_limit_changes_no_token(model: LoadedModel) -> None:
    runs = [finished(model, keeps) for keeps in ("all", "some", "none")]
    assert len({tuple(read_ids(run)) for run in runs}) == 1


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of tokens of each second reading."""
    seen: list[int] = []
    read = Rereading._read

    def counting(self: Rereading, ids: list[int], probe: object) -> None:
        seen.append(len(ids))
        read(self, ids, probe)

    monkeypatch.setattr(Rereading, "_read", counting)
    return seen


def test_the_layer_read_last_is_kept_until_another_is_asked_for_or_more_tokens_are(tiny: Tiny, passes: list[int]) -> None:
    run = started(tiny("gemma3"), 0)
    read = run.prefill().prompt_tokens
    for head in (None, 0, 1):
        run.attention(0, head)
    run.attention(0, 2, rows=5, until=80)
    assert passes == [read]
    run.attention(2)
    run.attention(0)
    assert passes == [read] * 3
    steps = run.decode()
    next(steps)
    assert run.attention(0).shape == (read + 1, read + 1)
    assert passes == [read, read, read, read + 1]
    run.links(5, 3)
    run.attention(None, 1)
    run.attention(0, 1)
    assert passes == [read, read, read, read + 1, 6, read + 1]  # readings of all layers keep nothing and drop nothing


def test_a_growing_answer_leaves_the_kept_layer_as_it_was(tiny: Tiny, passes: list[int]) -> None:
    run = started(tiny("gemma3"), 0)
    read = run.prefill().prompt_tokens
    before = run.attention(1, 2, rows=20, until=read)
    for _ in run.decode():
        assert np.array_equal(run.attention(1, 2, rows=20, until=read), before)
        assert run.attention(1, None, rows=1, until=read - 9).shape == (1, read - 9)
    assert passes == [read]


def test_no_more_is_read_again_than_is_shown(tiny: Tiny, passes: list[int]) -> None:
    """Causal: what comes behind the last row changes nothing in it."""
    run, kept = finished(tiny("gemma3"), "none"), finished(tiny("gemma3"), "all")
    for until in (1, 70, 100):
        for layer in (0, 2, None):
            passes.clear()
            assert np.abs(run.attention(layer, 1, until=until) - kept.attention(layer, 1, until=until)).max() <= 1e-5
            assert passes == [until]
        passes.clear()
        assert np.abs(run.links(until - 1, 0) - kept.links(until - 1, 0)).max() <= 1e-5
        assert passes == [until]


def layer_states_bytes(run: Run) -> int:
    """Of what each layer made of the prompt's last position."""
    return LAYERS * run.model.shape.hidden_size * 4


def test_a_kept_layer_counts_as_held(tiny: Tiny) -> None:
    run = started(tiny("qwen3"), 0)
    before = run.held_bytes()
    assert before == run.kv_bytes() + run._live_stepper().heads_bytes() + layer_states_bytes(run)
    run.attention(1)
    queries = 4 * run.prefill().prompt_tokens * HEADS * run.model.shape.head_dim
    assert run.held_bytes() == before + queries
    run.free()
    assert run.held_bytes() == 0


@pytest.mark.parametrize("keeps", ["all", "some", "none"])
def test_what_is_held_is_what_is_measured(model: LoadedModel, keeps: str) -> None:
    run = finished(model, keeps)
    looks = run._live_stepper().heads_bytes() + layer_states_bytes(run)
    assert run.held_bytes() == run.kv_bytes() + run.record().steps[-1].recorded_bytes + looks


def test_what_was_kept_is_never_read_again(tiny: Tiny, passes: list[int]) -> None:
    run = finished(tiny("gemma3"), "all")
    run.attention(None)
    run.attention(1, 1)
    run.links(4, 2)
    assert passes == []


@pytest.mark.parametrize("layer", range(LAYERS))
def test_a_second_reading_ends_at_its_layer(tiny: Tiny, monkeypatch: pytest.MonkeyPatch, layer: int) -> None:
    run = started(tiny("llama"), 0)
    attended: list[int] = []
    kernel = attend.sdpa_attention_forward

    def noting(module: torch.nn.Module, *states: torch.Tensor, **options: object) -> object:
        attended.append(module.layer_idx)
        return kernel(module, *states, **options)

    monkeypatch.setattr(attend, "sdpa_attention_forward", noting)
    run.attention(layer)
    assert attended == list(range(layer))


def test_looking_at_what_was_not_kept_changes_nothing(model: LoadedModel) -> None:
    looked, unlooked = started(model, 0), finished(model, "none")
    for step in looked.decode():
        bytes_before = looked.kv_bytes()
        assert looked.attention(None, 1, rows=2).shape == (2, step.kv_tokens)
        assert looked.attention(1).shape == (step.kv_tokens, step.kv_tokens)
        assert looked.links(step.kv_tokens - 1, 0).shape == (LAYERS, HEADS)
        assert looked.kv_bytes() == bytes_before
    assert read_ids(looked) == read_ids(unlooked)


def _torch_full() -> None:
    torch.empty(2**60, dtype=torch.uint8)


def _python_full() -> None:
    raise MemoryError


@pytest.mark.parametrize("refuse", [_torch_full, _python_full])
@pytest.mark.parametrize("look", ["layer", "mean", "links"])
def test_a_look_without_memory_says_so_and_leaves_the_run(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch, refuse: Callable[[], None], look: str
) -> None:
    run, undisturbed = started(tiny("gemma3"), 0), finished(tiny("gemma3"), "none")
    looks: dict[str, Callable[[], np.ndarray]] = {
        "layer": lambda: run.attention(2, 0),
        "mean": lambda: run.attention(None),
        "links": lambda: run.links(70, 3),
    }
    run.attention(0)
    before = run.kv_bytes()
    kernel = attend.sdpa_attention_forward

    def failing(module: torch.nn.Module, *states: torch.Tensor, **options: object) -> object:
        if module.layer_idx == 1:
            refuse()
        return kernel(module, *states, **options)

    with monkeypatch.context() as patch:
        patch.setattr(attend, "sdpa_attention_forward", failing)
        with pytest.raises(OutOfMemory) as caught:
            looks[look]()
    assert caught.value.params["detail"]
    assert caught.value.params["cause"] == "device"
    assert (run.stop_reason, run.error, run.kv_bytes()) == (None, None, before)
    assert looks[look]().size
    list(run.decode())
    assert read_ids(run) == read_ids(undisturbed)


def test_any_other_failure_of_a_look_is_raised_as_it_is(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    run = started(tiny(), 0)

    def failing(*states: object, **options: object) -> None:
        raise ValueError("the wire is cut")

    monkeypatch.setattr(attend, "sdpa_attention_forward", failing)
    with pytest.raises(ValueError, match="the wire is cut"):
        run.attention(1)
    assert (run.stop_reason, run.error) == (None, None)


def test_threads_of_a_second_reading_are_those_of_prefill(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    run = started(tiny(), 0)
    used: list[int] = []
    kernel = attend.sdpa_attention_forward

    def noting(*states: torch.Tensor, **options: object) -> object:
        used.append(torch.get_num_threads())
        return kernel(*states, **options)

    monkeypatch.setattr(attend, "sdpa_attention_forward", noting)
    before = torch.get_num_threads()
    run.links(5, 2)
    assert used == [run.model.info.prefill_threads] * (LAYERS - 1)
    assert torch.get_num_threads() == before
