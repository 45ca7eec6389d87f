"""A small made-up run: model, prompt's reading, steps. For tests of what is done with a run, not of what is in it."""

from __future__ import annotations

from engine.model.shape import ModelShape
from engine.trace import DecodeStep, ModelInfo, PrefillTrace, Token

SHAPE = ModelShape("llama", 2, 32, 4, 2, 8, 400, 1024, (None, None))
INFO = ModelInfo("m", "M", SHAPE, "cpu", "float32", 4, {}, 2, 1, 10, 40, 1024, True, "", (2,), 0.1)


def token(position: int) -> Token:
    return Token(65, b"A", "A", "generated", position)


def step(index: int) -> DecodeStep:
    return DecodeStep(index, token(3 + index), (), 0.0, 0.0, 0.01, 0.001, 0.011, 0.1 * index, 100, 4, 0)


PREFILL = PrefillTrace(3, 0.0, 0.0, 0.0, 0.1, 0.0, 0.0, 0.1, token(3), (), 96, 3, 0)
