"""What this machine was measured to do, as it is kept and shown. Knows numbers and their conditions; measures nothing."""

from __future__ import annotations
