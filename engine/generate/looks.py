"""What can be asked about how a run's tokens read each other: attention maps and links.

Knows cache, recorder and the ids that were read; does not know how the run came there. Where the recorder was full, the same answers
come from reading once more (engine.generate.rereading). A look that fails leaves the run as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
import torch

from engine.errors import AttentionUnavailable, OutOfMemory, OutOfRange
from engine.generate.stepper import Stepper
from engine.kv.cache import check_range
from engine.model.attention import LayerStates
from engine.model.capture import Recorder
from engine.model.device import is_memory_full

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
        with _looking():
            total = torch.zeros(end if rows is None else min(rows, end), end, device=self._model.device)
            self._show(layer, lambda states: states.add_map(total, head))
            return total.div_(maps).cpu().numpy()

    def links(self, query: int, key: int) -> np.ndarray:
        """As Run.links."""
        check_range("query", query, self._tokens_read())
        check_range("key", key, query + 1)
        weights: list[torch.Tensor] = []
        with _looking():
            self._show(None, lambda states: weights.append(states.link(query, key)))
            return torch.stack(weights).cpu().numpy()

    def _tokens_read(self) -> int:
        """Raises AttentionUnavailable; OutOfRange where nothing has been read."""
        if self._model.info.attention_reason is not None or not self._capture:
            raise AttentionUnavailable(reason=self._model.info.attention_reason or "off")
        tokens = self._stepper.cache.tokens()
        if not tokens:
            raise OutOfRange(field="position", value=0, count=0)
        return tokens

    def _show(self, layer: int | None, take: Callable[[LayerStates], None]) -> None:
        """Hand `layer`, or every one in order (None), to `take`: one at a time, never all at once."""
        recorder, rereading, ids = self._stepper.recorder, self._stepper.rereading, self._stepper.ids
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


@contextmanager
def _looking() -> Iterator[None]:
    """An allocator's refusal leaves as OutOfMemory."""
    try:
        with torch.inference_mode():
            yield
    except Exception as error:
        if is_memory_full(error):
            raise OutOfMemory(detail=str(error).partition("\n")[0] or type(error).__name__) from error
        raise
