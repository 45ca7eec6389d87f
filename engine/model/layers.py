"""Watching the layers of a model at work: how long each one took, and what it made of the last position.

Hooks on the decoder layers stamp their begin and end, on the CPU by the clock, on an accelerator by events that the device itself
stamps in passing: nobody waits for the device before the pass is over.

Knows where a causal LM keeps its layers; does not know caches, runs or what a hidden state means (engine.model.readout does).
"""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import Any, Protocol

import torch
from transformers import PreTrainedModel

_LIST_NAMES = ("layers", "h")  # Llama and most others; GPT-2, Falcon, BLOOM and GPT-J


class Stamps(Protocol):
    """A source of stamps that costs the pass next to nothing."""

    def now(self) -> Any:
        """A stamp of the work asked for so far."""
        ...

    def seconds(self, begin: Any, end: Any) -> float:
        """Between two stamps; called when the pass is over, and may then wait for the device."""
        ...


class ClockStamps:
    """The CPU works while it is asked: the clock says it all."""

    def now(self) -> float:
        return time.perf_counter()

    def seconds(self, begin: float, end: float) -> float:
        return end - begin


class CudaStamps:
    """Events in the stream of `device`: the time between them includes what the device waited for the next kernel to be launched."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def now(self) -> torch.cuda.Event:
        event = torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(self._device))
        return event

    def seconds(self, begin: torch.cuda.Event, end: torch.cuda.Event) -> float:
        end.synchronize()
        return begin.elapsed_time(end) / 1e3


class MpsStamps:
    """Events in the one stream of Apple's GPU."""

    def now(self) -> Any:
        event = torch.mps.Event(enable_timing=True)
        event.record()
        return event

    def seconds(self, begin: Any, end: Any) -> float:
        end.synchronize()
        return begin.elapsed_time(end) / 1e3


def stamps_for(device: torch.device) -> Stamps:
    """What can be stamped on `device` without waiting for it."""
    if device.type == "cuda":
        return CudaStamps(device)
    return MpsStamps() if device.type == "mps" else ClockStamps()


def decoder(model: PreTrainedModel) -> torch.nn.Module:
    """The module that holds embeddings, layers and final norm: the model without its output head."""
    return model.get_decoder()


def decoder_layers(model: PreTrainedModel) -> tuple[torch.nn.Module, ...]:
    """The layers that one token passes through, in order; () where they are not found or one of them stands in two places."""
    body = decoder(model)
    found = next((held for name in _LIST_NAMES if isinstance(held := getattr(body, name, None), torch.nn.ModuleList)), ())
    layers = tuple(found)
    return layers if len({id(layer) for layer in layers}) == len(layers) else ()


def multiplied_parameters(model: PreTrainedModel) -> tuple[int, int]:
    """(body, head): the numbers that every token is multiplied with, and those of the output head (engine.trace.ModelInfo).

    Tables in which a token or a position is only looked up are in neither, unless one is the output head as well (tied): then it
    counts there. Of a layer with experts only the share counts that one token is sent to.
    """
    output = model.get_output_embeddings()
    head = {id(one): one.numel() for one in output.parameters()} if output is not None else {}
    tables = {id(one) for module in model.modules() if isinstance(module, torch.nn.Embedding) for one in module.parameters()}
    share = _active_share(model)
    body = sum(
        round(one.numel() * (share if ".experts." in name else 1.0))
        for name, one in model.named_parameters()
        if id(one) not in head and id(one) not in tables
    )
    return body, sum(head.values())


def _active_share(model: PreTrainedModel) -> float:
    """Experts that one token is sent to, of all there are; 1 in a model without experts."""
    text = model.config.get_text_config(decoder=True)
    counts = (getattr(text, name, None) for name in ("num_experts", "num_local_experts", "n_routed_experts"))
    every, chosen = next((count for count in counts if count), None), getattr(text, "num_experts_per_tok", None)
    return chosen / every if every and chosen else 1.0


class LayerWatch:
    """While entered, forward passes of `model` in this thread are watched: as a rule one, over a whole prompt.

    A pass that reads the prompt in pieces adds up its times; the hidden states are then those of its last piece.
    """

    def __init__(self, model: PreTrainedModel, stamps: Stamps | None = None) -> None:
        self._layers = decoder_layers(model)
        self._stamps = stamps_for(model.device) if stamps is None else stamps
        self._handles: list[Any] = []
        self._thread = 0
        self._begins: list[list[Any]] = []  # of each layer, one stamp per pass
        self._ends: list[list[Any]] = []
        self._last: dict[int, torch.Tensor] = {}

    def __enter__(self) -> LayerWatch:
        self._thread = threading.get_ident()
        self._begins, self._ends, self._last = [[] for _ in self._layers], [[] for _ in self._layers], {}
        for index, layer in enumerate(self._layers):
            self._handles.append(layer.register_forward_pre_hook(partial(self._begin, index)))
            self._handles.append(layer.register_forward_hook(partial(self._end, index)))
        return self

    def __exit__(self, *reason: object) -> None:
        while self._handles:
            self._handles.pop().remove()

    def seconds(self) -> tuple[float, ...]:
        """Time of each layer, in order; () where it was not taken: no layers were found, or not all of them ran to their end."""
        if not all(begins and len(begins) == len(ends) for begins, ends in zip(self._begins, self._ends, strict=True)):
            return ()
        return tuple(
            sum(self._stamps.seconds(begin, end) for begin, end in zip(begins, ends, strict=True))
            for begins, ends in zip(self._begins, self._ends, strict=True)
        )

    def hidden(self) -> torch.Tensor | None:
        """[layers, hidden_size]: each layer's output at the last position, in the model's dtype and on its device.

        None where it was not seen: no layers were found, not all of them ran, or they pass on more than one state per position.
        """
        if not self._layers or len(self._last) < len(self._layers):
            return None
        return torch.stack([self._last[index] for index in range(len(self._layers))])

    def _begin(self, index: int, module: torch.nn.Module, args: Any) -> None:
        if threading.get_ident() == self._thread:
            self._begins[index].append(self._stamps.now())

    def _end(self, index: int, module: torch.nn.Module, args: Any, output: Any) -> None:
        if threading.get_ident() != self._thread:
            return
        self._ends[index].append(self._stamps.now())
        state = output[0] if isinstance(output, tuple) else output  # [1, tokens, hidden_size]
        if isinstance(state, torch.Tensor) and state.ndim == 3:
            self._last[index] = state[0, -1].clone()  # a view would keep the whole of it alive


class StateWatch:
    """While entered, one forward pass of `model` in this thread shows what its body (all but the output head) makes of every position."""

    def __init__(self, model: PreTrainedModel) -> None:
        self._body = decoder(model)
        self._states: torch.Tensor | None = None  # [tokens, hidden_size]
        self._handle: Any = None
        self._thread = 0

    def __enter__(self) -> StateWatch:
        self._thread, self._states = threading.get_ident(), None
        self._handle = self._body.register_forward_hook(self._seen)
        return self

    def __exit__(self, *reason: object) -> None:
        self._handle.remove()

    def before_last(self, count: int, last: torch.Tensor) -> list[torch.Tensor] | None:
        """[hidden_size] of each of the `count` positions before the last one, whose state is known to be `last`.

        None: the body's states were not seen, or are not what the output head is given.
        """
        if self._states is None or not torch.equal(self._states[-1], last):
            return None
        return [state.clone() for state in self._states[len(self._states) - 1 - count : -1]]  # views would keep each other alive

    def _seen(self, module: torch.nn.Module, args: Any, output: Any) -> None:
        if threading.get_ident() == self._thread:
            states = output[0]
            self._states = states[0] if isinstance(states, torch.Tensor) and states.ndim == 3 else None
