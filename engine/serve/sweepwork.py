"""A sweep as a job's work: one measurement each turn, told as messages; it can be halted in the middle of one.

Knows experiments and the messages; does not know turns of others or models' loading. Imports nothing heavy until its first turn.
"""

from __future__ import annotations

import platform
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from engine.errors import ErrorInfo, RunFreed
from engine.serve.asks import Look
from engine.serve.protocol import BeginSweep, Message, SweepEnded, SweepMoved
from engine.sweep import SweepStatus
from engine.trace import RunStatus, StopReason

if TYPE_CHECKING:
    from engine.model.loader import LoadedModel


class SweepWork:
    """`model` is asked for at the first turn. Its stop reasons: `length` when all has been measured, `stopped`."""

    def __init__(self, command: BeginSweep, model: Callable[[], LoadedModel]) -> None:
        self._command, self._model = command, model
        self._halted = threading.Event()
        self.stop_reason: StopReason | None = None
        self.error: ErrorInfo | None = None

    def turns(self) -> Iterator[tuple[Message, ...]]:
        """SweepMoved, one for each measurement. Halted in the middle of one, the turn gives nothing, and what it held is gone."""
        from engine.model.brake import Halted

        try:
            yield from self._measure()
        except Halted:
            self.stop(StopReason.STOPPED)

    def halt(self, error: ErrorInfo | None) -> None:
        """Give up the turn that is under way, if there is one: for any thread. `error`: why, where it was not the reader's wish."""
        self.error = self.error or error
        self._halted.set()

    def _measure(self) -> Iterator[tuple[Message, ...]]:
        from engine.experiments.registry import experiment

        sweep_id, model = self._command.sweep_id, self._model()
        lengths = tuple(one for one in self._command.lengths if one <= model.info.context_length) or (model.info.context_length,)
        heading: tuple[Message, ...] = (SweepMoved(sweep_id, "measuring", model=model.info, lengths=lengths, conditions=_conditions()),)
        for turn in experiment(self._command.kind).measure(model, lengths, self._halted.is_set):
            if turn.then is None:
                self.stop_reason = StopReason.LENGTH
            yield *heading, SweepMoved(sweep_id, "measuring", sample=turn.sample, then=turn.then)
            heading = ()

    def aside(self) -> Message | None:
        return None

    def note_pause(self, seconds: float) -> None:
        """A sweep has no clock of its own between two measurements."""

    def stop(self, reason: StopReason) -> None:
        self._halted.set()
        self.stop_reason = self.stop_reason or reason

    def free(self) -> None:
        """What it holds lies in its turns, which end with the job."""

    def look(self, question: Look) -> Any:
        raise RunFreed(run=self._command.sweep_id)

    def held_bytes(self) -> int:
        return 0


def word_of(sweep_id: str, status: RunStatus, reason: StopReason | None = None, error: ErrorInfo | None = None) -> Message:
    """How a job's status is told where the job is a sweep."""
    if status is not RunStatus.ENDED:
        return SweepMoved(sweep_id, "measuring" if status is RunStatus.RUNNING else "waiting")
    ends: dict[StopReason | None, SweepStatus] = {StopReason.LENGTH: "done", StopReason.STOPPED: "stopped"}
    return SweepEnded(sweep_id, ends.get(reason, "failed"), error)


def _conditions() -> dict[str, str]:
    """What the times depend on and the model does not say."""
    from engine.model.device import available_threads

    return {"system": platform.platform(), "processor": platform.processor() or platform.machine(), "cores": str(available_threads())}
