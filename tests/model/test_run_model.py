"""The real SmolLM2 in float32: tokens against generate, bytes and logits against theory."""

from __future__ import annotations

import pytest
import torch

from engine import LoadedModel, Run, RunRecord, RunSettings, StopReason
from engine.kv.cache import LiveCache
from engine.kv.sizes import kv_bytes
from tests.prompts import prompt_of
from tests.reference import greedy_ids, ids_of, uncached_logits

PROMPTS = (
    "Hi",
    "Why is the sky blue?",
    "Name three colours and say what each one is good for, in one short line each.",
    "你好，请问天空为什么是蓝色的？🤗",
    "Read this and answer. " + "The cat sat on the mat while seven quick foxes asked why light bends in water. " * 12 + "Who sat?",
)


@pytest.mark.parametrize("chat", [True, False], ids=["template", "raw"])
@pytest.mark.parametrize("prompt", PROMPTS, ids=range(len(PROMPTS)))
def test_greedy_tokens_equal_generate(smollm2: LoadedModel, prompt: str, chat: bool) -> None:
    run = Run(smollm2, prompt, RunSettings(max_new_tokens=16, use_chat_template=chat))
    list(run.decode())
    assert ids_of(run.record().generated) == greedy_ids(smollm2, ids_of(run.tokens), 16)


def test_the_template_is_the_tokenizer_s_own(smollm2: LoadedModel) -> None:
    run = Run(smollm2, PROMPTS[1])
    messages = [{"role": "user", "content": PROMPTS[1]}]
    expected = smollm2.tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=True)["input_ids"]
    assert ids_of(run.tokens) == list(expected)


def test_shape_and_bytes(smollm2: LoadedModel) -> None:
    assert smollm2.info.parameters == 134_515_008
    assert smollm2.info.eos_ids == (2,)
    assert smollm2.info.context_length == 8192
    run = Run(smollm2, PROMPTS[1], RunSettings(max_new_tokens=5))
    traces = [run.prefill(), *run.decode()]
    for index, trace in enumerate(traces):
        assert trace.kv_tokens == len(run.tokens) + index
        assert trace.kv_bytes == trace.kv_tokens * 2 * 23_040  # float32: twice the 23,040 B of bfloat16
        assert trace.kv_bytes == kv_bytes(smollm2.shape, tokens=trace.kv_tokens, dtype_bytes=4)
    assert run.kv_bytes() == traces[-1].kv_bytes


def test_it_ends_its_answer_by_itself(smollm2: LoadedModel) -> None:
    run = Run(smollm2, "Say only the word yes.", RunSettings(max_new_tokens=64))
    list(run.decode())
    record = run.record()
    assert record.stop_reason is StopReason.EOS
    assert record.generated[-1].id == 2
    assert record.generated[-1].special
    assert RunRecord.from_json(record.to_json()) == record


def test_cached_logits_equal_uncached_ones(smollm2: LoadedModel) -> None:
    ids = ids_of(Run(smollm2, prompt_of(smollm2, 40), RunSettings(use_chat_template=False)).tokens)
    whole = uncached_logits(smollm2, ids)
    cache = LiveCache(smollm2.model)
    with torch.inference_mode():
        rows = [cache.forward(torch.tensor([ids[:30]]))] + [cache.forward(torch.tensor([[one]])) for one in ids[30:]]
    assert (torch.stack(rows) - whole[29:]).abs().max() <= 1e-4


def test_one_seed_one_answer(smollm2: LoadedModel) -> None:
    def answer(seed: int) -> list[int]:
        run = Run(smollm2, "Tell me a story.", RunSettings(max_new_tokens=10, temperature=1.0, top_p=0.95, top_k=50, seed=seed))
        list(run.decode())
        return ids_of(run.record().generated)

    assert answer(3) == answer(3)
    assert answer(3) != answer(4)


def test_three_presses_three_caches(smollm2: LoadedModel) -> None:
    for _ in range(3):
        run = Run(smollm2, "Hi", RunSettings(max_new_tokens=4, ignore_eos=True))
        steps = list(run.decode())
        assert steps[-1].kv_tokens == len(run.tokens) + 4 - 1
