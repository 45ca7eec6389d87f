"""Records that came from a file and stand in the app's book like runs that have ended: pages show them, nothing can be asked of them.

Knows the book; does not know files, sessions or the engine process.
"""

from __future__ import annotations


class Recordings:
    """The recordings of a client."""
