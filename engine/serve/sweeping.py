"""Sweeps as the app's client knows them: asked for, moving on point by point, cancelled, over.

Knows what a sweep has measured so far; does not know how it is measured (engine.experiments) nor how messages travel.
"""

from __future__ import annotations


class SweepDesk:
    """The sweeps of a client."""
