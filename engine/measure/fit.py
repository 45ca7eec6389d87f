"""A curve through measured times: constant, linear and quadratic part. Pure arithmetic without torch."""

from __future__ import annotations
