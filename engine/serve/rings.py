"""Whose turn is next: round robin between sessions, and between the jobs of one session.

Knows jobs that have not ended and when their next turn is due; does not know what a turn is. Its caller holds the lock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterator

from engine.serve.job import Job


class Rings:
    """One ring of live jobs for each session; rings and jobs stand in the order of their next turns."""

    def __init__(self) -> None:
        self._rings: dict[str, deque[Job]] = {}

    def __iter__(self) -> Iterator[Job]:
        return (job for ring in self._rings.values() for job in ring)

    def add(self, job: Job) -> None:
        self._rings.setdefault(job.session, deque()).append(job)

    def remove(self, job: Job) -> None:
        ring = self._rings[job.session]
        ring.remove(job)
        if not ring:
            del self._rings[job.session]

    def take(self, now: float) -> Job | None:
        """The next due job of the next session in turn; both go to the end of their rings. One that rests comes after all others."""
        awake = self._take(lambda job: job.is_due(now) and not job.rests(now))
        return self._take(lambda job: job.is_due(now)) if awake is None else awake

    def _take(self, may: Callable[[Job], bool]) -> Job | None:
        for session, ring in self._rings.items():
            job = next((job for job in ring if may(job)), None)
            if job is not None:
                ring.remove(job)
                ring.append(job)
                self._rings[session] = self._rings.pop(session)
                return job
        return None

    def next_due_at(self) -> float | None:
        """When the first turn is due; None: nobody wants one."""
        return min((job.due_at() for job in self if job.wants_turn), default=None)

    def others_wait(self, session: str, now: float) -> bool:
        """Whether a turn of another session is due."""
        return any(job.is_due(now) for job in self if job.session != session)

    def of(self, group: Hashable) -> list[Job]:
        return [job for job in self if job.group == group]
