"""The base of all that the app and the engine process say to each other. Knows no message."""

from __future__ import annotations

import msgspec


class Message(msgspec.Struct, frozen=True, tag_field="type"):
    """Base of all messages; `type` in the JSON tells them apart."""
