"""Where the engine process gets its models from, and what it can tell about them: loader, weights, registry, terms, the machine's roofs.

Knows which room to ask; imports none of them before it is needed. Does not know runs, turns or the connection.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from engine.calibration import Calibration, Measuring
from engine.serve.models import Progress
from engine.settings import Settings


class ModelMaker:
    """Loader, weights and registry, as ModelPool and Answers want them. Imports them when first needed."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def check(self, model: str) -> None:
        from engine.model import registry

        registry.find(model)

    def place(self, device: str) -> str:
        from engine.model.device import device_named

        return str(device_named(device))

    def is_ready(self, model: str) -> bool:
        from engine.model import registry, weights

        return weights.is_ready(registry.find(model), self._settings)

    def prepare(self, model: str, progress: Progress) -> None:
        from engine.model import registry, weights

        weights.ensure(registry.find(model), self._settings, progress)

    def load(self, model: str, device: str, progress: Progress) -> Any:
        from engine.model.loader import load_model

        return load_model(model, device=device, settings=self._settings, progress=progress)

    def discard(self) -> None:
        import gc

        import torch

        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        if torch.backends.mps.is_available():
            torch.mps.empty_cache()

    def terms(self, model: str) -> str:
        from engine.model import registry, weights

        return weights.terms_text(registry.find(model), self._settings)

    def accept(self, model: str) -> None:
        from engine.model import registry, weights

        weights.accept_terms(registry.find(model), self._settings)

    def calibrate(self, model: Any, measuring: Measuring) -> Generator[None, None, Calibration | None]:
        from engine.measure.roofline import Site, calibrated

        site = Site(model.device, model.dtype, model.info.prefill_threads)
        return calibrated(self._settings.home, site, measuring)
