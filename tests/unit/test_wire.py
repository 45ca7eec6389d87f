"""The door of the app: who is let in, who is not, and that nobody who only stands there holds anything up."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from multiprocessing import AuthenticationError

import pytest

from engine.serve import wire as wire_module
from engine.serve.wire import LOOPBACK, Door, Wire, dial
from tests.exam import until

KEY = b"k" * 32


@pytest.fixture
def door() -> Iterator[Door]:
    made = Door()
    yield made
    made.close()


def knock(port: int, key: bytes, came: list[Wire | Exception]) -> threading.Thread:
    def come() -> None:
        try:
            came.append(dial(port, key))
        except (AuthenticationError, EOFError, OSError) as failure:
            came.append(failure)

    thread = threading.Thread(target=come, daemon=True)
    thread.start()
    return thread


def test_who_has_the_key_comes_in_past_silent_strangers(door: Door) -> None:
    strangers = [socket.create_connection((LOOPBACK, door.port)) for _ in range(2)]
    strangers[1].sendall(b"\0")  # the first byte of a length, and no more
    came: list[Wire | Exception] = []
    knock(door.port, KEY, came)
    began_at = time.monotonic()
    wire = door.accept(KEY, timeout_s=10.0)
    assert time.monotonic() - began_at < wire_module.HANDSHAKE_S / 2
    assert wire is not None
    until(lambda: came, 5.0)
    assert isinstance(came[0], Wire)
    came[0].send(b"hello")
    assert wire.receive() == b"hello"
    assert wire.can_send(0.0)
    for stranger in strangers:
        stranger.close()


def test_a_silent_stranger_takes_no_longer_than_the_time_given(door: Door) -> None:
    with socket.create_connection((LOOPBACK, door.port)):
        began_at = time.monotonic()
        assert door.accept(KEY, timeout_s=0.3) is None
        assert 0.25 < time.monotonic() - began_at < 1.0


def test_a_silent_stranger_is_sent_away(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire_module, "HANDSHAKE_S", 0.2)
    with socket.create_connection((LOOPBACK, door.port)) as stranger:
        assert door.accept(KEY, timeout_s=0.1) is None
        stranger.settimeout(5.0)
        assert _read_to_the_end(stranger)


def test_closing_sends_everybody_away_at_once(door: Door) -> None:
    with socket.create_connection((LOOPBACK, door.port)) as stranger:
        assert door.accept(KEY, timeout_s=0.1) is None
        began_at = time.monotonic()
        door.close()
        stranger.settimeout(5.0)
        assert _read_to_the_end(stranger)
        assert time.monotonic() - began_at < 1.0
    with pytest.raises(OSError):
        door.accept(KEY, timeout_s=0.1)


def test_another_key_opens_nothing(door: Door) -> None:
    came: list[Wire | Exception] = []
    knock(door.port, b"x" * 32, came)
    assert door.accept(KEY, timeout_s=0.5) is None
    until(lambda: came, 5.0)
    assert isinstance(came[0], Exception)


def _read_to_the_end(stranger: socket.socket) -> bool:
    while stranger.recv(4096):
        pass
    return True
