"""Reading a run's tokens once more, for looks into a run whose queries were not kept.

One forward pass over all tokens, without a cache, that ends as soon as the last wanted layer has shown its queries. It computes what
the run had computed: in decode one by one, here all at once, so that the last digits may differ.
Knows how to get a layer's queries again; does not know what is looked at, nor the run itself, which is left as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from engine.model.attend import recording
from engine.model.capture import Recorder
from engine.model.device import threads

if TYPE_CHECKING:
    from engine.model.loader import LoadedModel

Take = Callable[[int, Recorder], None]  # a layer, and a recorder that holds this layer alone


class Rereading:
    """Reads again on demand and keeps the layer that was asked for last, until another one is or more tokens are."""

    def __init__(self, model: LoadedModel) -> None:
        self._model = model
        self._kept: tuple[int, list[int], Recorder] | None = None  # layer, ids

    def layer(self, ids: Sequence[int], layer: int) -> Recorder:
        """What `layer` shows while `ids` are read; it may go on behind them, which changes nothing of what comes before."""
        if self._kept is not None and self._kept[0] == layer and self._kept[1][: len(ids)] == list(ids):
            return self._kept[2]
        self._kept = None  # first: two layers of a long text are not held at once
        found: list[Recorder] = []
        self._read(ids, _Probe(layer, layer, lambda _, recorder: found.append(recorder)))
        self._kept = (layer, list(ids), found[0])
        return found[0]

    def kept_bytes(self) -> int:
        """Bytes of the layer that is kept. Any thread may ask."""
        kept = self._kept
        return 0 if kept is None else kept[2].recorded_bytes()

    def every_layer(self, ids: Sequence[int], take: Take) -> None:
        """Hand each layer in turn to `take` while `ids` are read; none is kept."""
        self._read(ids, _Probe(0, self._model.shape.num_hidden_layers - 1, take))

    def _read(self, ids: Sequence[int], probe: _Probe) -> None:
        inputs = torch.tensor([list(ids)], device=self._model.device)
        with torch.inference_mode(), threads(self._model.info.prefill_threads), recording(probe):
            try:
                self._model.model(input_ids=inputs, use_cache=False)
            except _Enough:
                return
        raise AssertionError(f"no layer {probe.last} was seen")


class _Enough(Exception):
    """Ends a pass that has shown what it was made for; never leaves this file."""


class _Probe:
    """Hands layers `first` … `last` of a pass to `take`, then ends the pass."""

    def __init__(self, first: int, last: int, take: Take) -> None:
        self.last = last
        self._first, self._take = first, take

    def add(self, module: Any, query: torch.Tensor, key: torch.Tensor, scaling: float | None, extra: dict[str, Any]) -> None:
        if module.layer_idx >= self._first:
            recorder = Recorder()
            recorder.add(module, query, key, scaling, extra)
            self._take(module.layer_idx, recorder)
        if module.layer_idx == self.last:
            raise _Enough
