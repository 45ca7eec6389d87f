"""Fixtures shared by all tiers. Tests never reach a model hub: tiny models are made here, SmolLM2 comes from its package."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

if TYPE_CHECKING:
    from engine.model.loader import LoadedModel


@pytest.fixture(scope="session")
def smollm2_dir() -> Path:
    """Folder of the converted SmolLM2-135M-Instruct; fetched and converted on first use on this machine."""
    from engine.model import registry, weights
    from engine.settings import Settings

    return weights.ensure(registry.find("smollm2-135m"), Settings.from_env())


@pytest.fixture(scope="session")
def smollm2(smollm2_dir: Path) -> LoadedModel:
    """The real SmolLM2 in float32 on the CPU, shared by a whole test session."""
    from engine import load_model

    return load_model("smollm2-135m", device="cpu", dtype="float32")


@pytest.fixture(scope="session")
def tiny_dir(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """tiny_dir(kind, **config changes) → folder of a tiny random checkpoint, made once per session and arguments."""
    made: dict[str, Path] = {}

    def make(kind: str = "llama", **changes: object) -> Path:
        from tests.fakes import make_checkpoint

        name = f"{kind}-" + "-".join(f"{key}={value}" for key, value in sorted(changes.items()))
        if name not in made:
            made[name] = make_checkpoint(kind, tmp_path_factory.mktemp("tiny") / kind, **changes)
        return made[name]

    return make
