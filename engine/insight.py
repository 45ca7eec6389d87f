"""What can be asked about the live memory of a run: how its tokens read each other, what lies in its cache, what its layers would say.

Knows the questions; does not know how the run came there or goes on (engine.run). A question that fails leaves the run as it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from engine.errors import LensUnavailable, OutOfRange
from engine.findings import LensRow, TextCut
from engine.generate.lens import lens_rows
from engine.generate.looks import Looks
from engine.generate.merges import cut
from engine.generate.stepper import Stepper
from engine.trace import PrefillTrace, RunSettings

if TYPE_CHECKING:
    from engine.model.loader import LoadedModel


class Insight:
    """The questions of a run, which brings `model`, `settings`, `prefill` and its stepper."""

    model: LoadedModel
    settings: RunSettings

    def prefill(self) -> PrefillTrace:
        raise NotImplementedError

    def _live_stepper(self) -> Stepper:
        """Raises RunFreed, OutOfRange."""
        raise NotImplementedError

    def attention(self, layer: int | None, head: int | None = None, rows: int | None = None, until: int | None = None) -> np.ndarray:
        """float32 [queries, keys] of one head, or the mean over heads (None), or over layers (None): one row per token read so far
        (prompt + answer − 1). Rows sum to 1; above the diagonal all is exactly 0. A look that fails does not end the run.

        `until`: as if only so many tokens had been read; `rows`: only the newest so many queries of these (None, or too many: all).
        What was recorded gives the numbers of the whole map. Raises AttentionUnavailable, OutOfRange, RunFreed, OutOfMemory.
        """
        return self._looks().attention(layer, head, rows, until)

    def links(self, query: int, key: int) -> np.ndarray:
        """float32 [layers, heads]: the weight with which the token at position `query` reads the one at `key`, head by head.

        Raises AttentionUnavailable, OutOfRange (a key after its query, too), RunFreed, OutOfMemory.
        """
        return self._looks().links(query, key)

    def lens(self, count: int = 5) -> tuple[LensRow, ...]:
        """The first token as each layer would guess it, `count` candidates each. Raises LensUnavailable, OutOfRange, RunFreed."""
        if not 1 <= count <= self.model.shape.vocab_size:
            raise OutOfRange(field="count", value=count, count=self.model.shape.vocab_size)
        hidden = self._live_stepper().last_hidden
        if hidden is None or self.model.info.lens_reason is not None:
            raise LensUnavailable(reason=self.model.info.lens_reason or "unread")
        return lens_rows(self.model, hidden, self.prefill().first.id, count)

    def cut(self, text: str) -> TextCut:
        """`text` cut by this run's tokenizer, without template, and the merges of short texts. Raises LoneSurrogate."""
        return cut(self.model.tokenizer, self.model.vocabulary, text)

    def cell(self, layer: int, position: int) -> np.ndarray:
        """Key and value of one token in one layer, float32 [2, kv_heads, head_dim]. Raises OutOfRange, RunFreed."""
        return self._live_stepper().cache.cell(layer, position)

    def _looks(self) -> Looks:
        return Looks(self.model, self._live_stepper(), self.settings.capture_attention)
