"""Attention maps without paying for them: keep the queries while the model runs, compute a map when somebody looks.

The attention function (engine.model.attend) shows every layer's queries, after rotary. Keys lie in the cache; only sliding-window
layers, whose cache forgets, have their keys kept here too.
What is kept grows with the number of tokens n, never with n²; beyond a limit nothing is kept at all (engine.generate.rereading).

Knows queries, keys and windows; does not know weights (engine.model.attention), runs, caches or pictures. It does not know score
softcapping, learned sinks or position biases: a model that uses one gets a `reason` instead of a map.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from engine.model.attention import LayerStates
from engine.model.owned import owned

# Arguments with which a model adds a term to its scores that softmax(q·kᵀ·scaling) leaves out.
_EXTRA_TERMS = {"softcap": "softcap", "s_aux": "sinks", "position_bias": "position"}


@dataclass(slots=True)
class LayerRows:
    """What one layer has shown so far: blocks of queries (and keys, in a sliding layer), joined when somebody looks."""

    scaling: float
    window: int | None
    queries: list[torch.Tensor] = field(default_factory=list)  # each [1, heads, tokens, head_dim]
    keys: list[torch.Tensor] = field(default_factory=list)  # each [1, kv_heads, tokens, head_dim]


class Recorder:
    """The recorded rows of one run. `reason` names a term of the scores that was seen and that a map would lack.

    `limit_bytes`: a pass of a model of `layers` layers that would lead beyond it empties the recorder, for good; `full` says so.
    """

    def __init__(self, limit_bytes: int | None = None, layers: int = 0) -> None:
        self.reason: str | None = None
        self.full = False
        self._limit_bytes = limit_bytes
        self._layer_count = layers
        self._layers: dict[int, LayerRows] = {}
        self._bytes = 0

    def add(self, module: Any, query: torch.Tensor, key: torch.Tensor, scaling: float | None, extra: dict[str, Any]) -> None:
        """Keep `query` [1, heads, tokens, head_dim]; called from inside the model, once per layer and forward pass."""
        if self.full:
            return
        rows = self._layers.get(module.layer_idx) or self._open(module, query, scaling, extra)
        fresh = key[:, :, key.shape[2] - query.shape[2] :] if rows.window is not None else key[:, :, :0]
        if self._leads_beyond(module.layer_idx, query.nbytes, fresh.nbytes):
            self._empty()
            return
        rows.queries.append(self._keep(query))
        if rows.window is not None:
            rows.keys.append(self._keep(fresh))

    def _leads_beyond(self, layer: int, query_bytes: int, key_bytes: int) -> bool:
        """Whether the pass that has come to `layer` ends above the limit: known from its first layer on, before much has been kept.

        Layers to come are taken to be of this one's size; their keys, which only some keep, are counted when they come.
        """
        to_come = max(self._layer_count - layer, 1)
        return self._limit_bytes is not None and self._bytes + query_bytes * to_come + key_bytes > self._limit_bytes

    def _empty(self) -> None:
        self.full = True
        self._layers.clear()
        self._bytes = 0

    def _open(self, module: Any, query: torch.Tensor, scaling: float | None, extra: dict[str, Any]) -> LayerRows:
        """Start a layer. Here, once, the call is searched for terms that a map would lack."""
        self.reason = self.reason or _missing_term(module, extra)
        window = extra.get("sliding_window") or getattr(module, "sliding_window", None)
        rows = LayerRows(scaling=query.shape[-1] ** -0.5 if scaling is None else scaling, window=window)
        self._layers[module.layer_idx] = rows
        return rows

    def _keep(self, tensor: torch.Tensor) -> torch.Tensor:
        tensor = owned(tensor)
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

    def scaling(self, layer: int) -> float:
        return self._layers[layer].scaling

    def newest_query(self, layer: int) -> torch.Tensor:
        """[heads, head_dim] of the position that was read last; nothing is joined for it."""
        return self._layers[layer].queries[-1][0, :, -1]

    def queries(self, layer: int) -> torch.Tensor:
        """[heads, rows, head_dim]: the prompt's block, then one row per decode step."""
        return _joined(self._layers[layer].queries)[0]

    def keys(self, layer: int) -> torch.Tensor:
        """[kv_heads, rows, head_dim] of a sliding-window layer, forgotten ones included."""
        return _joined(self._layers[layer].keys)[0]

    def states(self, layer: int, keys: torch.Tensor | None) -> LayerStates:
        """What the maps of `layer` are computed from. `keys`: from the cache; not asked for in a sliding layer."""
        held = self._layers[layer]
        seen = self.keys(layer) if held.window is not None or keys is None else keys
        return LayerStates(self.queries(layer), seen, held.scaling, held.window)

    def fork(self, tokens: int) -> Recorder:
        """A recorder that holds the first `tokens` rows of this one and goes on by itself; nothing where this one was full.

        Of a block that is longer its part is copied. Whole blocks are shared, and counted by both: each keeps them if the other one goes.
        """
        twin = Recorder(self._limit_bytes, self._layer_count)
        twin.reason, twin.full = self.reason, self.full
        for index, rows in self._layers.items():
            queries = [twin._keep(block) for block in _first_rows(rows.queries, tokens)]
            keys = [twin._keep(block) for block in _first_rows(rows.keys, tokens)]
            twin._layers[index] = LayerRows(rows.scaling, rows.window, queries, keys)
        return twin

    def roll_back(self, tokens: int) -> None:
        """Drop what a failed forward pass left behind: afterwards no layer has more than `tokens` rows."""
        for rows in self._layers.values():
            _trim(rows.queries, tokens)
            _trim(rows.keys, tokens)
        kept = (tensor for rows in self._layers.values() for tensor in (*rows.queries, *rows.keys))
        self._bytes = sum(tensor.untyped_storage().nbytes() for tensor in kept)


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


def _first_rows(blocks: list[torch.Tensor], tokens: int) -> Iterator[torch.Tensor]:
    """The blocks of the first `tokens` rows, the last one cut where they end."""
    for block in blocks:
        if tokens <= 0:
            return
        yield block if block.shape[2] <= tokens else block[:, :, :tokens]
        tokens -= block.shape[2]


def _trim(blocks: list[torch.Tensor], tokens: int) -> None:
    """Remove blocks from the end until at most `tokens` rows are left. A forward pass adds one block, so blocks are whole steps."""
    while sum(block.shape[2] for block in blocks) > tokens:
        blocks.pop()
