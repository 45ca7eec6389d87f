"""The models of the engine process as the pages see them: which ones there are, their terms, which may be asked for, and what the
machine can do for one of them.

Knows the stock and the border; does not know runs. What is asked for comes asynchronously.
"""

from __future__ import annotations

import secrets

from engine import codec
from engine.calibration import Calibration, Measuring
from engine.errors import ModelNotFound
from engine.model import registry
from engine.serve.asks import PATIENCE_S, AcceptTerms, AskCalibration, AskTerms, Question
from engine.serve.protocol import LoadModel, Message
from engine.serve.questions import Answer
from engine.serve.stock import ModelStatus, Stock
from engine.settings import Settings

TERMS_TIMEOUT_S = 60.0  # they may have to be fetched
SURVEY_TIMEOUT_S = 60.0  # a second or two of work, in pieces between the turns of others


class ModelSupply:
    """The models of a client, which brings `_post` (a command) and `_ask` (a question)."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._stock = Stock()

    def _post(self, message: Message) -> None:
        raise NotImplementedError

    def _ask(self, question: Question, timeout_s: float) -> Answer:
        raise NotImplementedError

    def load_model(self, model: str, device: str = "auto") -> None:
        """Asynchronous: see model_status. Raises LoneSurrogate; ModelNotFound for a model that visitors may not name."""
        for text in (model, device):
            codec.check_text(text)
        self._check_model(model)
        self._stock.expect(model, device)
        self._post(LoadModel(model, device))

    def model_status(self, model: str, device: str = "auto") -> ModelStatus:
        return self._stock.get(model, device)

    def terms(self, model: str) -> str:
        """The terms of a packaged model; "" without any. Raises EngineError."""
        self._check_model(model)
        return str(self._ask(AskTerms(secrets.token_hex(8), model), TERMS_TIMEOUT_S))

    def accept_terms(self, model: str) -> None:
        """Raises EngineError."""
        self._check_model(model)
        self._ask(AcceptTerms(secrets.token_hex(8), model), TERMS_TIMEOUT_S)

    def calibration(self, model: str, device: str = "auto", again: bool = False) -> Calibration:
        """What this machine can do, on the device where `model` runs and in its dtype: as it is kept, else measured now, between the
        turns of the runs; `again`: measured now in any case. Raises EngineError (ModelNotLoaded for a model that is not in memory)."""
        found = self._survey(model, device, "again" if again else "once")
        assert found is not None, "what is not kept is measured"
        return found

    def known_calibration(self, model: str, device: str = "auto") -> Calibration | None:
        """The same as it is kept; None where it has not been measured yet. Raises EngineError."""
        return self._survey(model, device, "never")

    def _survey(self, model: str, device: str, measuring: Measuring) -> Calibration | None:
        for text in (model, device):
            codec.check_text(text)
        self._check_model(model)
        timeout_s = PATIENCE_S if measuring == "never" else SURVEY_TIMEOUT_S
        answer = self._ask(AskCalibration(secrets.token_hex(8), model, device, measuring, timeout_s), timeout_s)
        return codec.load(answer, Calibration) if isinstance(answer, str) and answer else None

    def _check_model(self, model: str) -> None:
        """Where visitors may not name any model: only the registry's keys, and what this installation itself is set to."""
        if not self._settings.any_model and model not in {self._settings.model, *(spec.key for spec in registry.MODELS)}:
            raise ModelNotFound(model=model[: registry.QUOTED])
