"""A question paper of any length: one passage again and again, cut to exactly so many tokens; and a stepper to read it with.

Knows tokenizers' ids and how a measurement is set up; does not know what is measured.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.generate.stepper import Stepper
from engine.generate.tokens import encode_plain
from engine.measure.clock import Clock
from engine.model.loader import LoadedModel
from engine.sweep import Measuring, SweepSample
from engine.trace import RunSettings

# Lewis Carroll, Alice's Adventures in Wonderland (1865), chapter I.
PASSAGE = (
    "Alice was beginning to get very tired of sitting by her sister on the bank, and of having nothing to do: once or twice she had "
    "peeped into the book her sister was reading, but it had no pictures or conversations in it. So she was considering in her own mind, "
    "as well as she could, for the hot day made her feel very sleepy and stupid, whether the pleasure of making a daisy-chain would be "
    "worth the trouble of getting up and picking the daisies, when suddenly a White Rabbit with pink eyes ran close by her. There was "
    "nothing so very remarkable in that; nor did Alice think it so very much out of the way to hear the Rabbit say to itself, I shall be "
    "late! But when the Rabbit actually took a watch out of its waistcoat-pocket, and looked at it, and then hurried on, Alice started to "
    "her feet, and burning with curiosity, she ran across the field after it.\n"
)
SETTINGS = RunSettings(use_chat_template=False, capture_attention=False, temperature=0.0)


@dataclass(frozen=True, slots=True)
class SweepTurn:
    """What one `next()` of an experiment gives: what has been measured, and what comes next (None: that was all)."""

    sample: SweepSample | None
    then: Measuring | None


class Paper:
    """`ids` of `most` tokens of the repeated passage, no template. Raises what encoding raises."""

    def __init__(self, model: LoadedModel, most: int) -> None:
        self._model = model
        once = len(encode_plain(model.tokenizer, model.vocabulary, PASSAGE).tokens)
        text = PASSAGE * (most // max(once - 1, 1) + 2)  # a seam may join two tokens into one
        tokens = encode_plain(model.tokenizer, model.vocabulary, text).tokens[:most]
        self.ids = [token.id for token in tokens]
        self._raw = [token.raw for token in tokens]

    def tokenize_s(self, tokens: int) -> float:
        """Seconds of cutting the text of the first so many tokens, by measurement."""
        text = b"".join(self._raw[:tokens]).decode(errors="ignore")
        return encode_plain(self._model.tokenizer, self._model.vocabulary, text).tokenize_s


def fresh(model: LoadedModel) -> Stepper:
    """Empty notes, nobody who records attention, the most likely token every time."""
    return Stepper(model, SETTINGS, Clock(model.device))
