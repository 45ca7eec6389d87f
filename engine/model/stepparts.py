"""The parts of a forward pass: attention over the notes, the new column appended to them, the output head; and what the head was given.

Whoever does a part (engine.model.attend, the cache of engine.model.forward) asks `timing` whether anybody watches in this thread, which
costs nothing worth naming, and stamps its begin and end then; only the output head, which is one module, is hooked for the pass.
Stamps are those of engine.model.layers: nobody waits for the device before the pass is over.

Knows stamps and where a model keeps its head; does not know runs, caches or what the notes say.
"""

from __future__ import annotations

import threading
from typing import Any

import torch
from transformers import PreTrainedModel

from engine.model.layers import Stamps, stamps_for
from engine.trace import StepParts


class _Here(threading.local):
    watch: PartWatch | None = None


_here = _Here()


def timing() -> PartWatch | None:
    """Who watches the pass that this thread is in; None: nobody."""
    return _here.watch


class PartWatch:
    """While entered, forward passes of `model` in this thread are watched, one at a time. May be entered again and again.

    `layers`: how often a pass reads the notes and how often it appends to them; one that did so less or more often has no parts.
    """

    def __init__(self, model: PreTrainedModel, layers: int, stamps: Stamps | None = None) -> None:
        self._head: Any = model.get_output_embeddings()
        self._layers = layers
        self._stamps = stamps_for(model.device) if stamps is None else stamps
        self._handles: list[Any] = []
        self._forget()

    def __enter__(self) -> PartWatch:
        self._forget()
        if self._head is not None:
            self._handles = [self._head.register_forward_pre_hook(self._before_head), self._head.register_forward_hook(self._after_head)]
        _here.watch = self
        return self

    def __exit__(self, *reason: object) -> None:
        _here.watch = None
        while self._handles:
            self._handles.pop().remove()

    def now(self) -> Any:
        return self._stamps.now()

    def has_read(self, begin: Any) -> None:
        """One layer's attention over the notes has been asked for, from `begin` on."""
        self._reads.append((begin, self._stamps.now()))

    def has_appended(self, begin: Any) -> None:
        """One layer's new column has been added to its notes, from `begin` on."""
        self._appends.append((begin, self._stamps.now()))

    def head_input(self) -> torch.Tensor | None:
        """[hidden_size]: what the output head was given at the last position, a copy in the model's dtype and on its device.

        None: no head was seen at work, or it does not take one state per position.
        """
        return self._input

    def parts(self, forward_s: float) -> StepParts | None:
        """The parts of the last pass, which took `forward_s` in all; to be asked when it is over, and may then wait for the device.

        None where not every layer was seen to read and to append, or the head was not. What is in no other part is the weights'.
        """
        if not (len(self._reads) == len(self._appends) == self._layers and len(self._heads) == 1):
            return None
        read_s, append_s, head_s = (self._sum(pairs) for pairs in (self._reads, self._appends, self._heads))
        seen_s = read_s + append_s + head_s
        if seen_s > forward_s:  # stamps of another clock than forward_s's, by less than either's grain
            read_s, append_s, head_s = (part * forward_s / seen_s for part in (read_s, append_s, head_s))
        return StepParts(max(forward_s - read_s - append_s - head_s, 0.0), read_s, append_s, head_s)

    def _sum(self, pairs: list[tuple[Any, Any]]) -> float:
        return sum(self._stamps.seconds(begin, end) for begin, end in pairs)

    def _forget(self) -> None:
        self._reads: list[tuple[Any, Any]] = []
        self._appends: list[tuple[Any, Any]] = []
        self._heads: list[tuple[Any, Any]] = []
        self._begin: Any = None
        self._input: torch.Tensor | None = None

    def _before_head(self, module: torch.nn.Module, args: Any) -> None:
        if _here.watch is not self:
            return
        state = args[0] if args else None  # [1, tokens, hidden_size]
        if isinstance(state, torch.Tensor) and state.ndim == 3:
            self._input = state[0, -1].clone()  # a view would keep the whole of it alive
        self._begin = self._stamps.now()

    def _after_head(self, module: torch.nn.Module, args: Any, output: Any) -> None:
        if _here.watch is self:
            self._heads.append((self._begin, self._stamps.now()))
