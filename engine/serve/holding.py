"""How much live memory is kept: which runs that have ended let go of theirs, and which are forgotten.

Knows jobs and bytes; does not know turns. Its caller holds the lock.
"""

from __future__ import annotations

from engine.serve.job import Job

HELD_BYTES = 1024**3  # of live memory in all: sixteen runs that recorded as much as they may, and their caches, would be four times that
JOBS_REMEMBERED = 512  # ended and freed, so that a late question hears "freed" and not "unknown"


class Holding:
    """`held_runs`, `held_bytes`: how many started jobs keep their live memory at once, and how much it may be in all."""

    def __init__(self, held_runs: int, held_bytes: int) -> None:
        self._held_runs, self._held_bytes = held_runs, held_bytes

    def trim(self, jobs: dict[str, Job]) -> None:
        """`jobs`: the ended ones in the order in which they ended; the first of them are freed first. For want of bytes alone neither a
        job that goes on is freed nor the one that ended last."""
        holding = [job for job in jobs.values() if job.started and not job.freed]
        surplus = len(holding) - self._held_runs
        surplus_bytes = sum(job.work.held_bytes() for job in holding) - self._held_bytes
        newest = next((job for job in reversed(holding) if job.ended), None)
        for job in [job for job in holding if job.ended and not job.busy]:
            if surplus > 0 or (surplus_bytes > 0 and job is not newest):
                surplus, surplus_bytes = surplus - 1, surplus_bytes - job.work.held_bytes()
                job.free()
        for run_id in [job.run_id for job in jobs.values() if job.ended and job.freed][:-JOBS_REMEMBERED]:
            del jobs[run_id]
