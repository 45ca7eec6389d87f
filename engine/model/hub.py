"""Models by hub id, and folders of models: safetensors only, and never code that comes with the weights.

Knows huggingface_hub, which keeps its own cache and reads HF_HOME, HF_ENDPOINT and tokens itself; does not load anything.
"""

from __future__ import annotations

import errno
import json
import re
import threading
from collections.abc import Callable
from pathlib import Path

import huggingface_hub
from huggingface_hub import constants, file_download
from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, LocalEntryNotFoundError, RepositoryNotFoundError

from engine.errors import DownloadFailed, EngineError, ModelNotFound, Offline, StorageFailed, UnsafeWeights
from engine.model import disk

WEIGHTS = ["*.safetensors"]
PAPERS = ["*.json", "*.model", "*.txt", "*.jinja"]  # config, index, tokenizer, chat template
TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "spiece.model")  # at least one
_SHARD = re.compile(r"(.+)-\d{5}-of-(\d{5})\.safetensors")
IGNORED = ["*/*", "consolidated*.safetensors"]  # folders and second copies in other formats
PATIENCE_S = 10.0
POLL_S = 0.3


def cached(hub_id: str) -> Path | None:
    """The folder of a complete earlier download, without the network; None also for one that was interrupted: what is not there may
    still come, and only `fetch` can say that it will not. Raises UnsafeWeights.
    """
    try:
        folder = Path(
            huggingface_hub.snapshot_download(hub_id, allow_patterns=PAPERS + WEIGHTS, ignore_patterns=IGNORED, local_files_only=True)
        )
    except (LocalEntryNotFoundError, ValueError):
        return None
    return check_folder(folder, hub_id) if _is_complete(folder) else None


def _is_complete(folder: Path) -> bool:
    """Whether a snapshot has all that a model needs; each file in it is whole (huggingface_hub moves it there when it is)."""
    if not (folder / "config.json").is_file() or not any((folder / name).is_file() for name in TOKENIZERS):
        return False
    wanted = _weight_names(folder, folder.name)
    return bool(wanted) and all((folder / name).is_file() for name in wanted)


def _weight_names(folder: Path, model: str) -> set[str]:
    """What lies there and what the index names, or would name: a shard tells by its own name how many there are."""
    names = {path.name for path in folder.glob("*.safetensors")}
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        names |= set(_json(index, model).get("weight_map", {}).values())
    for name in list(names):
        shard = _SHARD.fullmatch(name)
        if shard is not None:
            names |= {f"{shard[1]}-{number:05d}-of-{shard[2]}.safetensors" for number in range(1, int(shard[2]) + 1)}
    return names


def fetch(hub_id: str, offline: bool, progress: Callable[[int, int], None]) -> Path:
    """The folder of a hub model, downloaded when it is not there yet: first the papers, which may rule it out, then the weights.

    Raises Offline, DownloadFailed, DiskFull, StorageFailed, ModelNotFound, UnsafeWeights.
    """
    found = cached(hub_id)
    if found is not None:
        return found
    if offline:
        raise Offline(model=hub_id)
    try:
        papers = _snapshot(hub_id, PAPERS)
        check_config(papers, hub_id)
        _download_weights(hub_id, progress)
    except EngineError:
        raise
    except Exception as error:
        raise _translated(error, hub_id) from error
    return check_folder(papers, hub_id)


def check_folder(folder: Path, model: str) -> Path:
    """`folder` itself if transformers can read it without running foreign code. Raises ModelNotFound, UnsafeWeights."""
    check_config(folder, model)
    wanted = _weight_names(folder, model)
    missing = [name for name in sorted(wanted) if not (folder / name).is_file()]
    if not wanted:
        raise UnsafeWeights(model=model)
    if missing:
        raise ModelNotFound(model=f"{model}/{missing[0]}")
    return folder


def check_config(folder: Path, model: str) -> None:
    """Raises ModelNotFound without a config.json, UnsafeWeights when it names code of its own and no architecture we have."""
    config = folder / "config.json"
    if not config.is_file():
        raise ModelNotFound(model=model)
    facts = _json(config, model)
    if "auto_map" in facts:
        from transformers.models.auto.configuration_auto import CONFIG_MAPPING

        if facts.get("model_type") not in CONFIG_MAPPING:
            raise UnsafeWeights(model=model)


def _json(path: Path, model: str) -> dict:
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ModelNotFound(model=f"{model}/{path.name}") from error
    if not isinstance(facts, dict):
        raise ModelNotFound(model=f"{model}/{path.name}")
    return facts


def _snapshot(hub_id: str, patterns: list[str]) -> Path:
    return Path(huggingface_hub.snapshot_download(hub_id, allow_patterns=patterns, ignore_patterns=IGNORED, etag_timeout=PATIENCE_S))


def _download_weights(hub_id: str, progress: Callable[[int, int], None]) -> None:
    """In a thread of its own, so that progress is reported from the caller's; the bytes are counted where they arrive."""
    plan = huggingface_hub.snapshot_download(hub_id, allow_patterns=WEIGHTS, ignore_patterns=IGNORED, dry_run=True)
    if not plan:
        raise UnsafeWeights(model=hub_id)
    total = sum(part.file_size or 0 for part in plan if part.will_download)
    cache = _cache()
    disk.require_free(cache, total)
    blobs = cache / file_download.repo_folder_name(repo_id=hub_id, repo_type="model") / "blobs"
    before = disk.folder_bytes(blobs)
    failures: list[Exception] = []
    worker = threading.Thread(target=_fetch_into, args=(hub_id, failures), daemon=True, name="hub-download")
    worker.start()
    while worker.is_alive():
        worker.join(POLL_S)
        progress(min(total, max(0, disk.folder_bytes(blobs) - before)), total)
    if failures:
        if disk.says_full(str(failures[0])):
            raise disk.full(cache, max(0, total - disk.folder_bytes(blobs) + before)) from failures[0]
        raise failures[0]


def _cache() -> Path:
    return Path(constants.HF_HUB_CACHE)


def _fetch_into(hub_id: str, failures: list[Exception]) -> None:
    try:
        _snapshot(hub_id, WEIGHTS)
    except Exception as error:  # noqa: BLE001 (whatever it is, the waiting thread raises it)
        failures.append(error)


def _translated(error: Exception, hub_id: str) -> EngineError:
    reason = str(error).strip().splitlines() or [type(error).__name__]
    if isinstance(error, RepositoryNotFoundError) and not isinstance(error, GatedRepoError):
        return ModelNotFound(model=hub_id)
    if isinstance(error, HfHubHTTPError) and error.response.status_code == 404:
        return ModelNotFound(model=hub_id)
    if disk.says_full(str(error)):  # the papers; weights say themselves how much is missing
        return disk.full(_cache(), disk.MARGIN_BYTES)
    if isinstance(error, PermissionError | NotADirectoryError | FileExistsError) or getattr(error, "errno", None) == errno.EROFS:
        return StorageFailed(path=str(_cache()), detail=reason[0][:300])
    return DownloadFailed(package=hub_id, detail=reason[0][:300])
