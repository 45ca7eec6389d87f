"""The session's finished runs as a table, and the picked ones over each other.

Knows the words and what the engine's client tells; does not know which page it stands on.
"""

from __future__ import annotations


def show() -> None:
    """Draw the section."""
