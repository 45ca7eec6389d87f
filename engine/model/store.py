"""The cache of converted models on disk: one folder a model, made aside, locked, then moved into place in one step.

Knows folders, locks and manifests; does not know where weights come from nor what is in them.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import filelock

from engine.model import disk

MANIFEST = "openbook.json"
FORMAT = 1  # raise it when an older cache must be made anew
WAIT_S = 0.3


@dataclass(frozen=True, slots=True)
class CacheEntry:
    """Where one model lies, or will lie: `folder` is either complete or absent."""

    home: Path
    key: str

    @property
    def folder(self) -> Path:
        return self.home / "models" / self.key

    @property
    def lock_file(self) -> Path:
        return self.home / "models" / f".{self.key}.lock"

    def staging(self) -> list[Path]:
        """Folders in which this model is being made, or was when a process was killed."""
        return sorted(self.folder.parent.glob(f".{self.key}.tmp-*"))

    def is_ready(self, sha256: str) -> bool:
        """Whether the folder was made from the data file of this hash and every file has its full size."""
        manifest = self.manifest()
        if manifest.get("format") != FORMAT or manifest.get("sha256") != sha256:
            return False
        return all(disk.file_bytes(self.folder / name) == entry["bytes"] for name, entry in manifest["files"].items())

    def manifest(self) -> dict:
        """What was written by `publish`; empty when there is none that can be read."""
        try:
            return json.loads((self.folder / MANIFEST).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}


@contextlib.contextmanager
def locked(entry: CacheEntry, waiting: Callable[[], None]) -> Iterator[None]:
    """Hold the model's lock among all processes; `waiting` is called about three times a second until it is ours."""
    entry.folder.parent.mkdir(parents=True, exist_ok=True)
    lock = filelock.FileLock(entry.lock_file)
    while True:
        try:
            lock.acquire(timeout=WAIT_S)
            break
        except filelock.Timeout:
            waiting()
    try:
        yield
    finally:
        lock.release()


@contextlib.contextmanager
def staged(entry: CacheEntry) -> Iterator[Path]:
    """A fresh folder beside the final one, removed at the end. Under the lock: what killed processes left is removed first."""
    for left in entry.staging():
        shutil.rmtree(left, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=f".{entry.key}.tmp-", dir=entry.folder.parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def publish(entry: CacheEntry, made: Path, staging: Path, facts: Mapping[str, object]) -> None:
    """Write the manifest into `made`, flush everything to the disk, then move it into place in one step."""
    files = {path.name: {"bytes": path.stat().st_size, "sha256": _sha256(path)} for path in sorted(made.iterdir())}
    manifest = {"format": FORMAT, **facts, "files": files}
    (made / MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")
    for path in made.iterdir():
        _flush(path)
    _flush(made)
    if entry.folder.exists():
        os.replace(entry.folder, staging / "replaced")
    os.replace(made, entry.folder)
    _flush(entry.folder.parent)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _flush(path: Path) -> None:
    if path.is_dir() and os.name == "nt":  # Windows cannot open a folder to flush it
        return
    handle = os.open(path, os.O_RDONLY if path.is_dir() or os.name != "nt" else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
