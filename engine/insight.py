"""What can be asked about the live memory of a run: how its tokens read each other, what lies in its cache, what its layers would say,
how each token was chosen.

Knows the questions; does not know how the run came there or goes on (engine.run). A question that fails leaves the run as it was.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.errors import LensUnavailable, OutOfRange, StagesUnavailable
from engine.findings import LensRow, Stages, TextCut
from engine.generate.glancing import glance
from engine.generate.lens import lens_rows
from engine.generate.looks import Looks
from engine.generate.merges import cut
from engine.generate.sampling import as_scores
from engine.generate.stages import stages_of
from engine.generate.stepper import Stepper
from engine.generate.tokens import whole_text
from engine.kv.cache import check_range
from engine.model.device import memory_checked
from engine.trace import PrefillTrace, RunRecord, RunSettings

if TYPE_CHECKING:
    from engine.model.loader import LoadedModel


class Insight:
    """The questions of a run, which brings `model`, `settings`, `prefill` and its stepper."""

    model: LoadedModel
    settings: RunSettings
    _stepper: Stepper | None

    def prefill(self) -> PrefillTrace:
        raise NotImplementedError

    def record(self) -> RunRecord:
        raise NotImplementedError

    def _check_kept(self) -> None:
        """Raises RunFreed."""
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

    def glance(self) -> np.ndarray | None:
        """float32 [tokens read]: how the newest of them reads all others, the mean over layers and heads; attention(None, rows=1)[0], only
        faster. None where attention is not recorded (any more) or nothing has been read: a glance never reads anything once more.

        Raises RunFreed, OutOfMemory.
        """
        self._check_kept()
        return None if self._stepper is None else glance(self._stepper.cache, self._stepper.recorder)

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

    def stages(
        self, index: int, temperature: float | None = None, top_k: int | None = None, top_p: float | None = None, count: int = 12
    ) -> Stages:
        """How generated token `index` (0: prefill's) was chosen, or would be with other settings (None: the run's own).

        From the scores of that very step, once more; `count` likeliest tokens. Raises OutOfRange, RunFreed, InvalidSetting,
        StagesUnavailable, OutOfMemory.
        """
        stepper, run = self._live_stepper(), self.record()
        check_range("index", index, len(run.generated))
        if not 1 <= count <= self.model.shape.vocab_size:
            raise OutOfRange(field="count", value=count, count=self.model.shape.vocab_size)
        asked: dict[str, Any] = {"temperature": temperature, "top_k": top_k, "top_p": top_p}
        settings = dataclasses.replace(self.settings, **{name: value for name, value in asked.items() if value is not None})
        drawn = run.steps[index - 1].drawn if index else self.prefill().drawn
        if drawn is None:
            raise StagesUnavailable(reason="drawn")
        written = run.generated[index].id
        with memory_checked():
            scores = as_scores(stepper.logits(index))
            return stages_of(scores, settings, index=index, drawn=drawn, written_id=written, count=count, spell=self._spell)

    def cut(self, text: str) -> TextCut:
        """`text` cut by this run's tokenizer, without template, and the merges of short texts. Raises LoneSurrogate."""
        return cut(self.model.tokenizer, self.model.vocabulary, text)

    def kv_bytes(self) -> int:
        """Bytes of the cache, measured on its tensors; 0 before prefill. Raises RunFreed."""
        self._check_kept()
        return 0 if self._stepper is None else self._stepper.cache.bytes()

    def cell(self, layer: int, position: int) -> np.ndarray:
        """Key and value of one token in one layer, float32 [2, kv_heads, head_dim]. Raises OutOfRange, RunFreed."""
        return self._live_stepper().cache.cell(layer, position)

    def _spell(self, id: int) -> tuple[bytes, str]:
        raw = self.model.vocabulary.raw(id)
        return raw, whole_text(raw)

    def _looks(self) -> Looks:
        return Looks(self.model, self._live_stepper(), self.settings.capture_attention)
