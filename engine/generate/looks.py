"""What can be asked about how a run's tokens read each other: attention maps and links.

Knows cache, recorder and the ids that were read; does not know how the run came there. Where the recorder was full, the same answers
come from reading once more (engine.generate.rereading), to the last digits or nearly. A look that fails leaves the run as it was.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import torch

from engine.errors import AttentionUnavailable, OutOfRange
from engine.generate.stepper import Stepper
from engine.kv.cache import check_range
from engine.model.attention import LayerStates
from engine.model.capture import Recorder
from engine.model.device import memory_checked

if TYPE_CHECKING:
    from engine.model.loader import LoadedModel


class Looks:
    """`capture`: whether attention was to be recorded at all."""

    def __init__(self, model: LoadedModel, stepper: Stepper, capture: bool) -> None:
        self._model, self._stepper, self._capture = model, stepper, capture

    def attention(self, layer: int | None, head: int | None, rows: int | None, until: int | None) -> np.ndarray:
        """As Run.attention."""
        shape = self._model.shape
        if layer is not None:
            check_range("layer", layer, shape.num_hidden_layers)
        if head is not None:
            check_range("head", head, shape.num_attention_heads)
        tokens = self._tokens_read()
        end = tokens if until is None else until
        if not 1 <= end <= tokens:
            raise OutOfRange(field="until", value=end, count=tokens)
        if rows is not None and rows < 1:
            raise OutOfRange(field="rows", value=rows, count=end)
        maps = (shape.num_hidden_layers if layer is None else 1) * (shape.num_attention_heads if head is None else 1)
        with memory_checked(), torch.inference_mode():
            total = torch.zeros(end if rows is None else min(rows, end), end, device=self._model.device)
            self._show(layer, end, lambda states: states.add_map(total, head))
            return total.div_(maps).cpu().numpy()

    def links(self, query: int, key: int) -> np.ndarray:
        """As Run.links."""
        check_range("query", query, self._tokens_read())
        check_range("key", key, query + 1)
        weights: list[torch.Tensor] = []
        with memory_checked(), torch.inference_mode():
            self._show(None, query + 1, lambda states: weights.append(states.link(query, key)))
            return torch.stack(weights).cpu().numpy()

    def _tokens_read(self) -> int:
        """Raises AttentionUnavailable; OutOfRange where nothing has been read."""
        if self._model.info.attention_reason is not None or not self._capture:
            raise AttentionUnavailable(reason=self._model.info.attention_reason or "off")
        tokens = self._stepper.cache.tokens()
        if not tokens:
            raise OutOfRange(field="position", value=0, count=0)
        return tokens

    def _show(self, layer: int | None, until: int, take: Callable[[LayerStates], None]) -> None:
        """Hand `layer`, or every one in order (None), to `take`: one at a time, never all at once. Each has the first `until` queries
        at least; only these are read once more, since no token sees a later one.
        """
        recorder, rereading, ids = self._stepper.recorder, self._stepper.rereading, self._stepper.ids[:until]
        assert recorder is not None
        if not recorder.full:
            for index in recorder.layers() if layer is None else (layer,):
                take(self._states(index, recorder))
        elif layer is None:
            rereading.every_layer(ids, lambda index, found: take(self._states(index, found)))
        else:
            take(self._states(layer, rereading.layer(ids, layer)))

    def _states(self, layer: int, recorder: Recorder) -> LayerStates:
        return recorder.states(layer, self._stepper.cache.keys(layer) if recorder.window(layer) is None else None)
