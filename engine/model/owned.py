"""A tensor that is kept: its storage holds nothing besides. Knows storages; does not know what a tensor is kept for."""

from __future__ import annotations

import torch


def owned(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor itself where it is all of its storage, else a copy: a view would keep the larger storage alive."""
    if tensor.untyped_storage().nbytes() == tensor.nbytes:
        return tensor
    return tensor.clone(memory_format=torch.contiguous_format)
