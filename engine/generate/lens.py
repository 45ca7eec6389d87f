"""The logit lens: what the model would say if it stopped after a layer.

Source: nostalgebraist, "interpreting GPT: the logit lens" (2020): the final norm and the output head applied to every layer's output.
Only the last layer was trained to be read this way; an earlier one's guess is what it would mean in the last one's words.
Knows hidden states and the vocabulary; does not know runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from engine.errors import LensUnavailable, NotFinite
from engine.findings import LensRow
from engine.generate.sampling import as_scores, candidates_of
from engine.generate.stages import Scores
from engine.model.device import threads
from engine.model.readout import Readout

if TYPE_CHECKING:
    from engine.generate.tokens import Vocabulary
    from engine.model.loader import LoadedModel


def lens_rows(model: LoadedModel, hidden: torch.Tensor, picked: int, count: int) -> tuple[LensRow, ...]:
    """One row per layer from `hidden` [layers, hidden_size]; `picked` is the id that was really chosen; `count` candidates each.

    A candidate's `probability` is the softmax at temperature 1, as in a trace; its `drawn_from` is 0, since nothing is drawn from
    a layer. One layer's logits at a time: a vocabulary may hold 262,144 tokens. Raises LensUnavailable, NotFinite.
    """
    readout = Readout(model.model)
    if readout.reason is not None:
        raise LensUnavailable(reason=readout.reason)
    with torch.inference_mode(), threads(model.info.decode_threads):
        return tuple(_row(layer, as_scores(readout(state)), picked, count, model.vocabulary) for layer, state in enumerate(hidden))


def _row(layer: int, scores: Scores, picked: int, count: int, vocabulary: Vocabulary) -> LensRow:
    """`rank` counts the tokens that are likelier than the picked one; among equals lower ids come first, as in a list of candidates."""
    best = int(scores.argmax())
    if not np.isfinite(scores[best]):
        raise NotFinite()
    candidates = candidates_of(scores, best, np.zeros(scores.size), best, vocabulary, count)
    ahead = np.count_nonzero(scores > scores[picked]) + np.count_nonzero(scores[:picked] == scores[picked])
    total = float(np.exp(scores - scores[best]).sum(dtype=np.float64))
    return LensRow(layer, candidates, int(ahead), float(np.exp(np.float64(scores[picked] - scores[best]))) / total)
