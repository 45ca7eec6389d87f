"""Answers that are known without the engine: transformers' own eager attention, its own generate, its hidden states, uncached logits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from engine.trace import Token

if TYPE_CHECKING:
    from engine.model.loader import LoadedModel


def ids_of(tokens: tuple[Token, ...]) -> list[int]:
    return [token.id for token in tokens]


def eager_attention(model: LoadedModel, ids: list[int]) -> np.ndarray:
    """float32 [layers, heads, queries, keys] from `output_attentions`, the way that needs n² memory."""
    network = model.model
    before = network.config._attn_implementation
    network.set_attn_implementation("eager")
    try:
        with torch.inference_mode():
            maps = network(torch.tensor([ids]), output_attentions=True, use_cache=False).attentions
    finally:
        network.set_attn_implementation(before)
    return torch.cat(maps).float().numpy()


def greedy_ids(model: LoadedModel, ids: list[int], count: int) -> list[int]:
    """What `generate` writes after `ids`, without sampling."""
    prompt = torch.tensor([ids])
    with torch.inference_mode():
        output = model.model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=count, do_sample=False)
    return output[0, len(ids) :].tolist()


def uncached_logits(model: LoadedModel, ids: list[int]) -> torch.Tensor:
    """[tokens, vocab_size] of one forward pass without a cache."""
    with torch.inference_mode():
        return model.model(torch.tensor([ids]), use_cache=False).logits[0].float()


def lens_probabilities(model: LoadedModel, ids: list[int]) -> np.ndarray:
    """float64 [layers, vocab_size] at the last position, from `output_hidden_states`; its last entry has gone through the final norm."""
    network: Any = model.model
    norm = network.transformer.ln_f if model.shape.model_type == "gpt2" else network.model.norm
    with torch.inference_mode():
        *states, last = network(torch.tensor([ids]), output_hidden_states=True, use_cache=False).hidden_states[1:]
        logits = [network.lm_head(norm(state[:, -1])) for state in states] + [network.lm_head(last[:, -1])]
        return torch.cat(logits).double().softmax(-1).numpy()
