"""Tiny random models, loaded: tiny("qwen3", head_dim=32) → LoadedModel in float32 on the CPU, made once per session and arguments."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from engine.model.loader import LoadedModel


@pytest.fixture(scope="session")
def tiny(tiny_dir: Callable[..., Path]) -> Callable[..., LoadedModel]:
    loaded: dict[Path, LoadedModel] = {}

    def load(kind: str = "llama", **changes: object) -> LoadedModel:
        from engine import load_model

        folder = tiny_dir(kind, **changes)
        if folder not in loaded:
            loaded[folder] = load_model(str(folder), device="cpu", dtype="float32")
        return loaded[folder]

    return load
