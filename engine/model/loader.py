"""From a model's name to a model that is ready to run: found, read, placed, measured and warm.

Knows the order of loading and what is told about a model (ModelInfo); does not know how weights are fetched (engine.model.weights),
read from a folder (engine.model.checkpoint) or run (engine.run).
"""

from __future__ import annotations

import platform
import time
from dataclasses import dataclass

import torch
import transformers
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from engine.errors import InvalidSetting
from engine.generate.tokens import Vocabulary, default_system_prompt, encode, has_chat_template
from engine.model import registry, weights
from engine.model.capture import Recorder
from engine.model.checkpoint import eos_ids, read_config, read_tokenizer, read_weights, unrecordable
from engine.model.device import accelerator_dtype, available_threads, device_named, threads
from engine.model.layers import LayerWatch, multiplied_parameters
from engine.model.readout import Readout
from engine.model.registry import ModelSpec
from engine.model.shape import ModelShape, shape_from_config
from engine.model.trial import NEARLY, WarmUp, remembered_trials
from engine.model.weights import Progress
from engine.settings import Settings
from engine.trace import ModelInfo, RunSettings

UNSTATED_CONTEXT = 1_048_576  # a model that names no limit of its own (ALiBi, say)
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


@dataclass(frozen=True, slots=True, eq=False)
class LoadedModel:
    """A model in memory with everything a run needs. `model` is the transformers model itself."""

    spec: ModelSpec
    shape: ModelShape
    device: torch.device
    dtype: torch.dtype
    tokenizer: PreTrainedTokenizerBase
    model: PreTrainedModel
    info: ModelInfo
    vocabulary: Vocabulary


@dataclass(frozen=True, slots=True)
class Readiness:
    """What warming up has shown."""

    prefill_threads: int
    decode_threads: int
    attention_reason: str | None
    lens_reason: str | None


def load_model(
    model: str = "smollm2-135m",
    *,
    device: str = "auto",
    dtype: str | None = None,
    settings: Settings | None = None,
    progress: Progress | None = None,
) -> LoadedModel:
    """Load `model` (a registry key, an owner/name id, or a local folder), fetching it first if need be.

    `device`: auto | cpu | cuda | cuda:N | mps. `dtype`: float32 | bfloat16 | float16, or None for what suits the device (on the CPU
    the faster of two by a short measurement, made once per machine). Raises ModelNotFound, NotCausal, UnsafeWeights,
    UnsupportedConfig, LoadFailed, DeviceUnavailable, InvalidSetting and what engine.model.weights raises.
    """
    started = time.perf_counter()
    settings = settings or Settings.from_env()
    report = progress or _quiet
    spec = registry.find(model)
    place = device_named(device)
    _check_dtype(dtype)
    folder = weights.ensure(spec, settings, progress)
    report("load", 0, 0)
    config = read_config(model, folder)
    shape = shape_from_config(config.get_text_config(decoder=True).to_dict())
    trials = remembered_trials(settings.home, *_layer_size(config, shape)) if dtype is None and place.type == "cpu" else {}
    chosen = DTYPES[dtype] if dtype else _fitting_dtype(place, trials)
    network, tokenizer = read_weights(model, folder, config, chosen, place), read_tokenizer(model, folder)
    report("warm_up", 0, 0)
    ready = _warm_up(network, shape, settings.spare_threads)
    vocabulary = Vocabulary(tokenizer)
    encode(tokenizer, vocabulary, "warm up", RunSettings(use_chat_template=False))  # a tokenizer's first call takes far longer, too
    info = _describe(spec, shape, network, tokenizer, trials, ready, time.perf_counter() - started)
    return LoadedModel(spec, shape, place, chosen, tokenizer, network, info, vocabulary)


def _quiet(stage: str, done: int, total: int) -> None:
    """Progress for nobody."""


def _check_dtype(dtype: str | None) -> None:
    if dtype is not None and dtype not in DTYPES:
        raise InvalidSetting(field="dtype", value=dtype, allowed=" | ".join(DTYPES))


def _layer_size(config: PreTrainedConfig, shape: ModelShape) -> tuple[int, int]:
    """hidden × intermediate size of one layer's largest product (4 × hidden where the config has no number for it)."""
    written = getattr(config.get_text_config(decoder=True), "intermediate_size", None)
    return shape.hidden_size, written if isinstance(written, int) else 4 * shape.hidden_size


def _fitting_dtype(device: torch.device, trials: dict[str, float]) -> torch.dtype:
    """On the CPU bfloat16 unless float32 is clearly faster: in a near tie half the memory decides."""
    if not trials:
        return accelerator_dtype(device)
    return torch.bfloat16 if trials["bfloat16"] <= NEARLY * trials["float32"] else torch.float32


def _warm_up(network: PreTrainedModel, shape: ModelShape, spare_threads: int) -> Readiness:
    """A short prompt and some steps: nothing is cold afterwards, threads are chosen, and recording has been seen to work."""
    every = available_threads()
    reason = unrecordable(network.config)
    recorder = None if reason else Recorder()
    warm_up = WarmUp(network, shape.vocab_size, recorder)
    with threads(every):
        with LayerWatch(network) as watch:
            logits = warm_up.prefill()
        lens_reason = _lens_reason(network, watch.hidden(), logits)
        warm_up.step()
        decode_threads = warm_up.decode_threads(max(1, every - spare_threads)) if network.device.type == "cpu" else every
    if recorder is not None:
        complete = recorder.layers() == list(range(shape.num_hidden_layers))
        reason = recorder.reason or (None if complete else "unrecorded")
    return Readiness(every, decode_threads, reason, lens_reason)


def _lens_reason(network: PreTrainedModel, hidden: torch.Tensor | None, logits: torch.Tensor) -> str | None:
    """Why no guesses can be read off the layers (see errors.LensUnavailable): `hidden` [layers, hidden_size] leads to no true `logits`."""
    readout = Readout(network)
    if hidden is None:
        return readout.reason or "layers"
    return readout.disagreement(hidden[-1], logits)


def _describe(
    spec: ModelSpec,
    shape: ModelShape,
    network: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    trials: dict[str, float],
    ready: Readiness,
    load_s: float,
) -> ModelInfo:
    parameters = list(network.parameters())
    body_parameters, head_parameters = multiplied_parameters(network)
    return ModelInfo(
        model_id=spec.key,
        name=spec.name,
        shape=shape,
        device=str(network.device),
        dtype=str(network.dtype).removeprefix("torch."),
        dtype_bytes=network.dtype.itemsize,
        dtype_trials=trials,
        prefill_threads=ready.prefill_threads,
        decode_threads=ready.decode_threads,
        parameters=sum(one.numel() for one in parameters),
        weight_bytes=sum(one.nbytes for one in parameters),
        context_length=shape.max_position_embeddings or min(tokenizer.model_max_length, UNSTATED_CONTEXT),
        has_chat_template=has_chat_template(tokenizer),
        default_system_prompt=default_system_prompt(tokenizer),
        eos_ids=eos_ids(network, tokenizer),
        load_s=load_s,
        attention_reason=ready.attention_reason,
        versions={"python": platform.python_version(), "torch": str(torch.__version__), "transformers": transformers.__version__},
        body_parameters=body_parameters,
        head_parameters=head_parameters,
        lens_reason=ready.lens_reason,
    )
