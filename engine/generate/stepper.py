"""What one run works with while it goes on: its cache, its recorder, its sampler, its clock; and the one move that uses them all.

Knows how to get from token ids to the next id; does not know prompts, stop reasons or what came before.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from engine.generate.rereading import Rereading
from engine.generate.sampling import Picked, Sampler
from engine.kv.cache import LiveCache
from engine.measure.clock import Clock
from engine.measure.memory import PeakWatch
from engine.model.attend import recording
from engine.model.capture import Recorder
from engine.model.device import threads
from engine.model.layers import LayerWatch
from engine.trace import RunSettings, WorkPeak

if TYPE_CHECKING:
    from engine.model.loader import LoadedModel


@dataclass(frozen=True, slots=True)
class Advance:
    """One move: the picked id with its candidates, and what the forward pass and the choice took."""

    picked: Picked
    forward_s: float
    sample_s: float
    layer_s: tuple[float, ...] = ()
    peak: WorkPeak | None = None


class Stepper:
    """The live things of one run. `recorder` is None where attention is not recorded."""

    def __init__(self, model: LoadedModel, settings: RunSettings, clock: Clock) -> None:
        wanted = settings.capture_attention and model.info.attention_reason is None
        self.cache = LiveCache(model.model)
        self.recorder = Recorder(settings.recording_limit_bytes, model.shape.num_hidden_layers) if wanted else None
        self.rereading = Rereading(model)
        self.last_hidden: torch.Tensor | None = None  # [layers, hidden_size]: what each layer made of the prompt's last position
        self.ids: list[int] = []  # all that has been read
        self._model = model
        self._sampler = Sampler(settings)
        self._clock = clock

    def read(self, ids: Sequence[int], thread_count: int) -> Advance:
        """`advance` for a whole prompt: also watches layers and memory."""
        watch = LayerWatch(self._model.model)
        peak = PeakWatch(self._model.device)
        with watch, peak:
            advance = self.advance(ids, thread_count)
        self.last_hidden = watch.hidden()
        return dataclasses.replace(advance, layer_s=watch.seconds(), peak=peak.reading())

    def advance(self, ids: Sequence[int], thread_count: int) -> Advance:
        """Read `ids` on top of the cache and pick the next one. A failure leaves cache and recorder as they were, and is raised."""
        with torch.inference_mode(), threads(thread_count):
            started = self._clock.now()
            logits = self._forward(torch.tensor([ids], device=self._model.device))  # [vocab_size]
            self.ids += ids
            read = self._clock.now()
            picked = self._sampler.pick(logits, self._model.vocabulary)
            return Advance(picked, forward_s=read - started, sample_s=self._clock.now() - read)

    def recorded_bytes(self) -> int:
        return 0 if self.recorder is None else self.recorder.recorded_bytes()

    def _forward(self, ids: torch.Tensor) -> torch.Tensor:
        with recording(self.recorder):
            try:
                return self.cache.forward(ids)
            except BaseException:
                if self.recorder is not None:
                    self.recorder.roll_back(self.cache.tokens())
                raise
