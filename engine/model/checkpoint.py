"""A folder with a checkpoint → config, weights, tokenizer. Never the network, never a checkpoint's own code, safetensors only.

Knows transformers' Auto classes and how they fail; does not know where the folder came from, devices or runs.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING, MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
from transformers.utils.logging import disable_progress_bar

from engine.errors import LoadFailed, ModelNotFound, NotCausal, UnsafeWeights
from engine.model.attend import ATTENTION_NAME, register
from engine.model.device import is_memory_full

_SAFE: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}


def read_config(model: str, folder: Path) -> PreTrainedConfig:
    """The config of a causal language model. Raises ModelNotFound, NotCausal, UnsafeWeights, LoadFailed."""
    if not folder.is_dir():
        raise ModelNotFound(model=model)
    written = _read_json(model, folder / "config.json")
    architectures = written.get("architectures") or []
    if architectures and not set(architectures) & _causal_names():
        if "auto_map" in written:
            raise UnsafeWeights(model=model)
        raise NotCausal(model=model, model_type=str(written.get("model_type", architectures[0])))
    if not any(folder.glob("*.safetensors")):
        raise UnsafeWeights(model=model) if _has_other_weights(folder) else LoadFailed(model=model, detail="no *.safetensors in the folder")
    try:
        config = AutoConfig.from_pretrained(folder, **_SAFE)
    except Exception as error:
        raise (UnsafeWeights(model=model) if "auto_map" in written else _load_failed(model, error)) from error
    if type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING or config.is_encoder_decoder:
        raise NotCausal(model=model, model_type=config.model_type)
    return config


def read_weights(model: str, folder: Path, config: PreTrainedConfig, dtype: torch.dtype, device: torch.device) -> PreTrainedModel:
    """The network on `device`, ready to run and to be recorded where its attention can be. Raises LoadFailed; memory errors pass."""
    register()
    disable_progress_bar()
    attention = None if unrecordable(config) else ATTENTION_NAME
    try:
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            folder, config=config, dtype=dtype, use_safetensors=True, attn_implementation=attention, output_loading_info=True, **_SAFE
        )
    except Exception as error:
        if is_memory_full(error):
            raise
        raise _load_failed(model, error) from error
    network, report = loaded
    if report["missing_keys"]:  # transformers would fill them with random numbers
        raise LoadFailed(model=model, detail=f"weights are missing: {', '.join(sorted(report['missing_keys'])[:3])}")
    return network.to(device).eval().requires_grad_(False)


def read_tokenizer(model: str, folder: Path) -> PreTrainedTokenizerBase:
    """Raises LoadFailed."""
    try:
        return AutoTokenizer.from_pretrained(folder, **_SAFE)
    except Exception as error:
        raise _load_failed(model, error) from error


def unrecordable(config: PreTrainedConfig) -> str | None:
    """Why this architecture's attention cannot be rebuilt from queries and keys alone (see errors.AttentionUnavailable); None: it can."""
    text = config.get_text_config(decoder=True)
    if getattr(text, "attn_logit_softcapping", None) is not None:
        return "softcap"
    if text.model_type.startswith("gpt_oss"):
        return "sinks"
    if getattr(text, "kv_lora_rank", None):
        return "latent"
    if getattr(text, "alibi", False) or text.model_type in ("bloom", "mpt"):
        return "position"
    if text.model_type == "falcon":  # picks its attention from a list of its own, which knows no other names
        return "unrecorded"
    kinds = set(getattr(text, "layer_types", None) or ()) - {"full_attention", "sliding_attention"}
    network: Any = MODEL_FOR_CAUSAL_LM_MAPPING[type(config)]
    classes = network if isinstance(network, tuple) else (network,)
    return "unrecorded" if kinds or not all(one._supports_sdpa for one in classes) else None


def eos_ids(network: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> tuple[int, ...]:
    """Every id that ends an answer, by generation config, config and tokenizer."""
    text = network.config.get_text_config(decoder=True)
    named = (getattr(network.generation_config, "eos_token_id", None), getattr(text, "eos_token_id", None), tokenizer.eos_token_id)
    return tuple(sorted({one for ids in named if ids is not None for one in (ids if isinstance(ids, list | tuple) else [ids])}))


def _causal_names() -> set[str]:
    names = MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values()
    return {name for value in names for name in (value if isinstance(value, tuple | list) else (value,))}


def _has_other_weights(folder: Path) -> bool:
    return any(path.suffix in {".bin", ".pt", ".pth", ".pkl", ".ckpt", ".h5", ".msgpack"} for path in folder.iterdir())


def _read_json(model: str, path: Path) -> dict[str, Any]:
    try:
        written = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise _load_failed(model, error) from error
    if not isinstance(written, dict):
        raise LoadFailed(model=model, detail=f"{path.name} holds no object")
    return written


def _load_failed(model: str, error: Exception) -> LoadFailed:
    lines = str(error).strip().splitlines()
    return LoadFailed(model=model, detail=f"{type(error).__name__}: {lines[0] if lines else ''}")
