"""The attention section seen from outside: what it sends to the browser, what it asks of the engine. Knows no right answers."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from engine.trace import RunView
from ui import resources

LONG = "the cat sat on the mat " * 60


def sent(app: AppTest, name: str) -> dict[str, Any]:
    """What the page sends to a component: the one of the section, where there are several."""
    found = [json.loads(part.proto.json) for part in app.get("bidi_component") if part.proto.component_name == f"openbook_{name}"]
    return next(data for data in found if name != "token_strip" or data["pick"])


def square(data: dict[str, Any]) -> np.ndarray:
    """The weights that the browser gets, as [rows, the same columns]."""
    count = len(data["tokens"])
    cells = np.zeros((count, count), np.float32)
    cells[np.tril_indices(count)] = np.frombuffer(base64.b64decode(data["triangle"]), "<f4")
    return cells


def engines_map(run: RunView, layer: int | None, head: int | None) -> np.ndarray:
    return resources.engine().attention(run.run_id, layer, head)


def note_maps(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """From now on, every attention map of a layer that is asked for, rows in the plural."""
    questions: list[dict[str, Any]] = []
    attend = resources.engine().attention

    def noting(run_id: str, layer: int | None, head: int | None = None, timeout_s: float = 15.0, **named: Any) -> np.ndarray:
        if layer is not None and named.get("rows", 0) > 1:
            questions.append({"layer": layer, "head": head, "timeout_s": timeout_s} | named)
        return attend(run_id, layer, head, timeout_s, **named)

    monkeypatch.setattr(resources.engine(), "attention", noting)
    return questions


def changed(monkeypatch: pytest.MonkeyPatch, run: RunView) -> None:
    """The page is shown another run than there is."""
    monkeypatch.setattr(resources.engine(), "view", lambda run_id: run)


def positions(app: AppTest) -> range:
    """What the map draws."""
    data = sent(app, "attention_map")
    return range(data["first"], data["first"] + len(data["tokens"]))
