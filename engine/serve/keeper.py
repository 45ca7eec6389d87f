"""Keeps one engine process alive for the app: starts it, listens to it, replaces it when it dies.

Knows processes and the order of messages; does not know what the messages mean. What is posted while no process is up waits for the next.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from engine.serve.link import Link
from engine.settings import Settings

log = logging.getLogger(__name__)

HASTY_S = 5.0  # a new process that dies sooner makes the next one wait
LONGEST_WAIT_S = 30.0

Sent = Callable[[int], None]


class Garbled(Exception):
    """A message that says nothing to anybody: the process that sent it is beyond help."""


@dataclass(frozen=True, slots=True)
class EngineStatus:
    """`restarts`: how many processes have died so far."""

    state: Literal["starting", "ready", "restarting", "closed"]
    pid: int | None
    restarts: int


class Keeper:
    """`receive(data, more)`: one message, and a call for the binary one that may follow; Garbled ends the process that sent it, any
    other failure is that message's own. `lost(number, exit_code)` gives what the next process is to hear first. Both are called in
    the keeper's own thread, which lives as long as there are processes to keep. Processes are numbered from 0.
    """

    def __init__(
        self, settings: Settings, receive: Callable[[bytes, Callable[[], bytes]], None], lost: Callable[[int, int], list[bytes]]
    ) -> None:
        self._settings, self._receive, self._lost = settings, receive, lost
        self._lock = threading.Lock()
        self._link: Link | None = None  # the present process, up or coming up
        self._up = False
        self._outbox: list[tuple[bytes, Sent | None]] = []
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="engine keeper", daemon=True)
        self.number = 0

    def start(self) -> None:
        self._thread.start()

    def status(self) -> EngineStatus:
        with self._lock:
            if self._closed.is_set():
                return EngineStatus("closed", None, self.number)
            if self._up and self._link is not None:
                return EngineStatus("ready", self._link.pid, self.number)
            return EngineStatus("restarting" if self.number else "starting", None, self.number)

    def post(self, message: bytes, sent: Sent | None = None) -> None:
        """In order. `sent(number)` is told which process got it, before anything comes back from that one."""
        with self._lock:
            if self._up:
                self._send(message, sent)
            else:
                self._outbox.append((message, sent))

    def close(self) -> None:
        """No process is left behind."""
        self._closed.set()
        link = self._link  # without the lock, which a sender may hold until the process is gone; one that comes now sees `_closed`
        if link is not None:
            link.end()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    def _send(self, message: bytes, sent: Sent | None) -> None:
        if sent is not None:
            sent(self.number)
        if self._link is not None:
            with contextlib.suppress(OSError):  # it is dead: the listening thread is about to find out and tell everybody
                self._link.send(message)

    def _keep(self) -> None:
        hasty = 0
        while not self._closed.is_set():
            began_at = time.monotonic()
            exit_code = self._attend()
            if self._closed.is_set():
                return
            log.warning("the engine process has ended with exit code %s", exit_code)
            hasty = hasty + 1 if self.number and time.monotonic() - began_at < HASTY_S else 0
            first: list[tuple[bytes, Sent | None]] = [(message, None) for message in self._tell_lost(exit_code)]
            with self._lock:
                self.number += 1
                self._outbox[:0] = first
            self._closed.wait(min(2.0 ** (hasty - 1), LONGEST_WAIT_S) if hasty else 0)

    def _attend(self) -> int:
        """One process, from its start to its end. Gives its exit code."""
        try:
            link = Link(self._settings)
        except Exception:
            log.exception("the engine process could not be started")
            return -1
        with self._lock:
            self._link = link
        try:
            if not self._closed.is_set():
                link.open()
                self._welcome()
                while True:
                    self._hear(link)
        except (EOFError, OSError):
            log.info("the engine's connection is closed")
        except Exception:
            log.exception("the engine process is given up")
        finally:
            with self._lock:
                self._up = False
        return link.end()

    def _hear(self, link: Link) -> None:
        """One message. Raises EOFError or OSError when the process is gone, Garbled when it had better be."""
        data = link.receive()
        try:
            self._receive(data, link.receive)
        except (EOFError, OSError, Garbled):
            raise
        except Exception:
            log.exception("a message could not be handled")

    def _tell_lost(self, exit_code: int) -> list[bytes]:
        try:
            return self._lost(self.number, exit_code)
        except Exception:
            log.exception("the loss of an engine process could not be handled")
            return []

    def _welcome(self) -> None:
        with self._lock:
            self._up = True
            waiting, self._outbox = self._outbox, []
            for message, sent in waiting:
                self._send(message, sent)
