"""What a job in the engine process does: a Run, told turn by turn as messages.

Knows Run and the messages; does not know turns of others, models' loading or the connection. Imports nothing heavy until its
first turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from engine.errors import ErrorInfo, RunFreed
from engine.serve.asks import AskAttention, AskCell, AskLens, AskLinks, Look
from engine.serve.protocol import Message, Prefilled, Stepped, Submit, Tokenized
from engine.trace import DecodeStep, StopReason, Token

if TYPE_CHECKING:
    from engine.model.loader import LoadedModel
    from engine.run import Run


class RunWork:
    """`model` is asked for at the first turn. `submitted_at`: perf_counter stamp from which waiting counts."""

    def __init__(self, command: Submit, model: Callable[[], LoadedModel], submitted_at: float) -> None:
        self._command, self._model, self._submitted_at = command, model, submitted_at
        self._run: Run | None = None
        self._early_pause_s = 0.0
        self._stop_reason: StopReason | None = None
        self._error: ErrorInfo | None = None

    @property
    def stop_reason(self) -> StopReason | None:
        return self._stop_reason if self._run is None else self._run.stop_reason

    @property
    def error(self) -> ErrorInfo | None:
        return self._error if self._run is None else self._run.error

    def turns(self) -> Iterator[Message]:
        """Tokenized, Prefilled, then a Stepped for each further token."""
        from engine.run import Run

        run_id, model = self._command.run_id, self._model()
        run = self._run = Run(model, self._command.prompt, self._command.settings, submitted_at=self._submitted_at)
        run.note_pause(self._early_pause_s)
        yield Tokenized(run_id, model.info, run.tokens)
        prefill, steps = run.prefill(), run.decode()
        _close_if_complete(run, steps, prefill.first, 1)
        yield Prefilled(run_id, prefill)
        for step in steps:
            _close_if_complete(run, steps, step.token, step.index + 1)
            yield Stepped(run_id, step)

    def note_pause(self, seconds: float) -> None:
        if self._run is None:
            self._early_pause_s += seconds
        else:
            self._run.note_pause(seconds)

    def stop(self, reason: StopReason) -> None:
        if self._run is None:
            self._stop_reason = self._stop_reason or reason
        else:
            self._run.stop(reason)

    def free(self) -> None:
        """Lets go of the run, and with it of the model."""
        self._stop_reason, self._error = self.stop_reason, self.error
        if self._run is not None:
            self._run.free()
            self._run = None

    def look(self, question: Look) -> Any:
        run = self._live()
        match question:
            case AskAttention():
                return run.attention(question.layer, question.head, question.rows, question.until)
            case AskLinks():
                return run.links(question.query, question.key)
            case AskLens():
                return run.lens(question.count)
            case AskCell():
                return run.cell(question.layer, question.position)

    def held_bytes(self) -> int:
        run = self._run
        return 0 if run is None else run.held_bytes()

    def _live(self) -> Run:
        if self._run is None:
            raise RunFreed(run=self._command.run_id)
        return self._run


def _close_if_complete(run: Run, steps: Iterator[DecodeStep], newest: Token, generated: int) -> None:
    """A run notes its end when asked for one step too many: ask at once, so that the end does not wait for another turn."""
    ends = newest.id in run.model.info.eos_ids and not run.settings.ignore_eos
    if ends or generated >= run.settings.max_new_tokens:
        next(steps, None)
