"""The app's own client on a tiny real model, behind the real engine process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.app.visit import wait_for
from ui import resources


@pytest.fixture(scope="module")
def engine_process(tiny_dir: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The app's own client, on a tiny checkpoint; no engine process stays behind."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENBOOK_MODEL", str(tiny_dir("llama")))
        patch.setenv("OPENBOOK_HOME", str(tmp_path_factory.mktemp("home")))
        patch.setenv("OPENBOOK_DEVICE", "cpu")
        patch.setenv("OPENBOOK_LEASE_S", "120")
        patch.setenv("OPENBOOK_OFFLINE", "1")
        client = resources.engine()
        wait_for(lambda: client.model_status(resources.settings().model, "cpu").state == "ready")
        yield
        resources.close()
