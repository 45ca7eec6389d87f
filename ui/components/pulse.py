"""A beat that runs the fragment around it again. Invisible; unlike a fragment's own timer it waits while the reader changes the page."""

from __future__ import annotations

from ui.components.mount import SHARED_LABELS, live_data, register

LABELS = SHARED_LABELS

_render = register("pulse")


def pulse(*, key: str, every_s: float) -> None:
    """Mount it, inside a fragment: as long as it is there, the fragment runs every `every_s` seconds."""
    _render(key=key, data=live_data(None, "", None, (), {}, every_s=every_s), on_beat_change=lambda: None)
