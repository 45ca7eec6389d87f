"""The engine as a library: `from engine import load_model, Run, RunSettings`.

Knows the public names and where they live; imports none of them until one is asked for, so that `import engine` stays free of torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.findings import StageRow, Stages
    from engine.model.loader import LoadedModel, load_model
    from engine.run import Run
    from engine.trace import (
        Candidate,
        DecodeStep,
        ModelInfo,
        Origin,
        PrefillTrace,
        RunRecord,
        RunSettings,
        RunStatus,
        RunView,
        StepParts,
        StopReason,
        Token,
    )

__all__ = [
    "Candidate",
    "DecodeStep",
    "LoadedModel",
    "ModelInfo",
    "Origin",
    "PrefillTrace",
    "Run",
    "RunRecord",
    "RunSettings",
    "RunStatus",
    "RunView",
    "StageRow",
    "Stages",
    "StepParts",
    "StopReason",
    "Token",
    "load_model",
]

_HOMES = {
    "load_model": "engine.model.loader",
    "LoadedModel": "engine.model.loader",
    "Run": "engine.run",
    "StageRow": "engine.findings",
    "Stages": "engine.findings",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'engine' has no attribute {name!r}")
    return getattr(import_module(_HOMES.get(name, "engine.trace")), name)


def __dir__() -> list[str]:
    return sorted(__all__)
