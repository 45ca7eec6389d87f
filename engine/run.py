"""One question and its answer, step by step: the object a page, a notebook, a benchmark and a test drive.

Knows the order of things (tokens → prefill → decode), the run's own clock and how it ended; keeps the live memory inside and hands
out frozen traces. Does not know models from the inside, screens, or who else is waiting.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

from engine.errors import EngineError, ErrorInfo, OutOfMemory, OutOfRange, RemoteError, RunFreed
from engine.generate.decode import Standing, reason_to_stop, write_next
from engine.generate.prefill import check_limit, read_prompt
from engine.generate.stepper import Stepper
from engine.generate.tokens import Encoded, encode
from engine.insight import Insight
from engine.kv.sizes import kv_bytes
from engine.measure.clock import Clock
from engine.model.device import memory_checked
from engine.trace import DecodeStep, PrefillTrace, RunRecord, RunSettings, StopReason, Token

if TYPE_CHECKING:
    from engine.model.loader import LoadedModel

logger = logging.getLogger(__name__)
T = TypeVar("T")
_DEFAULTS = RunSettings()


class Run(Insight):
    """`tokens` → `prefill()` → `decode()`. All state is kept here: a `decode()` that was left half-way may be taken up again.

    `submitted_at`: stamp of the run's clock (`time.perf_counter`) from which TTFT counts; default: now.
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
    ) -> None:
        self.model = model
        self.prompt = prompt
        self.settings = settings
        self.stop_reason: StopReason | None = None
        self.error: ErrorInfo | None = None
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

    def stop(self, reason: StopReason = StopReason.STOPPED) -> None:
        """End the run; what it had produced stays. Only the first reason counts."""
        if self.stop_reason is None:
            self.stop_reason = reason

    def note_pause(self, seconds: float) -> None:
        """Of the time before the next turn, so much was the reader's own pause: it is counted apart from waiting."""
        self._pauses_s += max(seconds, 0.0)

    def kv_bytes(self) -> int:
        """Bytes of the cache, measured on its tensors; 0 before prefill. Raises RunFreed."""
        self._check_kept()
        return 0 if self._stepper is None else self._stepper.cache.bytes()

    def held_bytes(self) -> int:
        """Bytes of live memory: cache and recorded queries after the newest token, and what a look keeps. Any thread may ask."""
        newest, stepper = self._steps[-1] if self._steps else self._prefill, self._stepper
        return 0 if newest is None or stepper is None else newest.kv_bytes + newest.recorded_bytes + stepper.rereading.kept_bytes()

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
        )

    def free(self) -> None:
        """Drop cache and queries. A run that had not ended is stopped; its record stays."""
        self.stop()
        self._stepper = None
        self._freed = True

    def _encoding(self) -> Encoded:
        if self._encoded is None:
            model, most = self.model, self.model.info.context_length
            self._encoded = self._recording_failure(lambda: encode(model.tokenizer, model.vocabulary, self.prompt, self.settings, most))
        return self._encoded

    def _read(self) -> PrefillTrace:
        """Prefill itself. What of the time until the first id was neither work nor pause was waiting: the queue."""
        encoded = self._encoding()
        info = self.model.info
        count = len(encoded.tokens)
        check_limit(self.model.shape, count, info.dtype_bytes, self.settings.kv_limit_bytes)
        self._stepper = stepper = Stepper(self.model, self.settings, self._clock)
        advance = read_prompt(stepper, encoded.tokens, info.prefill_threads)
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
        )

    def _write(self) -> DecodeStep:
        """Read the newest token, pick the next one. Everything that belongs to the step lies between its two stamps."""
        stepper = self._live_stepper()
        started_at = self._clock.now()
        gap_s = max(started_at - self._last_at, 0.0)
        paused_s = min(self._pauses_s, gap_s)
        advance = write_next(stepper, self._newest().id, self.model.info.decode_threads)
        index = len(self._steps) + 1
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
        )
        self._steps.append(step)
        return step

    def _may_go_on(self) -> bool:
        """Read the prompt if that is still to do; then look at the borders. False: the run has ended, and says why."""
        if self._prefill is None and self.stop_reason is None:
            try:
                self.prefill()
            except Exception:
                logger.debug("run ended: %s", self.error, exc_info=True)
                return False
        if self.stop_reason is None:
            self.stop_reason = reason_to_stop(self._standing(), self.settings, self.model.info)
            if self.stop_reason is StopReason.OUT_OF_MEMORY:
                self.error = OutOfMemory(detail=f"KV cache: capped at {self.settings.kv_limit_bytes} B").info
        return self.stop_reason is None

    def _standing(self) -> Standing:
        cached = self._live_stepper().cache.tokens()
        following = 0
        if self.settings.kv_limit_bytes is not None:
            following = kv_bytes(self.model.shape, tokens=cached + 1, dtype_bytes=self.model.info.dtype_bytes, between_steps=True)
        return Standing(self._newest().id, len(self._steps) + 1, len(self.tokens), self._own_s, following)

    def _newest(self) -> Token:
        return self._steps[-1].token if self._steps else self.prefill().first

    def _mark(self, at: float) -> None:
        """A new id exists since `at`: gaps and pauses count from here."""
        self._last_at = at
        self._pauses_s = 0.0

    def _recording_failure(self, work: Callable[[], T]) -> T:
        """Do `work`; a failure ends the run with its error and is raised, an allocator's as OutOfMemory."""
        try:
            with memory_checked():
                return work()
        except EngineError as error:
            self._fail(error.info)
            raise
        except Exception as error:
            logger.exception("a run failed")
            self._fail(ErrorInfo("internal", {"detail": f"{type(error).__name__}: {error}"}))
            raise

    def _fail(self, error: ErrorInfo) -> None:
        if self.stop_reason is None:
            self.stop_reason = StopReason.OUT_OF_MEMORY if error.code == OutOfMemory.code else StopReason.ERROR
            self.error = error

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
