"""How many bytes a decode step has to read: the weights once, and the notes that its attention looks at, once.

One definition for the whole house. Notes are read in every layer, within its window, the step's own new column included; sharing them
among query heads (GQA) means that they are read once for all of these. A row of the embedding table, and what a kernel reads again or
leaves in a cache of the processor, are left out: this is what has to come out of memory, not what a device did.

Knows a model's numbers; does not know clocks, tensors or devices.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.errors import InvalidSetting, UnsupportedConfig
from engine.kv.sizes import layer_token_width
from engine.model.shape import ModelShape
from engine.trace import ModelInfo


@dataclass(frozen=True, slots=True)
class StepReads:
    """What one step reads, in bytes."""

    weights_bytes: int
    notes_bytes: int


def step_reads(info: ModelInfo, context: int) -> StepReads:
    """A step that attends to `context` tokens, its own included: kv_tokens as it is after the step.

    Weights: every number that a token is multiplied with, output head included; all the weights there are where these were not counted.
    Raises InvalidSetting for context < 1, UnsupportedConfig where the shape does not tell what is read (MLA, layers that own no notes).
    """
    counted = (info.body_parameters + info.head_parameters) * info.dtype_bytes
    notes = tokens_read(info.shape, context) * layer_token_width(info.shape) * info.dtype_bytes
    return StepReads(counted if info.body_parameters else info.weight_bytes, notes)


def tokens_read(shape: ModelShape, context: int) -> int:
    """Σ over layers of the tokens that the newest of `context` tokens reads in each: min(context, window). Raises as `step_reads`."""
    if context < 1:
        raise InvalidSetting(field="context", value=str(context), allowed=">= 1")
    return sum(context if window is None else min(context, window) for window in windows_read(shape))


def windows_read(shape: ModelShape) -> tuple[int | None, ...]:
    """The window within which each layer reads, None: all. Raises UnsupportedConfig.

    MLA keeps latents, and how often these are read depends on who computes. A shape that lists fewer windows than layers has layers
    that borrow another's notes, and does not say within which window.
    """
    if shape.kv_lora_rank is not None:
        raise UnsupportedConfig(field="kv_lora_rank", value=str(shape.kv_lora_rank))
    if len(shape.layer_windows) != shape.num_hidden_layers:
        raise UnsupportedConfig(field="num_kv_shared_layers", value=str(shape.num_hidden_layers - len(shape.layer_windows)))
    return shape.layer_windows
