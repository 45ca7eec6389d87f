"""Raw prompts of an exact number of tokens, for tests that need one length and not one text."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from engine.generate.tokens import encode
from engine.trace import RunSettings

if TYPE_CHECKING:
    from engine.model.loader import LoadedModel

RAW = RunSettings(use_chat_template=False)
WORDS = ("the", "cat", "sat", "on", "a", "mat", "while", "seven", "quick", "foxes", "asked", "why", "blue", "light", "bends", "in", "water")


def prompt_of(model: LoadedModel, tokens: int, seed: int = 0) -> str:
    """A text that `model` reads as exactly `tokens` tokens without a chat template."""
    text = " ".join(random.Random(seed).choices(WORDS, k=tokens))
    for end in range(tokens, len(text) + 1):
        for candidate in (text[:end], text[: end - 1] + "?"):
            if len(encode(model.tokenizer, model.vocabulary, candidate, RAW).tokens) == tokens and not candidate.endswith(" "):
                return candidate
    raise AssertionError(f"no text of {tokens} tokens")
