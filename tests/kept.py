"""Runs of tiny models that keep all, some or none of what attention maps are computed from. Knows no answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.generate.tokens import encode
from engine.run import Run
from engine.trace import RunSettings
from tests.reference import ids_of

if TYPE_CHECKING:
    from engine.model.loader import LoadedModel

KINDS = ["llama", "qwen3", "gemma3", "gpt2"]  # grouped; grouped with normed queries; window 64 in two layers of three; fused projection
TEXT = "the cat sat on the mat the cat " * 16  # few kinds of tokens, again and again
PLENTY = 192 * 1024**2
LAYERS, HEADS, ANSWER = 3, 4, 8


def bytes_per_token(model: LoadedModel) -> int:
    """What recording keeps of one token: float32 queries of all layers, keys of the sliding ones."""
    shape = model.shape
    sliding = sum(window is not None for window in shape.layer_windows)
    return 4 * shape.head_dim * (shape.num_hidden_layers * shape.num_attention_heads + sliding * shape.num_key_value_heads)


def prompt_tokens(model: LoadedModel) -> int:
    return len(encode(model.tokenizer, model.vocabulary, TEXT, RunSettings(use_chat_template=False)).tokens)


def started(model: LoadedModel, limit_bytes: int) -> Run:
    settings = RunSettings(max_new_tokens=ANSWER, use_chat_template=False, ignore_eos=True, recording_limit_bytes=limit_bytes)
    run = Run(model, TEXT, settings)
    run.prefill()
    return run


def finished(model: LoadedModel, keeps: str) -> Run:
    """`keeps`: "all", "none", or "some" (the limit is reached by the fourth step)."""
    prompt = prompt_tokens(model)
    run = started(model, {"all": PLENTY, "none": 0, "some": (prompt + 3) * bytes_per_token(model)}[keeps])
    list(run.decode())
    return run


def read_ids(run: Run) -> list[int]:
    return ids_of(run.tokens) + ids_of(run.record().generated)[:-1]
