"""Models by hub id against a small hub of our own, and folders of models: safetensors only, never foreign code, errors soon."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import pytest

from engine.errors import DiskFull, ModelNotFound, UnsafeWeights
from engine.model import hub

ROOT = Path(__file__).resolve().parents[2]
COMMIT = "a" * 40
PAPERS = {"config.json": b'{"model_type": "llama"}', "tokenizer.json": b"{}", "merges.txt": b"a b", "chat_template.jinja": b"{{ x }}"}
OTHERS = {"model.safetensors": b"w" * 50_000, "pytorch_model.bin": b"pickle", "run.py": b"boom", "onnx/model.safetensors": b"no"}
REPOSITORIES: dict[str, dict[str, bytes]] = {
    "ob/good": {**PAPERS, **OTHERS},
    "ob/sharded": {
        **PAPERS,
        "model.safetensors.index.json": json.dumps(
            {"weight_map": {str(n): f"model-0000{n}-of-00002.safetensors" for n in (1, 2)}}
        ).encode(),
        "model-00001-of-00002.safetensors": b"1" * 30_000,
        "model-00002-of-00002.safetensors": b"2" * 20_000,
    },
    "ob/pickled": {**PAPERS, "pytorch_model.bin": b"pickle"},
    "ob/foreign": {**PAPERS, "model.safetensors": b"w", "config.json": b'{"model_type": "mine", "auto_map": {"AutoModel": "run.Mine"}}'},
}
SCRIPT = """
import json, sys
from engine.errors import EngineError
from engine.model import registry, weights
from engine.settings import Settings
seen = []
try:
    settings = Settings.from_env()
    spec = registry.find(sys.argv[1])
    folder = weights.ensure(spec, settings, lambda *step: seen.append(step))
    answer = {"files": sorted(p.name for p in folder.iterdir()), "seen": seen, "ready": weights.is_ready(spec, settings)}
except EngineError as error:
    answer = {"error": error.code, **error.params}
print(json.dumps(answer))
"""


class _Hub(BaseHTTPRequestHandler):
    asked: ClassVar[list[str]] = []

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def _answer(self, body: bool) -> None:
        path = self.path.partition("?")[0].strip("/").split("/")
        name = "/".join(path[2:4] if path[0] == "api" else path[:2])
        files = REPOSITORIES.get(name)
        self.asked.append(self.path)
        if files is None:
            self._send(404, b"{}", body, {"X-Error-Code": "RepoNotFound"})
        elif path[0] == "api" and "tree" in path:
            entries = [{"type": "file", "path": p, "size": len(c), "oid": f"{len(c):040x}"} for p, c in files.items()]
            self._send(200, json.dumps(entries).encode(), body, {"Content-Type": "application/json"})
        elif path[0] == "api":
            facts = {"id": name, "sha": COMMIT, "siblings": [{"rfilename": p} for p in files]}
            self._send(200, json.dumps(facts).encode(), body, {"Content-Type": "application/json"})
        else:
            file = "/".join(path[4:])
            self._send(200, files[file], body, {"ETag": f'"{file.replace("/", "-")}"', "X-Repo-Commit": COMMIT})

    def _send(self, status: int, content: bytes, body: bool, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if body:
            self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        return


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


def fetch(model: str, home: Path, endpoint: str, **environment: str) -> dict:
    """What a fresh process gets for `model`: huggingface_hub reads its environment only once."""
    env = {**os.environ, "HF_HOME": str(home / "hf"), "OPENBOOK_HOME": str(home), "HF_ENDPOINT": endpoint, "no_proxy": "127.0.0.1"}
    env |= {"PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "0", "OPENBOOK_OFFLINE": "0", **environment}
    done = subprocess.run([sys.executable, "-c", SCRIPT, model], env=env, cwd=home, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_only_safetensors_and_papers_come_and_stay(endpoint: str, tmp_path: Path) -> None:
    first = fetch("ob/good", tmp_path, endpoint)
    assert first["files"] == sorted([*PAPERS, "model.safetensors"])
    assert first["ready"]
    assert first["seen"][-1] == ["download", 50_000, 50_000]
    asked = len(_Hub.asked)
    again = fetch("ob/good", tmp_path, endpoint, OPENBOOK_OFFLINE="1")
    assert again["files"] == first["files"]
    assert fetch("ob/good", tmp_path, "http://127.0.0.1:9")["files"] == first["files"]
    assert len(_Hub.asked) == asked, "a complete model was asked for again"


LOST = [
    ("ob/good", ["model.safetensors"], 50_000),
    ("ob/sharded", ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"], 50_000),
    ("ob/sharded", ["model-00002-of-00002.safetensors"], 20_000),
    ("ob/good", ["tokenizer.json", "model.safetensors"], 50_000),
]


def forget_listings(home: Path) -> None:
    """Older releases of huggingface_hub, and whoever fetches file by file, keep no list of what a snapshot should hold."""
    for listing in (home / "hf").rglob("trees"):
        shutil.rmtree(listing)


@pytest.mark.parametrize("listed", [True, False])
@pytest.mark.parametrize(("model", "names", "size"), LOST, ids=["papers only", "papers of shards", "one shard missing", "a paper missing"])
def test_an_interrupted_download_is_taken_up_again(
    endpoint: str, tmp_path: Path, model: str, names: list[str], size: int, listed: bool
) -> None:
    """As an interrupted download leaves it: what came is there and whole, the rest is not. No verdict without the network."""
    whole = fetch(model, tmp_path, endpoint)["files"]
    if not listed:
        forget_listings(tmp_path)
    for name in names:
        (entry,) = (tmp_path / "hf").rglob(f"snapshots/*/{name}")
        entry.resolve().unlink()
        entry.unlink()
    assert fetch(model, tmp_path, endpoint, OPENBOOK_OFFLINE="1") == {"error": "offline", "model": model}
    assert fetch(model, tmp_path, "http://127.0.0.1:9")["error"] == "download_failed"
    again = fetch(model, tmp_path, endpoint)
    assert (again["files"], again["ready"]) == (whole, True)
    assert again["seen"][-1] == ["download", size, size]


def test_a_shard_without_its_index_names_the_others(endpoint: str, tmp_path: Path) -> None:
    fetch("ob/sharded", tmp_path, endpoint)
    for name in ("model.safetensors.index.json", "model-00002-of-00002.safetensors"):
        next((tmp_path / "hf").rglob(f"snapshots/*/{name}")).unlink()
    forget_listings(tmp_path)
    assert fetch("ob/sharded", tmp_path, endpoint, OPENBOOK_OFFLINE="1")["error"] == "offline"


def test_a_disk_that_fills_up_gives_true_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = tmp_path / "not" / "there yet"
    monkeypatch.setattr(hub.constants, "HF_HUB_CACHE", str(cache))
    blobs = cache / "models--ob--good" / "blobs"
    plan = [SimpleNamespace(file_size=size, will_download=size > 1) for size in (50_000, 30_000, 1)]
    monkeypatch.setattr(hub.huggingface_hub, "snapshot_download", lambda *args, **options: plan)

    def fill(hub_id: str, patterns: list[str]) -> Path:
        blobs.mkdir(parents=True)
        (blobs / "a.incomplete").write_bytes(b"x" * 12_000)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(hub, "_snapshot", fill)
    with pytest.raises(DiskFull) as caught:
        hub._download_weights("ob/good", lambda done, total: None)
    assert caught.value.params["needed_bytes"] == 80_000 - 12_000
    assert caught.value.params["path"] == str(cache)
    assert caught.value.params["free_bytes"] == pytest.approx(shutil.disk_usage(tmp_path).free, rel=0.2)
    monkeypatch.setattr(hub.constants, "HF_HUB_CACHE", str(tmp_path / "nor this"))
    papers = hub._translated(OSError(errno.ENOSPC, "No space left on device"), "ob/good")
    assert papers.code == "disk_full"
    assert int(papers.params["free_bytes"]) > 0
    assert int(papers.params["needed_bytes"]) > 0


@pytest.mark.parametrize("error", [PermissionError(errno.EACCES, "denied"), OSError(errno.EROFS, "Read-only file system")])
def test_a_cache_of_the_hub_that_cannot_be_written(error: OSError) -> None:
    told = hub._translated(error, "ob/good")
    assert (told.code, told.params["path"]) == ("storage_failed", hub.constants.HF_HUB_CACHE)


@pytest.mark.parametrize(
    ("model", "code"), [("ob/pickled", "unsafe_weights"), ("ob/foreign", "unsafe_weights"), ("ob/none", "model_not_found")]
)
def test_refused(endpoint: str, tmp_path: Path, model: str, code: str) -> None:
    answer = fetch(model, tmp_path, endpoint)
    assert (answer["error"], answer["model"]) == (code, model)
    assert not [path for path in tmp_path.rglob("*") if path.suffix in {".safetensors", ".bin", ".py"}]


def test_no_network_and_offline_fail_soon(tmp_path: Path) -> None:
    started = time.monotonic()
    away = fetch("ob/good", tmp_path, "http://127.0.0.1:9")
    assert (away["error"], away["package"]) == ("download_failed", "ob/good")
    assert fetch("ob/good", tmp_path, "http://127.0.0.1:9", OPENBOOK_OFFLINE="1") == {"error": "offline", "model": "ob/good"}
    assert time.monotonic() - started < 30


def make_folder(folder: Path, **files: str) -> Path:
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / name.replace("__", ".")).write_text(content)
    return folder


def test_folders(tmp_path: Path) -> None:
    good = make_folder(tmp_path / "good", config__json="{}", model__safetensors="x")
    assert hub.check_folder(good, "m") == good
    native = '{"model_type": "llama", "auto_map": {}}'
    assert hub.check_folder(make_folder(tmp_path / "native", config__json=native, model__safetensors="x"), "m")


@pytest.mark.parametrize(
    ("files", "error"),
    [
        ({}, ModelNotFound),
        ({"config__json": "{}"}, UnsafeWeights),
        ({"config__json": "{}", "pytorch_model__bin": "x"}, UnsafeWeights),
        ({"config__json": "not json", "model__safetensors": "x"}, ModelNotFound),
        ({"config__json": "[]", "model__safetensors": "x"}, ModelNotFound),
        ({"config__json": '{"model_type": "own", "auto_map": {}}', "model__safetensors": "x"}, UnsafeWeights),
    ],
)
def test_folders_that_are_refused(tmp_path: Path, files: dict[str, str], error: type[Exception]) -> None:
    with pytest.raises(error):
        hub.check_folder(make_folder(tmp_path / "folder", **files), "m")


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    shards = json.dumps({"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}})
    folder = make_folder(tmp_path / "folder", config__json="{}")
    (folder / "model.safetensors.index.json").write_text(shards)
    (folder / "model-1.safetensors").write_text("x")
    with pytest.raises(ModelNotFound, match=r"model-2\.safetensors"):
        hub.check_folder(folder, "m")
