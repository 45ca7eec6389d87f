"""Records as files: export of what is on the shelf, import of what comes from elsewhere, and replay.

Knows the words and what the engine's client tells; does not know which page it stands on.
"""

from __future__ import annotations


def show() -> None:
    """Draw the section."""
