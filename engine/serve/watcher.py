"""One browser's place in the queue for what is new in a run.

Knows frames (JSON texts, encoded once for all) and the event loop that waits for them; does not know what they say.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

FRAMES_WAITING = 512  # a browser further behind starts again from a snapshot


class Watcher:
    """Made inside the event loop that waits. `put` and `take` under the book's lock; `wake` in any thread."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.behind = True  # needs a snapshot before anything else
        self.over = False
        self.loop = asyncio.get_running_loop()
        self.event = asyncio.Event()
        self._frames: list[str] = []

    def put(self, frame: str) -> None:
        """Keep for the browser; too many at once are replaced by a new snapshot, which holds them all."""
        if self.behind:
            return
        self._frames.append(frame)
        if len(self._frames) > FRAMES_WAITING:
            self.behind = True

    def take(self) -> list[str]:
        """What has come since the last time; nothing where a snapshot stands for it."""
        frames = [] if self.behind else self._frames
        self._frames, self.behind = [], False
        return frames


def wake(watchers: Iterable[Watcher]) -> None:
    """One call per event loop, however many watch."""
    loops: dict[asyncio.AbstractEventLoop, list[Watcher]] = {}
    for watcher in watchers:
        loops.setdefault(watcher.loop, []).append(watcher)
    for loop, members in loops.items():
        if not loop.is_closed():
            _call(loop, members)


def _call(loop: asyncio.AbstractEventLoop, members: list[Watcher]) -> None:
    def tell() -> None:
        for member in members:
            member.event.set()

    try:
        loop.call_soon_threadsafe(tell)
    except RuntimeError:  # closed in this very moment: its watchers are gone with it
        for member in members:
            member.over = True
