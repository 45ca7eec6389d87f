"""A glance: how the newest token reads all others, over all layers and heads, cheap enough to go with every step of slow motion.

The one row of the map of means (engine.generate.looks), from the newest queries alone; all heads of a layer at once. Knows cache and
recorder; never reads anything once more and does not know the run.
"""

from __future__ import annotations

import numpy as np
import torch

from engine.kv.cache import LiveCache
from engine.model.capture import Recorder
from engine.model.device import memory_checked, threads


def glance(cache: LiveCache, recorder: Recorder | None) -> np.ndarray | None:
    """float32 [tokens read], sums to 1: softmax(q·kᵀ·scaling) of the newest query, the mean over layers and heads. Raises OutOfMemory.

    None where nothing true is at hand: attention is not recorded, or no longer, or nothing has been read.
    """
    tokens = cache.tokens()
    if recorder is None or recorder.full or recorder.reason is not None or not tokens:
        return None
    layers = recorder.layers()
    with memory_checked(), torch.inference_mode(), threads(1):  # as in engine.model.attention
        total: torch.Tensor | None = None
        for layer in layers:
            keys = cache.keys(layer) if recorder.window(layer) is None else recorder.keys(layer)  # [kv_heads, tokens, head_dim]
            row = _row(recorder.newest_query(layer), keys, recorder.scaling(layer), recorder.window(layer))
            total = torch.zeros(tokens, device=row.device) if total is None else total
            total[tokens - len(row) :] += row
        return None if total is None else total.div_(len(layers)).cpu().numpy()


def _row(query: torch.Tensor, keys: torch.Tensor, scaling: float, window: int | None) -> torch.Tensor:
    """[keys seen]: the mean over heads of one query [heads, head_dim], the last of those that `keys` belong to."""
    seen = keys if window is None else keys[:, -window:]
    grouped = query.float().unflatten(0, (len(keys), -1))  # [kv_heads, group, head_dim]
    scores = (grouped @ seen.float().mT).mul_(scaling)  # [kv_heads, group, keys]
    return scores.softmax(dim=-1).mean(dim=(0, 1))
