"""What the app knows about the engine's models.

Knows the states a model goes through; does not know where models come from. Kept across engine processes: what was there is wanted again.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from typing import Literal

from engine.errors import EngineLost, ErrorInfo
from engine.serve.protocol import LoadModel, ModelFailed, ModelFreed, ModelProgress, ModelReady
from engine.trace import LoadStage, ModelInfo

LOADS_SURVIVED = 2  # a model whose loading has ended so many engines in a row is not asked for again
NAMES_KEPT = 64


@dataclass(frozen=True, slots=True)
class ModelStatus:
    """`stage`, `done` and `total` (bytes; 0 = not known) while loading, `info` when ready, `error` when failed."""

    state: Literal["absent", "loading", "ready", "failed"] = "absent"
    stage: LoadStage | None = None
    done: int = 0
    total: int = 0
    info: ModelInfo | None = None
    error: ErrorInfo | None = None


class Stock:
    """Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._models: dict[tuple[str, str], ModelStatus] = {}
        self._fatal: dict[tuple[str, str], int] = {}  # engines in a row that died while loading it

    def get(self, model: str, device: str) -> ModelStatus:
        return self._models.get((model, device), ModelStatus())

    def expect(self, model: str, device: str) -> None:
        """It has been asked for."""
        with self._lock:
            if self.get(model, device).state != "ready":
                self._models[model, device] = ModelStatus("loading")

    def apply(self, event: ModelProgress | ModelReady | ModelFailed | ModelFreed) -> None:
        key = (event.model, event.device)
        with self._lock:
            if isinstance(event, ModelProgress):
                self._models[key] = ModelStatus("loading", event.stage, event.done, event.total)
            elif isinstance(event, ModelReady):
                self._fatal.pop(key, None)
                self._models[key] = ModelStatus("ready", info=event.info)
            elif isinstance(event, ModelFailed):
                self._models[key] = ModelStatus("failed", error=event.error)
            else:
                self._models.pop(key, None)
            self._forget()

    def _forget(self) -> None:
        """Names come from outside: what became of the oldest ones that failed is not kept for ever."""
        failed = [key for key, status in self._models.items() if status.state == "failed"]
        for key in failed[: max(len(self._models) - NAMES_KEPT, 0)]:
            del self._models[key]

    def lose(self, exit_code: int) -> list[LoadModel]:
        """The engine is gone. Gives what the next one is to load; a model that seems to end engines is failed instead."""
        wishes = []
        with self._lock:
            for key, status in list(self._models.items()):
                if status.state == "loading":
                    self._fatal[key] = self._fatal.get(key, 0) + 1
                if self._fatal.get(key, 0) >= LOADS_SURVIVED:
                    self._models[key] = replace(status, state="failed", error=EngineLost(exit_code=exit_code).info)
                    self._fatal.pop(key)
                elif status.state in ("loading", "ready"):
                    self._models[key] = ModelStatus("loading")
                    wishes.append(LoadModel(*key))
        return wishes
