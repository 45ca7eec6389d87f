"""A client whose engine process only pretends: what is posted is kept, what is heard is put in by hand."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from engine import codec
from engine.serve import client as client_module
from engine.serve.client import EngineClient, EngineStatus
from engine.serve.protocol import Message, read_command
from engine.settings import Settings
from engine.trace import RunSettings


def pretend(monkeypatch: pytest.MonkeyPatch) -> list[Message]:
    """From now on clients start no process; gives the list of what they send."""
    messages: list[Message] = []

    class FakeKeeper:
        number = 0

        def __init__(self, settings: Settings, receive: Callable[..., None], lost: Callable[..., list[bytes]]) -> None:
            self.receive, self.lost = receive, lost

        def start(self) -> None: ...

        def close(self) -> None: ...

        def status(self) -> EngineStatus:
            return EngineStatus("ready", 1, self.number)

        def post(self, message: bytes, sent: Callable[[int], None] | None = None) -> None:
            messages.append(read_command(message))
            if sent:
                sent(self.number)

    monkeypatch.setattr(client_module, "Keeper", FakeKeeper)
    return messages


def hear(client: EngineClient, message: Message, more: bytes = b"") -> None:
    client._keeper.receive(codec.dump(message), lambda: more)


def submit(client: EngineClient, **changes: object) -> tuple[str, str]:
    ticket = client.submit("why?", RunSettings(max_new_tokens=9), **{"model": "m", "session": "s"} | changes)
    return ticket.run_id, ticket.key
