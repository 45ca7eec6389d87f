"""The last step of a model by itself: final norm and output head, from one hidden state to the logits.

Knows where a causal LM keeps the two and what it does to the logits afterwards; does not know which layer a state comes from nor what
is read into the logits (engine.generate.lens and .stages do). Whether this is all that the model does is never taken for granted:
`disagreement` holds it against the model's own logits.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import torch
from transformers import PreTrainedModel

from engine.model.device import is_memory_full
from engine.model.layers import decoder

log = logging.getLogger(__name__)

_NORM_NAMES = ("norm", "ln_f", "final_layer_norm", "final_layernorm")
TOLERANCE = 1e-4  # of the largest logit, in float32; a coarser dtype may differ by four of its own steps


class OutputHead:
    """The output head and the model's own extras after it, applied to what the head is given at one position."""

    def __init__(self, model: PreTrainedModel) -> None:
        text = model.config.get_text_config(decoder=True)
        self._module: Any = model.get_output_embeddings()
        self._factor: float | None = getattr(text, "logit_scale", None)  # Cohere
        self._divisor: float | None = getattr(text, "logits_scaling", None)  # Granite
        self._cap: float | None = getattr(text, "final_logit_softcapping", None)  # Gemma 2
        self.reason = "head" if self._module is None else None

    def __call__(self, state: torch.Tensor) -> torch.Tensor:
        """`state` [hidden_size], after the final norm → logits [vocab_size] in the model's dtype.

        One state at a time, in the very shape in which the model does it: a product of another height may round differently.
        """
        logits = self._module(state[None, None])[0, 0]
        if self._factor is not None:
            logits = logits * self._factor
        if self._divisor is not None:
            logits = logits / self._divisor
        return logits if self._cap is None else torch.tanh(logits / self._cap) * self._cap

    def disagreement(self, state: torch.Tensor, logits: torch.Tensor) -> str | None:
        """Why logits cannot be had again: "head" is not found, or "disagrees": `state` does not lead to the model's own `logits`."""
        return self.reason or _disagreement(self, state, logits)


class Readout:
    """Final norm and output head, applied to one layer's state. `reason` says why they cannot be; None: they can."""

    def __init__(self, model: PreTrainedModel) -> None:
        body = decoder(model)
        self._norm: Any = next((held for name in _NORM_NAMES if (held := getattr(body, name, None)) is not None), None)
        self._head = OutputHead(model)
        self.reason = self._head.reason or ("norm" if self._norm is None else None)

    def __call__(self, state: torch.Tensor) -> torch.Tensor:
        """`state` [hidden_size], what a layer gives on → logits [vocab_size] in the model's dtype."""
        return self._head(self._norm(state[None, None])[0, 0])

    def disagreement(self, state: torch.Tensor, logits: torch.Tensor) -> str | None:
        """Why nothing true can be read out: "head" or "norm" is not found, or "disagrees": the last layer's `state` does not lead to
        the model's own `logits`. None: all is well."""
        return self.reason or _disagreement(self, state, logits)


def _disagreement(read_out: Callable[[torch.Tensor], torch.Tensor], state: torch.Tensor, logits: torch.Tensor) -> str | None:
    try:
        with torch.inference_mode():
            own = read_out(state).float()
    except (RuntimeError, TypeError, ValueError) as error:
        if is_memory_full(error):
            raise
        log.debug("nothing can be read out of this model: %s", error)
        return "disagrees"
    if own.shape != logits.shape:
        return "disagrees"
    allowed = max(TOLERANCE, 4 * torch.finfo(logits.dtype).eps) * float(logits.float().abs().max())
    return None if float((own - logits.float()).abs().max()) <= allowed else "disagrees"
