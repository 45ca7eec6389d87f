"""What one run works with while it goes on: its cache, its recorder, its sampler, its clock; and the one move that uses them all.

Knows how to get from token ids to the next id, and the scores of every such move again; does not know prompts, stop reasons or what
came before.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from engine.errors import OutOfRange, StagesUnavailable
from engine.generate.rereading import Rereading
from engine.generate.sampling import Picked, Sampler
from engine.kv.cache import LiveCache
from engine.measure.clock import Clock
from engine.measure.memory import PeakWatch
from engine.model.attend import recording
from engine.model.capture import Recorder
from engine.model.device import threads
from engine.model.layers import LayerWatch, StateWatch
from engine.model.owned import owned
from engine.model.readout import OutputHead
from engine.model.stepparts import PartWatch
from engine.trace import RunSettings, StepParts, WorkPeak

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
    parts: StepParts | None = None


class Stepper:
    """The live things of one run. `recorder` is None where attention is not recorded.

    `heads`: what the output head was given at the last position of each pass, [hidden_size] in the model's dtype: the n-th belongs to
    the n-th generated token. Empty where the model does not show it. A branch has its parent's, with `take_heads`.
    """

    def __init__(self, model: LoadedModel, settings: RunSettings, clock: Clock) -> None:
        wanted = settings.capture_attention and model.info.attention_reason is None
        self.cache = LiveCache(model.model)
        self.recorder = Recorder(settings.recording_limit_bytes, model.shape.num_hidden_layers) if wanted else None
        self.rereading = Rereading(model)
        self.sampler = Sampler(settings)
        self.last_hidden: torch.Tensor | None = None  # [layers, hidden_size]: what each layer made of the prompt's last position
        self.ids: list[int] = []  # all that has been read
        self.heads: list[torch.Tensor] = []
        self._head_threads: list[int] = []  # of each; with another number of them the last bits of its logits may differ
        self._model = model
        self._clock = clock
        self._parts = PartWatch(model.model, self.cache.layer_count())
        self._trusted = False  # whether the output head was seen to lead to the model's own logits
        self._evidence: tuple[torch.Tensor, torch.Tensor] | None = None  # until then: the newest pass's head input and its logits
        self._asked: tuple[int, torch.Tensor] | None = None  # the token whose logits were asked for last

    def read(self, ids: Sequence[int], thread_count: int, forced: int | None = None) -> Advance:
        """`advance` for a whole prompt: also watches layers and memory."""
        watch = LayerWatch(self._model.model)
        peak = PeakWatch(self._model.device)
        with watch, peak:
            advance = self.advance(ids, thread_count, forced)
        self.last_hidden = watch.hidden()
        return dataclasses.replace(advance, layer_s=watch.seconds(), peak=peak.reading())

    def advance(self, ids: Sequence[int], thread_count: int, forced: int | None = None) -> Advance:
        """Read `ids` on top of the cache and pick the next one, or take `forced`. A failure leaves cache and recorder as they were, and
        is raised."""
        with torch.inference_mode(), threads(thread_count):
            started = self._clock.now()
            logits = self._forward(torch.tensor([ids], device=self._model.device))  # [vocab_size]
            read = self._clock.now()
            self.ids += ids
            self._keep_head(logits, thread_count)
            picked = self.sampler.pick(logits, self._model.vocabulary, forced)
            sample_s = self._clock.now() - read
            return Advance(picked, read - started, sample_s, parts=self._parts.parts(read - started))

    def reread(self, ids: Sequence[int], written: int, thread_count: int) -> None:
        """Read `ids`, of which another run has written what follows, in one pass on top of the cache, and pick nothing.

        The last `written` positions gave one generated token each; the sampler goes on behind these. A failure is raised as by `advance`.
        """
        with torch.inference_mode(), threads(thread_count), StateWatch(self._model.model) as states:
            logits = self._forward(torch.tensor([ids], device=self._model.device))
            self._clock.now()
        self.ids += ids
        known = len(self.heads)
        self._keep_head(logits, thread_count)
        if len(self.heads) > known:
            earlier = states.before_last(written - 1, self.heads[-1])
            self.heads[known:known] = [self.heads[-1].new_empty(0)] * (written - 1) if earlier is None else earlier
            self._head_threads += [thread_count] * (written - 1)
        self.sampler.skip(written)

    def take_heads(self, other: Stepper, written: int) -> None:
        """Inherit what `other` knows about its first `written` generated tokens; the sampler then stands behind these."""
        self.heads, self._head_threads = other.heads[:written], other._head_threads[:written]
        self._trusted, self._evidence = other._trusted, other._evidence
        self.sampler.skip(written)

    def logits(self, index: int) -> torch.Tensor:
        """[vocab_size]: the logits from which generated token `index` was chosen, from its head input once more.

        The last answer is kept. Raises OutOfRange; StagesUnavailable where the output head does not lead to the model's own logits.
        """
        if self._asked is None or self._asked[0] != index:
            self._asked = None
            self._asked = (index, self._logits(index))
        return self._asked[1]

    def recorded_bytes(self) -> int:
        return 0 if self.recorder is None else self.recorder.recorded_bytes()

    def looks_bytes(self) -> int:
        """Bytes of what is kept for looks besides cache and recorder. Any thread may ask."""
        hidden = self.last_hidden
        return self.heads_bytes() + self.rereading.kept_bytes() + (0 if hidden is None else hidden.nbytes)

    def heads_bytes(self) -> int:
        """Bytes of what is kept to have logits again; a branch counts what it has from its parent too. Any thread may ask."""
        evidence, asked = self._evidence, self._asked
        rows = [head.nbytes for head in tuple(self.heads)]
        return sum(rows) + (0 if evidence is None else evidence[1].nbytes) + (0 if asked is None else asked[1].nbytes)

    def _logits(self, index: int) -> torch.Tensor:
        if not self.heads:
            raise StagesUnavailable(reason="head")
        if not 0 <= index < len(self.heads):
            raise OutOfRange(field="index", value=index, count=len(self.heads))
        if not self.heads[index].numel():
            raise StagesUnavailable(reason="forgotten")
        head = OutputHead(self._model.model)
        with torch.inference_mode(), threads(self._head_threads[index]):
            self._check(head)
            return head(self.heads[index])

    def _check(self, head: OutputHead) -> None:
        """Once: hold what `head` makes of the newest state against what the model itself made of it."""
        if self._trusted:
            return
        reason = "head" if self._evidence is None else head.disagreement(*self._evidence)
        if reason is not None:
            raise StagesUnavailable(reason=reason)
        self._trusted, self._evidence = True, None

    def _keep_head(self, logits: torch.Tensor, thread_count: int) -> None:
        state = self._parts.head_input()
        if state is None:
            return
        self.heads.append(state)
        self._head_threads.append(thread_count)
        if not self._trusted:
            self._evidence = (state, owned(logits))  # a view, where a model gives the logits of every position

    def _forward(self, ids: torch.Tensor) -> torch.Tensor:
        with recording(self.recorder), self._parts:
            try:
                return self.cache.forward(ids)
            except BaseException:
                if self.recorder is not None:
                    self.recorder.roll_back(self.cache.tokens())
                raise
