"""The brake: a forward pass that is not wanted any more ends at the next part of a layer, not at the end of the text.

Knows the layers of a model; does not know who wants it to end, nor what undoes a pass that stopped half-way (engine.kv.cache does).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from transformers import PreTrainedModel

from engine.model.layers import decoder_layers


class Halted(Exception):
    """The brake was pulled. No failure: whoever asked for it waits for this."""


@contextmanager
def brake(model: PreTrainedModel, pulled: Callable[[], bool]) -> Iterator[None]:
    """While inside, forward passes of this thread raise Halted once `pulled` says so: asked before every layer and every part of one.

    That costs some microseconds for each. An accelerator is asked faster than it works: what it has been asked for already, it does.
    """
    thread, handles = threading.get_ident(), []

    def look(module: torch.nn.Module, args: Any) -> None:
        if threading.get_ident() == thread and pulled():
            raise Halted

    layers = decoder_layers(model)
    parts = [part for layer in layers for part in (layer, *layer.children())] or list(model.modules())
    for part in parts:
        handles.append(part.register_forward_pre_hook(look))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
