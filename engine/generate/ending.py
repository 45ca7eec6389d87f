"""How a run ended: its reason and its error, noted once.

Knows failures and reasons; does not know what was being done nor when an answer is complete (engine.generate.decode).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from engine.errors import EngineError, ErrorInfo, OutOfMemory
from engine.model.device import memory_checked
from engine.trace import StopReason

logger = logging.getLogger(__name__)
T = TypeVar("T")


class Ending:
    """`stop_reason` None: not ended. `error`: what went wrong, where anything did."""

    def __init__(self) -> None:
        self.stop_reason: StopReason | None = None
        self.error: ErrorInfo | None = None

    def stop(self, reason: StopReason = StopReason.STOPPED) -> None:
        """End the run; what it had produced stays. Only the first reason counts. Any thread may call."""
        if self.stop_reason is None:
            self.stop_reason = reason

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
