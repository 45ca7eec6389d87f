"""A sweep over lengths: ask for it, follow its progress, cancel it, read its curve and fit.

Knows the words and what the engine's client tells; does not know which page it stands on.
"""

from __future__ import annotations


def show() -> None:
    """Draw the section."""
