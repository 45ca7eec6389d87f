"""What a job in the engine process does: a Run, told turn by turn as messages.

Knows Run and the messages; does not know turns of others, models' loading or the connection. Imports nothing heavy until its
first turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import msgspec

from engine.errors import ErrorInfo, RunFreed, RunNotBegun
from engine.serve.asks import AskAttention, AskCell, AskLens, AskLinks, AskStages, Look
from engine.serve.protocol import Branched, Glanced, Message, Prefilled, Stepped, Submit, Tokenized
from engine.stem import Stem
from engine.trace import DecodeStep, StopReason, Token

if TYPE_CHECKING:
    from engine.model.loader import LoadedModel
    from engine.run import Run


Neighbour = Callable[[], "AbstractContextManager[Run | None]"]


class RunWork:
    """`model` is asked for at the first turn. `submitted_at`: perf_counter stamp from which waiting counts.

    `left`, for a branch: the live run that it leaves, which is there as long as it is held; None where it has no live memory any more.
    """

    def __init__(
        self, command: Submit, model: Callable[[], LoadedModel], submitted_at: float, left: Neighbour = lambda: nullcontext(None)
    ) -> None:
        self._command, self._stem = msgspec.structs.replace(command, stem=None), command.stem
        self._model, self._submitted_at, self._left = model, submitted_at, left
        self._run: Run | None = None
        self._waits = True  # for its first turn
        self._newest = -1  # ordinal of the generated token that was written last
        self._early_pause_s = 0.0
        self._stop_reason: StopReason | None = None
        self._error: ErrorInfo | None = None

    @property
    def stop_reason(self) -> StopReason | None:
        return self._stop_reason if self._run is None else self._run.stop_reason

    @property
    def error(self) -> ErrorInfo | None:
        return self._error if self._run is None else self._run.error

    @property
    def live(self) -> Run | None:
        """The run while it has live memory. For the thread that owns it."""
        return self._run

    def turns(self) -> Iterator[tuple[Message, ...]]:
        """Tokenized, Prefilled, then a Stepped for each further token. A branch begins with the token that it wrote in another's place."""
        self._waits = False
        stem, self._stem = self._stem, None  # it is large, and a job is remembered for long
        return self._begin() if stem is None else self._begin_branch(stem)

    def aside(self) -> Message | None:
        """How the newest token read the notes; None where that cannot be told."""
        weights = None if self._run is None or self._newest < 0 else self._run.glance()
        if weights is None:
            return None
        return Glanced(self._command.run_id, self._newest, weights.astype("<f4").tobytes())

    def _begin(self) -> Iterator[tuple[Message, ...]]:
        from engine.run import Run

        run_id, model = self._command.run_id, self._model()
        run = self._run = Run(model, self._command.prompt, self._command.settings, submitted_at=self._submitted_at)
        run.note_pause(self._early_pause_s)
        yield (Tokenized(run_id, model.info, run.tokens),)
        prefill, steps = run.prefill(), run.decode()
        self._close_if_complete(run, steps, prefill.first, 0)
        yield (Prefilled(run_id, prefill),)
        yield from self._go_on(run, steps)

    def _begin_branch(self, stem: Stem) -> Iterator[tuple[Message, ...]]:
        """The first turn tells at once where the branch leaves and what it writes there."""
        from engine.run import Run

        run_id, command = self._command.run_id, self._command
        with self._left() as left:
            run = Run.revive(self._model(), command.prompt, command.settings, stem, submitted_at=self._submitted_at, parent=left)
        del left, stem
        self._run = run
        run.note_pause(self._early_pause_s)
        prefill, steps, newest = run.prefill(), run.decode(), run.newest
        assert run.origin is not None
        if isinstance(newest, DecodeStep):
            self._close_if_complete(run, steps, newest.token, newest.index)
            yield Branched(run_id, run.origin), Stepped(run_id, newest)
        else:
            self._close_if_complete(run, steps, prefill.first, 0)
            yield Branched(run_id, run.origin), Prefilled(run_id, prefill)
        yield from self._go_on(run, steps)

    def _go_on(self, run: Run, steps: Iterator[DecodeStep]) -> Iterator[tuple[Message, ...]]:
        for step in steps:
            self._close_if_complete(run, steps, step.token, step.index)
            yield (Stepped(self._command.run_id, step),)

    def _close_if_complete(self, run: Run, steps: Iterator[DecodeStep], newest: Token, index: int) -> None:
        """A run notes its end when asked for one step too many: ask at once, so that the end does not wait for another turn."""
        self._newest = index
        ends = newest.id in run.model.info.eos_ids and not run.settings.ignore_eos
        if ends or index + 1 >= run.settings.max_new_tokens:
            next(steps, None)

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
        self._stem, self._waits = None, False
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
            case AskStages():
                return run.stages(question.index, question.temperature, question.top_k, question.top_p, question.count)

    def held_bytes(self) -> int:
        run = self._run
        return 0 if run is None else run.held_bytes()

    def _live(self) -> Run:
        """Raises RunNotBegun; RunFreed, also where it failed before it had any live memory."""
        if self._run is None:
            kind = RunNotBegun if self._waits else RunFreed
            raise kind(run=self._command.run_id)
        return self._run
