"""The live KV cache of one run: it grows by a forward pass and is read cell by cell.

Knows transformers' DynamicCache and its tensors; does not know the arithmetic of sizes (engine.kv.sizes), sampling or clocks.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel

from engine.errors import OutOfRange
from engine.model.forward import Forward, empty_cache
from engine.model.owned import owned


class LiveCache:
    """Keys and values of one run: per layer two tensors [1, kv_heads, kept tokens, head_dim].

    Full layers keep every token. Sliding layers, once past their window, keep window − 1: the newest token brings its own entry.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        self._model = model
        self._cache = empty_cache(model)
        self._layers: list[Any] = list(self._cache.layers)  # transformers types them as a union of kinds that empty_cache refuses
        self._forward = Forward(model)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Read `ids` [1, tokens] on top of what is cached; logits [vocab_size] of the last one. After a failure the cache is as before."""
        tokens = self.tokens()
        marks = [id(layer.keys) for layer in self._layers]
        try:
            logits = self._forward(ids, self._cache)
            if ids.shape[1] > 1:
                self._let_go()
            return logits
        except BaseException:
            self._roll_back(tokens, marks)
            raise

    def tokens(self) -> int:
        """Tokens read so far; sliding layers count on although they forget."""
        return self._cache.get_seq_length()

    def bytes(self) -> int:
        """Σ nbytes of the key and value tensors: of their storages, but for the one token that a sliding layer has just pushed out."""
        return sum(layer.keys.nbytes + layer.values.nbytes for layer in self._layers if layer.keys is not None)

    def layer_count(self) -> int:
        return len(self._layers)

    def keys(self, layer: int) -> torch.Tensor:
        """[kv_heads, kept tokens, head_dim]."""
        return self._layers[layer].keys[0]

    def cell(self, layer: int, position: int) -> np.ndarray:
        """Key and value of one token in one layer: float32 [2, kv_heads, head_dim].

        Raises OutOfRange for a layer or position that is not there, also when a sliding layer has forgotten it.
        """
        check_range("layer", layer, self.layer_count())
        check_range("position", position, self.tokens())
        held = self._layers[layer]
        row = position - (self.tokens() - held.keys.shape[-2])
        if row < 0:
            raise OutOfRange(field="position", value=position, count=self.tokens())
        return torch.stack((held.keys[0, :, row], held.values[0, :, row])).float().cpu().numpy()

    def fork(self, tokens: int) -> LiveCache | None:
        """A cache that holds the first `tokens` tokens of this one and goes on by itself; this one stays as it is.

        A part of a tensor is copied: a view of it would keep all of it alive when this cache is gone. A whole one is shared until either
        cache grows, which makes new ones; both count it. None where a sliding layer has forgotten what the next token would see.
        """
        assert 0 < tokens <= self.tokens()
        first_held = [self.tokens() - layer.keys.shape[-2] for layer in self._layers]
        first_seen = [max(tokens - layer.sliding_window + 1, 0) if layer.is_sliding else 0 for layer in self._layers]
        if any(held > seen for held, seen in zip(first_held, first_seen, strict=True)):
            return None
        twin = LiveCache(self._model)
        for source, target, held, seen in zip(self._layers, twin._layers, first_held, first_seen, strict=True):
            target.lazy_initialization(source.keys, source.values)
            target.keys = owned(source.keys[:, :, seen - held : tokens - held])
            target.values = owned(source.values[:, :, seen - held : tokens - held])
            if target.is_sliding:
                target.cumulative_length = tokens
        return twin

    def _let_go(self) -> None:
        """A sliding layer's window is cut out of a tensor of all that was read: keep no more of it than the window. All or nothing, so
        that a pass that fails here can still be undone.
        """
        kept = [(layer, owned(layer.keys), owned(layer.values)) for layer in self._layers if layer.keys is not None]
        for layer, keys, values in kept:
            layer.keys, layer.values = keys, values

    def _roll_back(self, tokens: int, marks: list[int]) -> None:
        """Undo a forward pass that stopped half-way: some layers have grown, some have not, one may be in between."""
        for layer, mark in zip(self._layers, marks, strict=True):
            if tokens == 0:
                layer.reset()
            elif layer.is_sliding:
                _undo_sliding(layer, tokens, grown=id(layer.keys) != mark)
            else:
                layer.keys = layer.keys[:, :, :tokens]
                layer.values = layer.values[:, :, :tokens]


def _undo_sliding(layer: Any, tokens: int, grown: bool) -> None:
    """Take the failed pass's entries off again, and back in what they pushed out of the window."""
    surplus = layer.cumulative_length - tokens
    if grown and surplus > 0:
        layer.keys = _window_before(layer.keys, min(tokens, layer.sliding_window - 1), surplus)
        layer.values = _window_before(layer.values, min(tokens, layer.sliding_window - 1), surplus)
    layer.cumulative_length = tokens


def _window_before(held: torch.Tensor, kept: int, surplus: int) -> torch.Tensor:
    """The `kept` entries before `surplus` new ones came. `held` is the end of one tensor with all of them (as DynamicSlidingWindowLayer
    cuts its window), so that those pushed out of it still lie ahead of it in memory.
    """
    pushed_out = kept + surplus - held.shape[2]
    size = (*held.shape[:2], kept, held.shape[3])
    return held.as_strided(size, held.stride(), held.storage_offset() - pushed_out * held.stride(2))


def check_range(field: str, value: int, count: int) -> None:
    """Raises OutOfRange unless 0 ≤ value < count."""
    if not 0 <= value < count:
        raise OutOfRange(field=field, value=value, count=count)
