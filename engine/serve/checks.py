"""What may be asked for at the app's border: paces, places in a run, lengths of a sweep. Knows the limits; does not know who asks."""

from __future__ import annotations

from collections.abc import Sequence

from engine.errors import InvalidSetting, OutOfRange
from engine.sweep import KINDS, LONGEST, MOST_LENGTHS, SHORTEST

PACE_LIMIT_S = 3600.0


def check_pace(pace_s: float) -> None:
    """Raises InvalidSetting."""
    if not isinstance(pace_s, int | float) or not 0.0 <= pace_s <= PACE_LIMIT_S:
        raise InvalidSetting(field="pace_s", value=str(pace_s), allowed=f"0 … {PACE_LIMIT_S}")


def check_place(field: str, value: int, count: int) -> None:
    """Raises InvalidSetting for what is no whole number, OutOfRange unless 0 ≤ value < count."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidSetting(field=field, value=str(value), allowed=f"0 … {count - 1}")
    if not 0 <= value < count:
        raise OutOfRange(field=field, value=value, count=count)


def check_sweep(kind: str, lengths: Sequence[int]) -> None:
    """Raises InvalidSetting for another kind, too many lengths or none, and lengths that do not rise between SHORTEST and LONGEST."""
    if kind not in KINDS:
        raise InvalidSetting(field="kind", value=str(kind), allowed=" | ".join(KINDS))
    if not 1 <= len(lengths) <= MOST_LENGTHS:
        raise InvalidSetting(field="lengths", value=str(len(lengths)), allowed=f"1 … {MOST_LENGTHS}")
    for length, before in zip(lengths, (SHORTEST - 1, *lengths), strict=False):
        if isinstance(length, bool) or not isinstance(length, int) or not before < length <= LONGEST:
            raise InvalidSetting(field="lengths", value=str(length), allowed=f"{SHORTEST} … {LONGEST}")
