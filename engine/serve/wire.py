"""One connection between the app and the engine process: messages of bytes over the loopback interface.

Knows sockets and the one-time key; does not know what the messages mean. Both ends switch Nagle's algorithm off, which would
otherwise hold a step back until the one before it is acknowledged (up to 40 ms).
"""

from __future__ import annotations

import contextlib
import logging
import queue
import selectors
import socket
import threading
import time
from collections.abc import Iterator
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge

LOOPBACK = "127.0.0.1"
HANDSHAKE_S = 5.0
GLANCE_S = 0.02

log = logging.getLogger(__name__)


class Wire:
    """A connected, authenticated pipe. `receive` is for one thread; `send` is not locked here either: one sender at a time."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def send(self, data: bytes | memoryview) -> None:
        """Raises OSError when the other side is gone."""
        self._connection.send_bytes(data)

    def can_send(self, timeout_s: float) -> bool:
        """Whether a short message would go out at once, or would within `timeout_s`. Raises OSError when the connection is closed."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._connection.fileno(), selectors.EVENT_WRITE)
            return bool(selector.select(timeout_s))

    def receive(self) -> bytes:
        """The next message. Raises EOFError or OSError when the other side is gone."""
        return self._connection.recv_bytes()

    def close(self) -> None:
        self._connection.close()


def dial(port: int, key: bytes) -> Wire:
    """The engine's end. Raises OSError when nobody listens, AuthenticationError when the other side has another key."""
    wire = _adopt(socket.create_connection((LOOPBACK, port)))
    answer_challenge(wire, key)
    deliver_challenge(wire, key)
    return Wire(wire)


class Door:
    """The app's end: a port on the loopback interface where one engine process is let in.

    Any program of this machine may knock. Each caller is asked for the key in a thread of its own, so that one who says nothing
    holds up neither the engine nor the closing.
    """

    def __init__(self) -> None:
        self._socket = socket.create_server((LOOPBACK, 0), backlog=4)
        self.port: int = self._socket.getsockname()[1]
        self._lock = threading.Lock()
        self._callers: set[socket.socket] = set()  # being asked for the key
        self._admitted: queue.SimpleQueue[Wire] = queue.SimpleQueue()
        self._closed = False

    def accept(self, key: bytes, timeout_s: float) -> Wire | None:
        """The first caller who has the key; None when there was none within `timeout_s`. Raises OSError when the door is closed.

        A caller who came late may still be let in by the next call.
        """
        give_up_at = time.monotonic() + timeout_s
        while True:
            with contextlib.suppress(queue.Empty):
                return self._admitted.get_nowait()
            left_s = give_up_at - time.monotonic()
            if left_s <= 0:
                return None
            self._socket.settimeout(min(left_s, GLANCE_S))
            with contextlib.suppress(TimeoutError):
                caller, _ = self._socket.accept()
                threading.Thread(target=self._examine, args=(caller, key), name="door", daemon=True).start()

    def close(self) -> None:
        """Whoever has not been let in is sent away."""
        self._socket.close()
        with self._lock:
            self._closed = True
            for caller in self._callers:
                _cut(caller)
        with contextlib.suppress(queue.Empty):
            while True:
                self._admitted.get_nowait().close()

    def _examine(self, caller: socket.socket, key: bytes) -> None:
        """In the caller's own thread: let in, or sent away after HANDSHAKE_S at the latest."""
        caller.settimeout(None)
        with caller, self._present(caller):
            connection = _adopt(caller.dup())
            try:
                deliver_challenge(connection, key)
                answer_challenge(connection, key)
            except (AuthenticationError, EOFError, OSError):
                log.info("a caller without the key")
                connection.close()
                return
            with self._lock:
                if not self._closed:
                    self._admitted.put(Wire(connection))
                    return
            connection.close()

    @contextlib.contextmanager
    def _present(self, caller: socket.socket) -> Iterator[None]:
        """While inside, `caller` is cut off when its time is up, and when the door is closed."""
        with self._lock:
            self._callers.add(caller)
            if self._closed:
                _cut(caller)
        limit = threading.Timer(HANDSHAKE_S, _cut, args=(caller,))
        limit.daemon = True
        limit.start()
        try:
            yield
        finally:
            limit.cancel()
            with self._lock:
                self._callers.discard(caller)


def _cut(caller: socket.socket) -> None:
    """Ends the connection under whoever is reading from it, which closing alone does not."""
    with contextlib.suppress(OSError):  # it is gone already
        caller.shutdown(socket.SHUT_RDWR)


def _adopt(plain: socket.socket) -> Connection:
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return Connection(plain.detach())
