"""Room on the disk: how much a folder takes, how much is left, what "full" looks like, and other ways to be refused. Knows no models."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from engine.errors import DiskFull, StorageFailed

MARGIN_BYTES = 64 << 20
_FULL = re.compile(r"no space left on device|disk quota exceeded|not enough space on the disk|os error (28|112|122)\b", re.IGNORECASE)


def says_full(text: str) -> bool:
    """Whether the words of a failed program mean that the disk is full (Linux, macOS, Windows; Python, Rust and C)."""
    return _FULL.search(text) is not None


def full(folder: Path, needed_bytes: int) -> DiskFull:
    return DiskFull(path=str(folder), needed_bytes=needed_bytes, free_bytes=free_bytes(folder))


def free_bytes(folder: Path) -> int:
    """Free where `folder` lies, or will lie."""
    there = next(place for place in (folder, *folder.absolute().parents) if place.is_dir())
    return shutil.disk_usage(there).free


def require_free(folder: Path, needed_bytes: int) -> None:
    """Raises DiskFull unless `needed_bytes` and a margin are free where `folder` lies."""
    if free_bytes(folder) < needed_bytes + MARGIN_BYTES:
        raise full(folder, needed_bytes + MARGIN_BYTES)


@contextlib.contextmanager
def writing(home: Path, needed_bytes: int) -> Iterator[None]:
    """While inside, what the disk refuses is raised as DiskFull or StorageFailed, which name `home`: the place that the reader knows.

    `needed_bytes`: what the work needs, as far as it is known beforehand.
    """
    try:
        yield
    except DiskFull as error:
        raise DiskFull(**{**error.params, "path": str(home)}) from error
    except ConnectionError:  # whoever listens to the progress is gone: that is no fault of the disk
        raise
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise full(home, needed_bytes) from error
        raise StorageFailed(path=str(home), detail=str(error)) from error


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
