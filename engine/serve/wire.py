"""One connection between the app and the engine process: messages of bytes over the loopback interface.

Knows sockets and the one-time key; does not know what the messages mean. Both ends switch Nagle's algorithm off, which would
otherwise hold a step back until the one before it is acknowledged (up to 40 ms).
"""

from __future__ import annotations

import socket
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge

LOOPBACK = "127.0.0.1"


class Wire:
    """A connected, authenticated pipe. `receive` is for one thread; `send` is not locked here either: one sender at a time."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def send(self, data: bytes | memoryview) -> None:
        """Raises OSError when the other side is gone."""
        self._connection.send_bytes(data)

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
    """The app's end: a port on the loopback interface where one engine process is let in."""

    def __init__(self) -> None:
        self._socket = socket.create_server((LOOPBACK, 0), backlog=4)
        self.port: int = self._socket.getsockname()[1]

    def accept(self, key: bytes, timeout_s: float) -> Wire | None:
        """The first caller who has the key; None when nobody (or only a stranger) came within `timeout_s`."""
        self._socket.settimeout(timeout_s)
        try:
            caller, _ = self._socket.accept()
        except TimeoutError:
            return None
        caller.settimeout(None)
        connection = _adopt(caller)
        try:
            deliver_challenge(connection, key)
            answer_challenge(connection, key)
        except (AuthenticationError, EOFError, OSError):
            connection.close()
            return None
        return Wire(connection)

    def close(self) -> None:
        self._socket.close()


def _adopt(plain: socket.socket) -> Connection:
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return Connection(plain.detach())
