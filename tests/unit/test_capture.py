"""Maps from recorded queries against eager attention, and what recording keeps in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from engine import LoadedModel, Run, RunSettings, load_model
from engine.errors import AttentionUnavailable, OutOfRange, RunFreed
from engine.model.attend import recording
from engine.model.attention import ROWS_AT_ONCE, LayerStates
from engine.model.capture import Recorder
from tests.fakes import make_checkpoint, make_tokenizer
from tests.prompts import prompt_of
from tests.reference import eager_attention, ids_of

Tiny = Callable[..., LoadedModel]


def finished(model: LoadedModel, tokens: int, answer: int) -> Run:
    run = Run(model, prompt_of(model, tokens), RunSettings(max_new_tokens=answer, use_chat_template=False, ignore_eos=True))
    run.prefill()
    assert len(list(run.decode())) == answer - 1
    return run


@pytest.mark.parametrize("kind", ["llama", "qwen2", "qwen3", "gpt2", "gemma3"])
@pytest.mark.parametrize("tokens", [24, 300])
def test_every_map_equals_eager_attention(tiny: Tiny, kind: str, tokens: int) -> None:
    model = tiny(kind)
    run = finished(model, tokens, answer=8)
    record = run.record()
    ids = ids_of(record.tokens) + ids_of(record.generated)[:-1]
    eager = eager_attention(model, ids)
    for layer in range(model.shape.num_hidden_layers):
        for head in range(model.shape.num_attention_heads):
            assert np.abs(run.attention(layer, head) - eager[layer, head]).max() <= 1e-5
        assert np.abs(run.attention(layer) - eager[layer].mean(0)).max() <= 1e-5


@pytest.mark.parametrize("kind", ["qwen3", "gemma3"])
def test_rows_are_shares_and_nobody_looks_ahead(tiny: Tiny, kind: str) -> None:
    run = finished(tiny(kind), 100, answer=5)
    for layer in range(3):
        seen = run.attention(layer, 1)
        assert seen.dtype == np.float32
        assert seen.shape == (104, 104)  # 100 of the prompt + 5 of the answer − the last one, which was never an input
        assert np.allclose(seen.sum(1), 1, atol=1e-5)
        assert not np.triu(seen, 1).any()


def test_a_window_hides_what_lies_before_it(tiny: Tiny) -> None:
    run = finished(tiny("gemma3"), 100, answer=2)  # window 64 on layers 0 and 1, layer 2 sees all
    far = np.tril(np.ones((101, 101), bool), -64)
    assert not run.attention(0, 0)[far].any()
    assert run.attention(2, 0)[far].all()


@pytest.mark.parametrize("kind", ["qwen3", "gemma3"])
def test_the_newest_rows_are_those_of_the_whole_map_number_by_number(tiny: Tiny, kind: str) -> None:
    run = finished(tiny(kind), 150, answer=5)  # 154 rows: a cut lies in every place of a block
    for layer in range(3):
        for head in (None, 0, 3):
            whole = run.attention(layer, head)
            for rows in (1, 2, 26, 27, 90, 153, 154, 155, 10_000):
                assert np.array_equal(run.attention(layer, head, rows=rows), whole[-rows:])
    for rows in (0, -1):
        with pytest.raises(OutOfRange):
            run.attention(0, rows=rows)


def test_few_rows_of_a_long_map_take_little_memory() -> None:
    """8,192 tokens: the whole map is 268 MB. Allocations of torch's own allocator, as its profiler counts them."""
    n = 8192
    queries, keys = torch.randn(2, n, 8), torch.randn(1, n, 8)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        LayerStates(queries, keys, 1.0, None).add_map(torch.zeros(3, n), None)
    taken = sum(max(event.self_cpu_memory_usage, 0) for event in profile.key_averages())
    assert taken < 100 * ROWS_AT_ONCE * n < n * n * 4


def test_looking_between_steps_changes_nothing(tiny: Tiny) -> None:
    model = tiny("gemma3")
    looked, unlooked = finished(model, 70, 1), finished(model, 70, 6)
    looked.settings = replace(looked.settings, max_new_tokens=6)
    looked.stop_reason = None
    for step in looked.decode():
        assert looked.attention(1).shape == (70 + step.index, 70 + step.index)
    assert ids_of(looked.record().generated) == ids_of(unlooked.record().generated)
    assert looked.record().steps[-1].recorded_bytes == unlooked.record().steps[-1].recorded_bytes
    assert np.array_equal(looked.attention(0, 2), unlooked.attention(0, 2))


@pytest.mark.parametrize("kind", ["llama", "qwen3", "gpt2"])
def test_recorded_bytes_are_those_of_the_queries(tiny: Tiny, kind: str) -> None:
    """tokens · layers · heads · head_dim · 4 bytes and nothing more: GPT-2's fused projection is not kept alive."""
    model = tiny(kind)
    run = finished(model, 50, answer=4)
    shape = model.shape
    per_token = shape.num_hidden_layers * shape.num_attention_heads * shape.head_dim * 4
    assert run.prefill().recorded_bytes == 50 * per_token
    assert [step.recorded_bytes for step in run.record().steps] == [n * per_token for n in (51, 52, 53)]


def test_sliding_layers_keep_their_keys_too(tiny: Tiny) -> None:
    model = tiny("gemma3")  # 4 heads, 2 KV heads, head_dim 16; 2 of 3 layers slide
    run = finished(model, 80, answer=3)
    assert run.record().steps[-1].recorded_bytes == 82 * 16 * 4 * (3 * 4 + 2 * 2)


def test_recording_changes_no_token_and_off_records_nothing(tiny: Tiny) -> None:
    model = tiny()
    settings = RunSettings(max_new_tokens=12, ignore_eos=True)
    on, off = Run(model, "the cat", settings), Run(model, "the cat", replace(settings, capture_attention=False))
    assert [s.token.id for s in on.decode()] == [s.token.id for s in off.decode()]
    assert off.record().steps[-1].recorded_bytes == 0
    with pytest.raises(AttentionUnavailable) as caught:
        off.attention(0, 0)
    assert caught.value.params == {"reason": "off"}


@pytest.mark.parametrize(("layer", "head", "field"), [(3, 0, "layer"), (-1, 0, "layer"), (0, 4, "head"), (0, -1, "head")])
def test_what_is_not_there_is_named(tiny: Tiny, layer: int, head: int, field: str) -> None:
    run = finished(tiny(), 10, answer=1)
    with pytest.raises(OutOfRange) as caught:
        run.attention(layer, head)
    assert caught.value.params["field"] == field


def test_no_map_before_prefill_nor_after_free(tiny: Tiny) -> None:
    run = Run(tiny(), "the cat")
    with pytest.raises(OutOfRange):
        run.attention(0, 0)
    run.prefill()
    run.free()
    with pytest.raises(RunFreed):
        run.attention(0, 0)


def test_another_thread_records_nothing_here() -> None:
    import threading

    seen: list[object] = []
    recorder = Recorder()
    with recording(recorder):
        from engine.model.attend import _active

        thread = threading.Thread(target=lambda: seen.append(getattr(_active, "watcher", None)))
        thread.start()
        thread.join()
    assert seen == [None]


def test_map_by_hand() -> None:
    """Two heads that share one key head; scores 0 and ln 3 give shares ¼ and ¾."""
    keys = torch.tensor([[[0.0], [1.0]]])
    queries = torch.tensor([[[0.0], [float(np.log(3))]], [[0.0], [0.0]]])
    whole, narrow = LayerStates(queries, keys, 1.0, None), LayerStates(queries, keys, 1.0, 1)
    assert torch.allclose(summed(whole, 0), torch.tensor([[1.0, 0.0], [0.25, 0.75]]))
    assert torch.allclose(summed(whole, None), torch.tensor([[2.0, 0.0], [0.75, 1.25]]))
    assert torch.allclose(whole.link(1, 0), torch.tensor([0.25, 0.5]))
    assert torch.equal(summed(narrow, 0), torch.eye(2))
    assert torch.equal(narrow.link(1, 0), torch.zeros(2))


def summed(states: LayerStates, head: int | None) -> torch.Tensor:
    total = torch.zeros(2, 2)
    states.add_map(total, head)
    return total


@pytest.mark.parametrize(
    ("extra", "causal", "reason"),
    [
        ({}, True, None),
        ({"softcap": 50.0}, True, "softcap"),
        ({"s_aux": torch.zeros(1)}, True, "sinks"),
        ({"position_bias": torch.zeros(1)}, True, "position"),
        ({}, False, "not_causal"),
        ({"is_causal": False}, True, "not_causal"),
    ],
)
def test_a_term_that_a_map_would_lack_is_noticed(extra: dict, causal: bool, reason: str | None) -> None:
    recorder = Recorder()
    states = torch.zeros(1, 2, 3, 4)
    recorder.add(SimpleNamespace(layer_idx=0, is_causal=causal), states, states, None, extra)
    assert recorder.reason == reason


@pytest.mark.parametrize(("family", "reason"), [("gemma2", "softcap"), ("gpt_oss", "sinks")])
def test_families_with_other_scores_run_but_draw_no_map(tmp_path: Path, family: str, reason: str) -> None:
    model = load_model(str(other_family(family, tmp_path)), device="cpu", dtype="float32")
    run = Run(model, "the cat", RunSettings(max_new_tokens=4, ignore_eos=True))
    assert len(list(run.decode())) == 3
    assert run.prefill().recorded_bytes == 0
    assert model.info.attention_reason == reason
    with pytest.raises(AttentionUnavailable) as caught:
        run.attention(0, 0)
    assert caught.value.params == {"reason": reason}


def other_family(family: str, folder: Path) -> Path:
    from transformers import AutoConfig, AutoModelForCausalLM

    tokenizer = make_tokenizer()
    sizes = {"vocab_size": len(tokenizer), "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "head_dim": 16}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "sliding_window": 64, "max_position_embeddings": 512}
    ids = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 2}
    experts = {"num_local_experts": 2, "num_experts_per_tok": 1} if family == "gpt_oss" else {}
    config = AutoConfig.for_model(family, **sizes, **heads, **ids, **experts)
    AutoModelForCausalLM.from_config(config, dtype=torch.float32).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def test_sums_in_half_precision_are_taken_in_float32(tmp_path: Path) -> None:
    model = load_model(str(make_checkpoint("qwen3", tmp_path)), device="cpu", dtype="bfloat16")
    run = finished(model, 40, answer=3)
    assert np.allclose(run.attention(1).sum(1), 1, atol=1e-5)
