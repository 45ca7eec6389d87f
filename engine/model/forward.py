"""One forward pass with a cache, in the words the installed transformers wants.

Knows the names of forward's parameters (`cache` since 5.24, `past_key_values` before) and which kinds of cache layer this engine
can read; does not know runs, sampling or clocks.
"""

from __future__ import annotations

import inspect
from typing import Any

import torch
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

from engine.errors import UnsupportedConfig
from engine.model.stepparts import timing


class Forward:
    """Calls `model` so that it fills a cache and gives the logits of the last position only.

    Full logits of a long prompt would be large: 8,192 tokens of SmolLM2 are 1.5 GiB in float32.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        known = inspect.signature(model.forward).parameters
        self._model = model
        self._cache_name = "cache" if "cache" in known else "past_key_values"
        self._options: dict[str, Any] = {"use_cache": True}
        if "logits_to_keep" in known:
            # By index, not by count: a count cuts the last position out as a view whose strides send torch's matmul another way, on
            # which it copies the whole output head (SmolLM2 in bfloat16 on two cores: 80 ms more for every prompt).
            self._options["logits_to_keep"] = torch.tensor([-1], device=model.device)

    def __call__(self, ids: torch.Tensor, cache: DynamicCache) -> torch.Tensor:
        """`ids` [1, tokens] → logits [vocab_size] of the last token; `cache` grows by `tokens`."""
        output = self._model(input_ids=ids, **{self._cache_name: cache}, **self._options)
        return output.logits[0, -1]


class TimedCache(DynamicCache):
    """Transformers' own cache, whose appending of one layer's new columns is stamped for whoever times the pass."""

    def update(self, *args: Any, **kwargs: Any) -> tuple[torch.Tensor, torch.Tensor]:
        watch = timing()
        if watch is None:
            return super().update(*args, **kwargs)
        begin = watch.now()
        held = super().update(*args, **kwargs)
        watch.has_appended(begin)
        return held


def empty_cache(model: PreTrainedModel) -> DynamicCache:
    """A cache with one layer per layer of `model`. Raises UnsupportedConfig for layers that keep anything but keys and values."""
    cache = TimedCache(config=model.config)
    for layer in cache.layers:
        if type(layer) not in (DynamicLayer, DynamicSlidingWindowLayer):
            raise UnsupportedConfig(field="layer_types", value=type(layer).__name__)
        window = getattr(layer, "sliding_window", None)
        if window is not None and window < 2:  # transformers cuts [-window + 1:], which for 1 is all of it
            raise UnsupportedConfig(field="sliding_window", value=str(window))
    return cache
