"""Weights on this machine: made ready once, found again ever after. `python -m engine.model.weights KEY` does it from a shell.

Knows the order of the steps (terms, room, download, check, convert, publish); each step lives in its own file. Loads no model.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from engine.errors import Offline, TermsNotAccepted
from engine.model import convert, disk, package, store, terms
from engine.model.registry import ModelSpec, PackageSource
from engine.settings import Settings
from engine.trace import LoadStage

Progress = Callable[[LoadStage, int, int], None]


def ensure(spec: ModelSpec, settings: Settings, progress: Progress | None = None) -> Path:
    """A folder that `from_pretrained(…, local_files_only=True)` reads. `progress(stage, done, total)`: bytes, total 0 = not known.

    Raises TermsNotAccepted, Offline, DownloadFailed, HashMismatch, DiskFull, ConversionFailed, ModelNotFound, UnsafeWeights,
    StorageFailed (the cache cannot be written). After any of them the cache is as it was.
    """
    report = progress or _silent
    if spec.source is not None:
        return prepare(spec, settings, report, convert.in_child)
    from engine.model import hub  # here: it takes half a second, which a ready packaged model need not wait for

    if spec.folder is not None:
        return hub.check_folder(spec.folder, spec.key)
    return hub.fetch(str(spec.hub_id), settings.offline, lambda done, total: report("download", done, total))


def is_ready(spec: ModelSpec, settings: Settings) -> bool:
    """Whether `ensure` would return at once. Never touches the network. Raises UnsafeWeights, ModelNotFound for folders."""
    if spec.source is not None:
        return _entry(spec, settings).is_ready(spec.source.sha256)
    from engine.model import hub

    if spec.folder is not None:
        return hub.check_folder(spec.folder, spec.key).is_dir()
    return hub.cached(str(spec.hub_id)) is not None


def terms_text(spec: ModelSpec, settings: Settings) -> str:
    """Plain text of the terms, fetched alone when needed; "" without any. Raises Offline, DownloadFailed, DiskFull, StorageFailed."""
    return terms.text(spec, settings)


def accept_terms(spec: ModelSpec, settings: Settings) -> None:
    """Record that the terms were accepted on this machine. Raises as `terms_text`."""
    terms.accept(spec, settings)


def terms_accepted(spec: ModelSpec, settings: Settings) -> bool:
    """True for a model without terms."""
    return terms.accepted(spec, settings)


def prepare(spec: ModelSpec, settings: Settings, report: Progress, converter: convert.Converter) -> Path:
    """`ensure` for a packaged model. One process works, under the lock; others wait and then find it ready."""
    source = spec.source
    assert source is not None
    entry = _entry(spec, settings)
    if entry.is_ready(source.sha256):
        return entry.folder
    if not terms.accepted(spec, settings):
        raise TermsNotAccepted(model=spec.key)
    if settings.offline:
        raise Offline(model=spec.key)

    def tick() -> None:
        report(*_seen(entry, source))

    with disk.writing(settings.home, _needed_bytes(source)), store.locked(entry, tick):
        if not entry.is_ready(source.sha256):
            with store.staged(entry) as staging:
                _make(spec, source, entry, staging, report, tick, converter)
    return entry.folder


def _make(
    spec: ModelSpec,
    source: PackageSource,
    entry: store.CacheEntry,
    staging: Path,
    report: Progress,
    tick: Callable[[], None],
    converter: convert.Converter,
) -> None:
    disk.require_free(staging, _needed_bytes(source))
    report("download", 0, source.download_bytes)
    package.download(source.requirements, staging, _needed_bytes(source), tick)
    report("download", source.download_bytes, source.download_bytes)
    data_file = package.extract(source, staging, lambda done: report("verify", done, source.size_bytes))
    package.discard(staging)
    made = staging / "converted"
    made.mkdir()
    tick()
    converter(spec, data_file, made, tick)
    data_file.unlink()
    facts = {"model": spec.key, "requirements": source.requirements, "sha256": source.sha256, "versions": convert.versions()}
    store.publish(entry, made, staging, facts)


def _seen(entry: store.CacheEntry, source: PackageSource) -> tuple[LoadStage, int, int]:
    """How far the work is, read from the disk: true for the process at work and for those that wait for it."""
    for staging in entry.staging():
        if (staging / "converted").is_dir():
            written = disk.folder_bytes(staging / "converted")
            return "convert", written, max(written, source.converted_bytes) if written else 0
        extracted = disk.file_bytes(staging / source.file_name)
        if extracted is not None:
            return "verify", extracted, source.size_bytes
        return "download", min(disk.folder_bytes(staging), source.download_bytes), source.download_bytes
    return "download", 0, source.download_bytes


def _needed_bytes(source: PackageSource) -> int:
    """The largest sum of what lies on the disk at once: wheels twice (pip copies), wheels and file, file and result."""
    return max(2 * source.download_bytes, source.download_bytes + source.size_bytes, source.size_bytes + source.converted_bytes)


def _entry(spec: ModelSpec, settings: Settings) -> store.CacheEntry:
    return store.CacheEntry(settings.home, spec.key)


def _silent(stage: LoadStage, done: int, total: int) -> None:
    """Nobody wants to know."""


if __name__ == "__main__":
    from engine.model import console

    raise SystemExit(console.main())
