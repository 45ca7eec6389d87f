"""A sweep as it travels: which lengths were asked for, what was measured at each, how it stands. Knows no model and no clock."""

from __future__ import annotations
