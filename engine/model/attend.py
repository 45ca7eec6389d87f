"""The attention function of all models here: it shows every layer's queries to whoever watches in this thread, and then calls the
ordinary SDPA kernel, with a stamp before and after it for whoever times the pass.

Knows transformers' interface; does not know what is done with what is shown (engine.model.capture keeps it) nor with the stamps
(engine.model.stepparts).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from engine.model.stepparts import timing

ATTENTION_NAME = "openbook"

_active = threading.local()


class QueryWatcher(Protocol):
    """Is shown every layer's queries [1, heads, tokens, head_dim] and keys [1, kv_heads, …, head_dim], in the order of the layers."""

    def add(self, module: Any, query: torch.Tensor, key: torch.Tensor, scaling: float | None, extra: dict[str, Any]) -> None: ...


def register() -> None:
    """Make `attn_implementation=ATTENTION_NAME` known to transformers. May be called again."""
    AttentionInterface.register(ATTENTION_NAME, _attend)
    AttentionMaskInterface.register(ATTENTION_NAME, sdpa_mask)


@contextmanager
def recording(watcher: QueryWatcher | None) -> Iterator[None]:
    """While inside, forward passes of this thread show their queries to `watcher` (None: to nobody)."""
    _active.watcher = watcher
    try:
        yield
    finally:
        _active.watcher = None


def _attend(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    watcher: QueryWatcher | None = getattr(_active, "watcher", None)
    if watcher is not None:
        watcher.add(module, query, key, scaling, kwargs)
    watch = timing()
    if watch is None:
        return sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **kwargs)
    begin = watch.now()
    output = sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **kwargs)
    watch.has_read(begin)
    return output
