"""Attention maps without paying for them: keep the queries while the model runs, compute a map when somebody looks.

A transformers attention function hands every layer's queries (after rotary) to the recorder that is active in this thread and then
calls the ordinary SDPA kernel. Keys lie in the cache; only sliding-window layers, whose cache forgets, have their keys kept here too.
What is kept grows with the number of tokens n, never with n²; a look costs no more than what is asked for.

Knows queries, keys and the causal (and window) mask; does not know runs, caches or pictures. It does not know score softcapping,
learned sinks or position biases: a model that uses one gets a `reason` instead of a map.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from engine.model.device import threads

ATTENTION_NAME = "openbook"
ROWS_AT_ONCE = 64  # of a map; beside 8,192 keys that is 2 MB of scores
# Arguments with which a model adds a term to its scores that softmax(q·kᵀ·scaling) leaves out.
_EXTRA_TERMS = {"softcap": "softcap", "s_aux": "sinks", "position_bias": "position"}

_active = threading.local()


@dataclass(slots=True)
class LayerRows:
    """What one layer has shown so far: blocks of queries (and keys, in a sliding layer), joined when somebody looks."""

    scaling: float
    window: int | None
    queries: list[torch.Tensor] = field(default_factory=list)  # each [1, heads, tokens, head_dim]
    keys: list[torch.Tensor] = field(default_factory=list)  # each [1, kv_heads, tokens, head_dim]


class Recorder:
    """The recorded rows of one run. `reason` names a term of the scores that was seen and that a map would lack."""

    def __init__(self) -> None:
        self.reason: str | None = None
        self._layers: dict[int, LayerRows] = {}
        self._bytes = 0

    def add(self, module: Any, query: torch.Tensor, key: torch.Tensor, scaling: float | None, extra: dict[str, Any]) -> None:
        """Keep `query` [1, heads, tokens, head_dim]; called from inside the model, once per layer and forward pass."""
        rows = self._layers.get(module.layer_idx) or self._open(module, query, scaling, extra)
        rows.queries.append(self._keep(query))
        if rows.window is not None:
            rows.keys.append(self._keep(key[:, :, key.shape[2] - query.shape[2] :]))

    def _open(self, module: Any, query: torch.Tensor, scaling: float | None, extra: dict[str, Any]) -> LayerRows:
        """Start a layer. Here, once, the call is searched for terms that a map would lack."""
        self.reason = self.reason or _missing_term(module, extra)
        window = extra.get("sliding_window") or getattr(module, "sliding_window", None)
        rows = LayerRows(scaling=query.shape[-1] ** -0.5 if scaling is None else scaling, window=window)
        self._layers[module.layer_idx] = rows
        return rows

    def _keep(self, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor itself where it owns its storage, else a copy: a view would keep the larger storage alive."""
        if tensor.untyped_storage().nbytes() != tensor.nbytes:
            tensor = tensor.clone(memory_format=torch.contiguous_format)
        self._bytes += tensor.untyped_storage().nbytes()
        return tensor

    def recorded_bytes(self) -> int:
        """Bytes of the storages that the recorded tensors hold."""
        return self._bytes

    def layers(self) -> list[int]:
        """Indices of the layers that have shown their queries."""
        return sorted(self._layers)

    def window(self, layer: int) -> int | None:
        """The layer's sliding window in tokens; None for full attention."""
        return self._layers[layer].window

    def queries(self, layer: int) -> torch.Tensor:
        """[heads, rows, head_dim]: the prompt's block, then one row per decode step."""
        return _joined(self._layers[layer].queries)[0]

    def keys(self, layer: int) -> torch.Tensor:
        """[kv_heads, rows, head_dim] of a sliding-window layer, forgotten ones included."""
        return _joined(self._layers[layer].keys)[0]

    def attention(self, layer: int, head: int | None, keys: torch.Tensor | None, rows: int | None = None) -> torch.Tensor:
        """float32 [queries, keys] of one head, or the mean over heads. `keys`: from the cache, None in a sliding layer.
        `rows`: only the newest so many queries; None: all."""
        held = self._layers[layer]
        seen = self.keys(layer) if keys is None else keys
        return attention_map(self.queries(layer), seen, held.scaling, held.window, head, rows)

    def roll_back(self, tokens: int) -> None:
        """Drop what a failed forward pass left behind: afterwards no layer has more than `tokens` rows."""
        for rows in self._layers.values():
            _trim(rows.queries, tokens)
            _trim(rows.keys, tokens)
        kept = (tensor for rows in self._layers.values() for tensor in (*rows.queries, *rows.keys))
        self._bytes = sum(tensor.untyped_storage().nbytes() for tensor in kept)


def attention_map(
    queries: torch.Tensor, keys: torch.Tensor, scaling: float, window: int | None, head: int | None, rows: int | None = None
) -> torch.Tensor:
    """softmax(q·kᵀ·scaling) under the causal (and window) mask, in float32: [rows, keys], the newest rows only (None: all).

    `queries` [heads, n, head_dim], `keys` [kv_heads, n, head_dim]; row i is the query of position i. One head and one block of rows
    at a time, so that beside the result only a block's scores are in memory. Blocks begin at multiples of ROWS_AT_ONCE whatever
    `rows` is: a product of another height may round differently, and a row must be the same number by number however it is asked for.
    On one thread, because waiting for a second one after each small operator takes longer where others compute too (measured on two
    busy cores, 4,096 tokens, mean of 9 heads: 6.6 s with two threads, 0.4 s with one).
    """
    group = queries.shape[0] // keys.shape[0]
    count = queries.shape[1]
    first = 0 if rows is None else max(count - rows, 0)
    heads = range(queries.shape[0]) if head is None else (head,)
    total = torch.zeros(count - first, keys.shape[1], device=queries.device)
    with threads(1):
        for index in heads:
            columns = keys[index // group].float().T  # [head_dim, keys]
            for begin in range(first - first % ROWS_AT_ONCE, count, ROWS_AT_ONCE):
                end = min(begin + ROWS_AT_ONCE, count)
                shares = _shares(queries[index, begin:end], columns[:, :end], scaling, window)
                total[max(begin - first, 0) : end - first, :end] += shares[max(first - begin, 0) :]
        return total.div_(len(heads))


def _shares(queries: torch.Tensor, columns: torch.Tensor, scaling: float, window: int | None) -> torch.Tensor:
    """[rows, keys] of the last queries [rows, head_dim] of the sequence whose keys are `columns` [head_dim, keys]."""
    end = columns.shape[1]
    row = torch.arange(end - len(queries), end, device=queries.device)[:, None]
    column = torch.arange(end, device=queries.device)[None]
    hidden = column > row if window is None else (column > row) | (row - column >= window)
    return (queries.float() @ columns * scaling).masked_fill_(hidden, float("-inf")).softmax(dim=-1)


def register() -> None:
    """Make `attn_implementation=ATTENTION_NAME` known to transformers. May be called again."""
    AttentionInterface.register(ATTENTION_NAME, _attend)
    AttentionMaskInterface.register(ATTENTION_NAME, sdpa_mask)


@contextmanager
def recording(recorder: Recorder | None) -> Iterator[None]:
    """While inside, forward passes of this thread show their queries to `recorder` (None: to nobody)."""
    _active.recorder = recorder
    try:
        yield
    finally:
        _active.recorder = None


def _attend(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    recorder: Recorder | None = getattr(_active, "recorder", None)
    if recorder is not None:
        recorder.add(module, query, key, scaling, kwargs)
    return sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **kwargs)


def _missing_term(module: Any, extra: dict[str, Any]) -> str | None:
    """The reason (errors.AttentionUnavailable) why a map of this layer would be wrong; None: it is right."""
    for name, reason in _EXTRA_TERMS.items():
        if extra.get(name) is not None:
            return reason
    causal = extra.get("is_causal")
    return None if (getattr(module, "is_causal", True) if causal is None else causal) else "not_causal"


def _joined(blocks: list[torch.Tensor]) -> torch.Tensor:
    """All blocks as one tensor, which then replaces them in the list: the next look only joins what came after."""
    if len(blocks) > 1:
        blocks[:] = [torch.cat(blocks, dim=2)]
    return blocks[0]


def _trim(blocks: list[torch.Tensor], tokens: int) -> None:
    """Remove blocks from the end until at most `tokens` rows are left. A forward pass adds one block, so blocks are whole steps."""
    while sum(block.shape[2] for block in blocks) > tokens:
        blocks.pop()
