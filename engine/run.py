"""One question and its answer, step by step: the object a page, a notebook, a benchmark and a test drive.

Knows the order of things (tokens → prefill → decode), the run's own clock and how it ended; keeps the live memory inside and hands
out frozen traces. Does not know models from the inside, screens, or who else is waiting.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from datetime import datetime
from typing import TYPE_CHECKING

from engine.errors import OutOfMemory, OutOfRange, RemoteError, RunFreed
from engine.generate.decode import Standing, reason_to_stop, write_next
from engine.generate.ending import Ending
from engine.generate.forking import fork, rewritten
from engine.generate.prefill import check_limit, read_prompt
from engine.generate.stepper import Stepper
from engine.generate.tokens import Encoded, encode
from engine.generate.weighing import Weighing
from engine.insight import Insight
from engine.kv.cache import check_range
from engine.measure.clock import Clock
from engine.measure.latency import worked_s
from engine.model.fuse import fuse
from engine.stem import Stem, branch_settings, stem_of
from engine.trace import DecodeStep, Origin, PrefillTrace, RunRecord, RunSettings, StopReason, Token

if TYPE_CHECKING:
    from engine.model.loader import LoadedModel

logger = logging.getLogger(__name__)
_DEFAULTS = RunSettings()


class Run(Ending, Insight, Weighing):
    """`tokens` → `prefill()` → `decode()`. All state is kept here: a `decode()` that was left half-way may be taken up again.

    `submitted_at`: stamp of the run's clock (`time.perf_counter`) from which TTFT counts; default: now.
    `forced`: ids that the answer begins with, whatever the sampler would say. Raises OutOfRange for one that is not in the vocabulary.
    A run belongs to one thread, except `stop`, which any thread may call.
    """

    def __init__(
        self,
        model: LoadedModel,
        prompt: str,
        settings: RunSettings = _DEFAULTS,
        *,
        submitted_at: float | None = None,
        clock: Clock | None = None,
        forced: Sequence[int] = (),
    ) -> None:
        for id in forced:
            check_range("token_id", id, model.shape.vocab_size)
        super().__init__()
        self.model = model
        self.prompt = prompt
        self.settings = settings
        self.origin: Origin | None = None  # where this run left another one
        self._forced = dict(enumerate(forced))
        self._clock = clock or Clock(model.device)
        self._submitted_at = self._clock.now() if submitted_at is None else submitted_at
        self._last_at = self._submitted_at  # stamp of the newest id
        self._pauses_s = 0.0  # the reader's own, since that stamp
        self._own_s = 0.0
        self._created = datetime.now().astimezone().isoformat(timespec="milliseconds")
        self._encoded: Encoded | None = None
        self._prefill: PrefillTrace | None = None
        self._steps: list[DecodeStep] = []
        self._stepper: Stepper | None = None
        self._freed = False

    @property
    def tokens(self) -> tuple[Token, ...]:
        """The prompt's tokens, template included. Encodes on first use; raises what engine.generate.tokens.encode raises."""
        return self._encoding().tokens

    def prefill(self) -> PrefillTrace:
        """Read the whole prompt and pick the first id; a second call gives the same trace again.

        Raises what `tokens` raises, OutOfMemory, or the model's own failure; the run has then ended with that error.
        """
        if self._prefill is None:
            self._check_alive()
            self._prefill = self._recording_failure(self._read)
        return self._prefill

    def decode(self) -> Iterator[DecodeStep]:
        """One DecodeStep per generated token after the first. Ends with `stop_reason` set; a failure ends it too, with `error`."""
        while self._may_go_on():
            try:
                step = self._recording_failure(self._write)
            except Exception:
                logger.debug("run ended: %s", self.error, exc_info=True)
                return
            yield step

    def branch(self, index: int, token_id: int) -> Run:
        """A run of its own that has written what this one has up to generated token `index` (0: the first), and there `token_id`.

        It takes over the notes, which costs nothing worth naming, or reads all once more where they are not held (`origin.reread_s`).
        This run stays as it is and may go on; it may also have ended. Raises OutOfRange, RunFreed (then see `revive`), OutOfMemory.
        """
        self._check_kept()
        return Run.revive(self.model, self.prompt, self.settings, stem_of(self.record(), index, token_id, run_id=""), parent=self)

    @classmethod
    def revive(
        cls,
        model: LoadedModel,
        prompt: str,
        settings: RunSettings,
        stem: Stem,
        *,
        submitted_at: float | None = None,
        parent: Run | None = None,
        clock: Clock | None = None,
    ) -> Run:
        """A branch from traces alone; with the notes of `parent` where these can be had. Its `newest` trace is the rewritten one.

        `submitted_at`: `time.perf_counter` when the branch was asked for (default: now). Its clock goes on from its parent's submission
        and is its own; the time from the fork's own stamp until it was asked for was the reader's pause, and so is taking over or reading
        once more. Raises OutOfRange, OutOfMemory.
        """
        check_range("token_id", stem.token_id, model.shape.vocab_size)
        clock = clock or (Clock(model.device) if parent is None else parent._clock.fork())
        asked_at = clock.now() if submitted_at is None else clock.at(submitted_at)
        begin = asked_at - stem.newest.at_s if parent is None else parent._submitted_at
        run = cls(model, prompt, branch_settings(settings), submitted_at=begin, clock=clock)
        run._mark(begin + stem.newest.at_s)
        run.note_pause(asked_at - run._last_at)
        run._recording_failure(lambda: run._take_over(stem, parent))
        return run

    def note_pause(self, seconds: float) -> None:
        """Of the time before the next turn, so much was the reader's own pause: it is counted apart from waiting."""
        self._pauses_s += max(seconds, 0.0)

    def held_bytes(self) -> int:
        """Bytes of live memory: cache, recorded queries and what looks need after the newest token. Any thread may ask."""
        newest, stepper = self.newest, self._stepper
        if newest is None or stepper is None:
            return 0
        return newest.kv_bytes + newest.recorded_bytes + stepper.looks_bytes()

    def record(self) -> RunRecord:
        """The run so far, as it is kept and exported; valid in every state."""
        return RunRecord(
            prompt=self.prompt,
            settings=self.settings,
            model=self.model.info,
            created=self._created,
            tokens=() if self._encoded is None else self._encoded.tokens,
            prefill=self._prefill,
            steps=tuple(self._steps),
            stop_reason=self.stop_reason,
            error=self.error,
            origin=self.origin,
        )

    @property
    def newest(self) -> PrefillTrace | DecodeStep | None:
        """The trace of the newest token; None before there is one. Any thread may ask."""
        return self._steps[-1] if self._steps else self._prefill

    def free(self) -> None:
        """Drop cache and queries. A run that had not ended is stopped; its record stays."""
        self.stop()
        self._stepper = None
        self._freed = True

    def _encoding(self) -> Encoded:
        if self._encoded is None:
            model, limit = self.model, self.settings.context_limit
            most = min(model.info.context_length, limit or model.info.context_length)
            self._encoded = self._recording_failure(lambda: encode(model.tokenizer, model.vocabulary, self.prompt, self.settings, most))
        return self._encoded

    def _read(self) -> PrefillTrace:
        """Prefill itself. What of the time until the first id was neither work nor pause was waiting: the queue."""
        encoded = self._encoding()
        info, count = self.model.info, len(encoded.tokens)
        check_limit(self.model.shape, count, info.dtype_bytes, self.settings.kv_limit_bytes)
        self._stepper = stepper = Stepper(self.model, self.settings, self._clock)
        advance = read_prompt(stepper, encoded.tokens, info.prefill_threads, self._forced.get(0))
        first = self.model.vocabulary.token(advance.picked.id, "generated", count)
        elapsed_s = self._clock.now() - self._submitted_at
        self._own_s = encoded.template_s + encoded.tokenize_s + advance.forward_s + advance.sample_s
        paused_s = min(self._pauses_s, max(elapsed_s - self._own_s, 0.0))
        self._mark(self._submitted_at + elapsed_s)
        return PrefillTrace(
            prompt_tokens=count,
            queue_s=max(elapsed_s - self._own_s - paused_s, 0.0),
            template_s=encoded.template_s,
            tokenize_s=encoded.tokenize_s,
            prefill_s=advance.forward_s,
            sample_s=advance.sample_s,
            paused_s=paused_s,
            at_s=elapsed_s,
            first=first,
            candidates=advance.picked.candidates,
            kv_bytes=stepper.cache.bytes(),
            kv_tokens=stepper.cache.tokens(),
            recorded_bytes=stepper.recorded_bytes(),
            layer_s=advance.layer_s,
            peak=advance.peak,
            drawn=advance.picked.drawn,
            chosen_by=advance.picked.chosen_by,
            memory=self._weigh(),
        )

    def _write(self) -> DecodeStep:
        """Read the newest token, pick the next one. Everything that belongs to the step lies between its two stamps."""
        stepper = self._live_stepper()
        started_at = self._clock.now()
        gap_s = max(started_at - self._last_at, 0.0)
        paused_s = min(self._pauses_s, gap_s)
        index = len(self._steps) + 1
        with fuse(self.model.model) if index == self.settings.power_cut_at else nullcontext():
            advance = write_next(stepper, self._last_id(), self.model.info.decode_threads, self._forced.get(index))
        token = self.model.vocabulary.token(advance.picked.id, "generated", len(self.tokens) + index)
        held, tokens, recorded = stepper.cache.bytes(), stepper.cache.tokens(), stepper.recorded_bytes()
        ended_at = self._clock.now()
        self._own_s += ended_at - started_at
        self._mark(ended_at)
        step = DecodeStep(
            index=index,
            token=token,
            candidates=advance.picked.candidates,
            gap_s=gap_s,
            paused_s=paused_s,
            forward_s=advance.forward_s,
            sample_s=advance.sample_s,
            busy_s=ended_at - started_at,
            at_s=ended_at - self._submitted_at,
            kv_bytes=held,
            kv_tokens=tokens,
            recorded_bytes=recorded,
            parts=advance.parts,
            drawn=advance.picked.drawn,
            chosen_by=advance.picked.chosen_by,
            memory=self._weigh(),
        )
        self._steps.append(step)
        return step

    def _take_over(self, stem: Stem, parent: Run | None) -> None:
        """Stand where `stem` ends, its last token rewritten."""
        began_at, source = self._clock.now(), parent._stepper if parent is not None and parent.model is self.model else None
        self._encoded = Encoded(stem.tokens, stem.prefill.template_s, stem.prefill.tokenize_s)
        self._stepper, reread_s = fork(self.model, self.settings, self._clock, stem, source)
        self._prefill, steps = rewritten(stem, self._stepper, self.model, self.settings)
        self._steps += steps
        self._own_s = worked_s(stem.prefill, stem.steps)
        self.note_pause(self._clock.now() - began_at)
        self.origin = Origin(stem.run_id, stem.index, stem.instead_of, reread_s)

    def _may_go_on(self) -> bool:
        """Read the prompt if that is still to do; then look at the borders. False: the run has ended, and says why."""
        if self._prefill is None and self.stop_reason is None:
            try:
                self.prefill()
            except Exception:
                logger.debug("run ended: %s", self.error, exc_info=True)
                return False
        if self.stop_reason is None:
            standing = Standing(self._last_id(), len(self._steps) + 1, len(self.tokens), self._own_s)
            self.stop_reason = reason_to_stop(standing, self.settings, self.model.info)
            if self.stop_reason is StopReason.OUT_OF_MEMORY:
                self.error = OutOfMemory(cause="cap", detail=f"KV cache: capped at {self.settings.kv_limit_bytes} B").info
        return self.stop_reason is None

    def _last_id(self) -> int:
        return (self._steps[-1].token if self._steps else self.prefill().first).id

    def _mark(self, at: float) -> None:
        """A new id exists since `at`: gaps and pauses count from here."""
        self._last_at = at
        self._pauses_s = 0.0

    def _check_alive(self) -> None:
        """A run that failed stays failed: it says so again."""
        self._check_kept()
        if self.error is not None:
            raise RemoteError(self.error)

    def _check_kept(self) -> None:
        if self._freed:
            raise RunFreed(run=self._created)

    def _live_stepper(self) -> Stepper:
        """Cache and recorder. Raises RunFreed; OutOfRange before the prompt has been read."""
        self._check_kept()
        if self._stepper is None:
            raise OutOfRange(field="position", value=0, count=0)
        return self._stepper
