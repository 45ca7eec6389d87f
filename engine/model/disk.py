"""Room on the disk: how much a folder takes, how much is left, and what "full" looks like. Knows no models."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from engine.errors import DiskFull

MARGIN_BYTES = 64 << 20
_FULL = re.compile(r"no space left on device|disk quota exceeded|not enough space on the disk|os error (28|112|122)\b", re.IGNORECASE)


def says_full(text: str) -> bool:
    """Whether the words of a failed program mean that the disk is full (Linux, macOS, Windows; Python, Rust and C)."""
    return _FULL.search(text) is not None


def full(folder: Path, needed_bytes: int) -> DiskFull:
    return DiskFull(path=str(folder), needed_bytes=needed_bytes, free_bytes=shutil.disk_usage(folder).free)


def require_free(folder: Path, needed_bytes: int) -> None:
    """Raises DiskFull unless `needed_bytes` and a margin are free where `folder` lies."""
    if shutil.disk_usage(folder).free < needed_bytes + MARGIN_BYTES:
        raise full(folder, needed_bytes + MARGIN_BYTES)


def file_bytes(path: Path) -> int | None:
    """None when there is no such file (any more)."""
    try:
        return path.stat().st_size
    except OSError:
        return None


def folder_bytes(folder: Path) -> int:
    """Bytes of all files below `folder`; files that vanish while we look count as nothing."""
    total = 0
    for root, _, names in os.walk(folder):
        total += sum(file_bytes(Path(root) / name) or 0 for name in names)
    return total
