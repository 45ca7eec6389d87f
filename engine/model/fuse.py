"""The power cut: in the middle of one forward pass the device is asked for more memory than any has, and really refuses.

What follows is what follows any refusal: nothing here catches it. Knows the layers of a model; does not know runs or what is kept.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from transformers import PreTrainedModel

from engine.errors import UnsupportedConfig
from engine.model.layers import decoder_layers

_IMPOSSIBLE = (2**30, 2**30)  # bytes; each side is a number that every device can read


@contextmanager
def fuse(model: PreTrainedModel) -> Iterator[None]:
    """While inside, a forward pass of this thread gets as far as the middle layer. Raises UnsupportedConfig where no layers are found."""
    layers = decoder_layers(model)
    if not layers:
        raise UnsupportedConfig(field="layers", value=type(model).__name__)
    thread = threading.get_ident()

    def blow(module: torch.nn.Module, args: Any) -> None:
        if threading.get_ident() == thread:
            torch.empty(_IMPOSSIBLE, dtype=torch.uint8, device=model.device)

    handle = layers[len(layers) // 2].register_forward_pre_hook(blow)
    try:
        yield
    finally:
        handle.remove()
