"""What this machine was measured to do: arithmetic and memory per second, and what reading the clock costs.

Knows the words and what the engine's client tells; does not know which page it stands on.
"""

from __future__ import annotations


def show() -> None:
    """Draw the section."""
