"""What the worker does between turns: errands and other tasks that report their own failures.

Knows that one of them may fail all the same; does not know what they do.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

log = logging.getLogger(__name__)


class Errand(Protocol):
    """Something long that the worker does between turns. It reports its own failures."""

    def can_run(self) -> bool: ...
    def run(self) -> None: ...


def guarded(task: Callable[[], None]) -> None:
    """Do a task that reports its own failures; one that does not is logged, and those after it still get their turn."""
    try:
        task()
    except Exception:
        log.exception("a task that reports its own failures did not")
