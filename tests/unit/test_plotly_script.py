"""plotly.js as the app serves it: the installed file, under its version only, kept for good, also under the app's prefix."""

from __future__ import annotations

import gzip
import time
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path

import pytest
import streamlit as st
from starlette.applications import Starlette
from starlette.testclient import TestClient

from ui import plotly_script


def browser() -> TestClient:
    return TestClient(Starlette(routes=plotly_script.routes()))


def test_the_installed_file_is_served_and_kept_for_good() -> None:
    answer = browser().get(plotly_script.path())
    assert answer.status_code == 200
    assert answer.content == plotly_script.FILE.read_bytes()
    assert answer.headers["content-type"].startswith("text/javascript")
    assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert answer.headers["cross-origin-resource-policy"] == "same-origin", "other sites may not load it from here"
    assert plotly_script.version() in plotly_script.path()


def test_it_travels_packed_only_to_browsers_that_unpack() -> None:
    size = plotly_script.FILE.stat().st_size
    with browser().stream("GET", plotly_script.path(), headers={"accept-encoding": "gzip"}) as answer:
        raw = b"".join(answer.iter_raw())
    assert answer.headers["content-encoding"] == "gzip"
    assert gzip.decompress(raw) == plotly_script.FILE.read_bytes()
    assert len(raw) < size / 2
    plain = browser().get(plotly_script.path(), headers={"accept-encoding": "identity"})
    assert "content-encoding" not in plain.headers
    assert len(plain.content) == size


def test_a_class_that_comes_at_once_has_it_packed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package's own data is not read at every mount either."""
    packed, looked = [], []
    own, told = gzip.compress, metadata.version
    monkeypatch.setattr(gzip, "compress", lambda *given: packed.append(1) or time.sleep(0.05) or own(*given))
    monkeypatch.setattr(metadata, "version", lambda name: looked.append(name) or told(name))
    plotly_script._pack.cache_clear()
    plotly_script.version.cache_clear()
    with ThreadPoolExecutor(8) as pool:
        bodies = list(pool.map(lambda _: plotly_script._packed(), range(8)))
    assert packed == [1]
    assert len(set(bodies)) == 1
    assert len({plotly_script.path() for _ in range(5)}) == 1
    assert looked == ["plotly"]


@pytest.mark.parametrize("version", ["0.0.1", "..", "%2e%2e%2f", "7.1.0%00"])
def test_no_other_version_and_no_other_file_is_served(version: str) -> None:
    assert browser().get(plotly_script.PATH.format(version=version)).status_code == 404


def test_a_package_without_the_script_is_no_failure_of_the_server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    plotly_script._pack.cache_clear()
    monkeypatch.setattr(plotly_script, "FILE", tmp_path / "plotly.min.js")
    assert browser().get(plotly_script.path()).status_code == 404


@pytest.mark.parametrize("base", ["", "class/7b", "/class/"])
def test_under_the_prefix_and_without_it(monkeypatch: pytest.MonkeyPatch, base: str) -> None:
    own = st.get_option
    monkeypatch.setattr(st, "get_option", lambda name: base if name == "server.baseUrlPath" else own(name))
    prefix = f"/{base.strip('/')}" if base else ""
    assert plotly_script.path() == prefix + plotly_script.PATH.format(version=plotly_script.version())
    for path in (plotly_script.path(), plotly_script.path().removeprefix(prefix)):
        assert browser().head(path).status_code == 200
