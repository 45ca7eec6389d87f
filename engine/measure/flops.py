"""How much arithmetic a pass takes, by counting: floating point operations (FLOPs), two per multiply-add.

Source: the serving benchmarks' usual count, 2 · parameters per token plus 4 · layers · heads · head_dim · context for attention (Kaplan et
al. 2020, arXiv:2001.08361, section 2.1, there without the head). Where we count more closely than they do:

* the output head is applied to the prompt's last position only, as this engine (and every serving engine) does;
* attention is causal: position p reads p + 1 tokens, or its window; the plain formula counts the whole square, about twice as many;
* what is only looked up (embeddings) or added (softmax, norms, rotary turns) is left out: a percent or less. Norm weights, being
  parameters, are counted in like the rest.

A kernel may compute more (whole blocks across the diagonal, padding); this is the work that has to be done, not what a device did.

Knows a model's numbers; does not know clocks, tensors or devices.
"""

from __future__ import annotations

from engine.errors import InvalidSetting, UnsupportedConfig
from engine.measure.reading import tokens_read, windows_read
from engine.model.shape import ModelShape
from engine.trace import ModelInfo


def prefill_flops(info: ModelInfo, tokens: int) -> int:
    """One pass over a prompt of `tokens` tokens: 2 · body · tokens + 2 · head + `attention_flops`.

    Raises InvalidSetting for tokens < 1, UnsupportedConfig where the model's numbers do not tell.
    """
    return 2 * _body(info) * tokens + 2 * info.head_parameters + attention_flops(info.shape, tokens)


def decode_flops(info: ModelInfo, context: int) -> int:
    """One decode step: 2 · (body + head) + attention to `context` tokens, the one that is read in this step included.

    For the page on writing, to be held against the bytes that a step has to read. All the steps through a text add up to its prefill but
    for the head, which prefill applies once: by this the tests check both. Raises as `prefill_flops`.
    """
    return 2 * (_body(info) + info.head_parameters) + _flops_per_read(info.shape) * tokens_read(info.shape, context)


def attention_flops(shape: ModelShape, tokens: int) -> int:
    """The part of a prompt's pass that grows with the square: 4 · heads · head_dim · Σ over layers and positions of the tokens read.

    A position p reads min(p + 1, window) tokens: q·k and the weighting of v take head_dim multiply-adds each. Heads are the query
    heads: sharing notes (GQA) saves memory, not this arithmetic. Raises UnsupportedConfig (MLA, layers that own no notes).
    """
    if tokens < 1:
        raise InvalidSetting(field="tokens", value=str(tokens), allowed=">= 1")
    return _flops_per_read(shape) * sum(_reads(tokens, window) for window in windows_read(shape))


def _reads(tokens: int, window: int | None) -> int:
    """Σ of min(p + 1, window) for p = 0 … tokens − 1: a triangle, and behind the window a band."""
    growing = tokens if window is None else min(tokens, window)
    return growing * (growing + 1) // 2 + (tokens - growing) * (window or 0)


def _flops_per_read(shape: ModelShape) -> int:
    return 4 * shape.num_attention_heads * shape.head_dim


def _body(info: ModelInfo) -> int:
    if info.body_parameters == 0:
        raise UnsupportedConfig(field="body_parameters", value="0")
    return info.body_parameters
