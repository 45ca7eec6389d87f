"""The app's end of one engine process: started, let in, spoken to, and ended.

Knows the process and its connection; does not know runs, nor when a new process is due.
"""

from __future__ import annotations

import contextlib
import secrets
import subprocess
import sys
import threading
import time
from pathlib import Path

from engine import codec
from engine.serve.protocol import Boot, Shutdown
from engine.serve.wire import Door, Wire
from engine.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
COMING_S = 60.0  # a process that has not come to the door by then is given up
LEAVING_S = 3.0
ASKING_S = 0.5


class Link:
    """One engine process. Raises OSError when it cannot be started."""

    def __init__(self, settings: Settings) -> None:
        self._key = secrets.token_bytes(32)
        self._door = Door()
        self._wire: Wire | None = None
        self._sending = threading.Lock()
        self._closing = False
        command = [sys.executable, "-m", "engine.serve.server", str(self._door.port)]
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE)
        boot = Boot(self._key.hex(), str(settings.home), settings.offline, settings.held_runs)
        assert self._process.stdin is not None
        with contextlib.suppress(OSError), self._process.stdin as pipe:  # it may be dead already: `open` will tell
            pipe.write(codec.dump(boot) + b"\n")

    @property
    def pid(self) -> int:
        return self._process.pid

    def open(self) -> None:
        """Wait until the process has come in. Raises EOFError when it died, did not come, or is not wanted any more."""
        give_up_at = time.monotonic() + COMING_S
        try:
            while self._wire is None:
                if self._closing or self._process.poll() is not None or time.monotonic() > give_up_at:
                    raise EOFError
                self._wire = self._door.accept(self._key, timeout_s=0.2)
        finally:
            self._door.close()

    def send(self, data: bytes) -> None:
        """One message. Raises OSError when the process is gone."""
        with self._sending:
            if self._wire is None:
                raise BrokenPipeError
            self._wire.send(data)

    def receive(self) -> bytes:
        """The next message, for one thread. Raises EOFError or OSError when the process is gone."""
        assert self._wire is not None
        return self._wire.receive()

    def end(self) -> int:
        """Make sure that the process is gone: asked, then told, then forced. Gives its exit code (negative: a signal).

        Never waits for a thread that is stuck in `send` because the process does not read: that one wakes when the process is gone.
        """
        self._closing = True
        self._door.close()
        self._ask_to_leave()
        for urge in (lambda: None, self._process.terminate, self._process.kill):
            urge()
            with contextlib.suppress(subprocess.TimeoutExpired):
                return self._process.wait(LEAVING_S)
        return self._process.wait()

    def _ask_to_leave(self) -> None:
        if not self._sending.acquire(timeout=ASKING_S):
            return
        try:
            with contextlib.suppress(OSError):  # gone by itself
                if self._wire is not None and self._wire.can_send(ASKING_S):
                    self._wire.send(codec.dump(Shutdown()))
        finally:
            self._sending.release()
