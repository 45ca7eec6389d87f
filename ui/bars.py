"""One bar of a list that others draw around it. Knows shares of the longest; not what is weighed, nor how a bar looks (ui.scale)."""

from __future__ import annotations

from ui.scale import Row, scale


def bar(share: float, words: str) -> None:
    """A bar over `share` (0 … 1) of the room there is, in the colour of the notes, and `words` behind it."""
    scale([Row("", min(max(share, 0.0), 1.0), words, "notes")], full=1.0)
