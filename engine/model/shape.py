"""Shape numbers of a model, as far as its KV cache and its arithmetic need them.

Knows the field names of config.json families; does not know torch, weights or any live model.
A family that is not listed here is refused by name: a wrong number would look as sure as a right one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from engine.errors import UnsupportedConfig


@dataclass(frozen=True, slots=True)
class ModelShape:
    """One model's numbers, in Hugging Face's own names.

    `layer_windows` has one entry per layer *that owns a cache*: None for full attention, else the sliding window in tokens.
    For MLA `kv_lora_rank` and `qk_rope_head_dim` are set and replace heads in the cache.
    `vocab_size` and `max_position_embeddings` are 0 where the config does not state them.
    """

    model_type: str
    num_hidden_layers: int
    hidden_size: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    vocab_size: int
    max_position_embeddings: int
    layer_windows: tuple[int | None, ...]
    kv_lora_rank: int | None = None
    qk_rope_head_dim: int | None = None

    @property
    def group_size(self) -> int:
        """Query heads that share one set of notes (1 for MHA)."""
        return self.num_attention_heads // self.num_key_value_heads


WindowRule = Literal["none", "all", "switched_all", "qwen", "pattern", "listed", "unknown"]


@dataclass(frozen=True, slots=True)
class _Family:
    """How one model_type reads its config. `defaults` are those of transformers' config class, for absent fields.

    windows: none (all layers full) · all (every layer, if `sliding_window` is set) · switched_all (the same behind
    `use_sliding_window`) · qwen (behind the switch, from layer `max_window_layers` on) · pattern (every `pattern`-th layer full) ·
    listed (only by `layer_types`) · unknown (no model_type: a window without `layer_types` is refused).
    """

    windows: WindowRule = "none"
    defaults: Mapping[str, int] = field(default_factory=dict)
    pattern: int = 0
    pattern_field: bool = False  # reads sliding_window_pattern
    mla: bool = False
    multi_query: bool = False  # Falcon's and BigCode's own switch
    grouped: bool = True  # reads num_key_value_heads; False: whatever the config says there, every head has notes of its own


_GEMMA3 = {"num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "sliding_window": 4096} | {
    "vocab_size": 262_208,
    "max_position_embeddings": 131_072,
}
_GEMMA3N = {"num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 256, "sliding_window": 512} | {
    "vocab_size": 262_400,
    "max_position_embeddings": 32_768,
    "num_kv_shared_layers": 15,
}
_FAMILIES: dict[str, _Family] = {
    **dict.fromkeys(("llama", "phi", "olmo", "olmo2", "stablelm", "granite"), _Family()),
    **dict.fromkeys(("gpt2", "gpt_neox", "gptj", "opt", "bloom", "qwen"), _Family(grouped=False)),
    "gpt_bigcode": _Family(multi_query=True),
    "falcon": _Family(multi_query=True),
    "mistral": _Family("all", {"num_key_value_heads": 8, "sliding_window": 4096}),
    "mixtral": _Family("all", {"num_key_value_heads": 8}),
    "phi3": _Family("all"),
    "starcoder2": _Family("all", {"num_key_value_heads": 2}),
    "qwen2": _Family("qwen", {"num_key_value_heads": 32, "max_window_layers": 28, "sliding_window": 4096}),
    "qwen2_moe": _Family("qwen", {"num_key_value_heads": 16, "max_window_layers": 28, "sliding_window": 4096}),
    "qwen3": _Family("qwen", {"num_key_value_heads": 32, "head_dim": 128, "max_window_layers": 28, "sliding_window": 4096}),
    "qwen3_moe": _Family("switched_all", {"num_key_value_heads": 4, "sliding_window": 4096}),
    "smollm3": _Family("listed", {"num_key_value_heads": 4}),
    "gemma": _Family("none", {"num_key_value_heads": 16, "head_dim": 256}),
    "gemma2": _Family("pattern", {"num_key_value_heads": 4, "head_dim": 256, "sliding_window": 4096}, pattern=2),
    "gemma3_text": _Family("pattern", _GEMMA3, pattern=6, pattern_field=True),
    "gemma3n_text": _Family("pattern", _GEMMA3N, pattern=5),
    "gpt_oss": _Family("pattern", {"num_key_value_heads": 8, "head_dim": 64, "sliding_window": 128}, pattern=2),
    "cohere2": _Family("pattern", {"sliding_window": 4096}, pattern=4, pattern_field=True),
    "olmo3": _Family("pattern", {"sliding_window": 4096}, pattern=4),
    "deepseek_v2": _Family(mla=True),
    "deepseek_v3": _Family(mla=True),
}
_UNNAMED = _Family("unknown")  # a config without model_type: only fields that leave no doubt
_NESTED = {"gemma3": "gemma3_text", "gemma3n": "gemma3n_text", "mistral3": "mistral"}
_ALIASES: dict[str, tuple[str, ...]] = {
    "num_hidden_layers": ("n_layer", "n_layers", "num_layers"),
    "hidden_size": ("n_embd", "n_embed", "d_model"),
    "num_attention_heads": ("n_head", "n_heads", "num_heads"),
    "num_key_value_heads": ("num_kv_heads", "n_head_kv"),
    "head_dim": ("kv_channels",),
    "max_position_embeddings": ("n_positions", "n_ctx", "max_seq_len", "seq_length"),
    "sliding_window_pattern": ("_sliding_window_pattern",),
}
# Fields by which models say that some layers keep no ordinary cache: too much to guess without a model_type.
_DOUBTFUL = (
    *("layers_block_type", "block_types", "attn_layer_period", "attn_layer_indices", "hybrid_override_pattern", "attn_type_list"),
    *("attention_layers", "attention_chunk_size", "state_size", "ssm_cfg", "attn_config", "is_encoder_decoder"),
    *("multi_query", "num_kv_shared_layers", "kv_lora_rank"),
)
_MAX_LAYERS = 10_000
_MAX_NUMBER = 2**40


@dataclass(frozen=True, slots=True)
class _Fields:
    """One (text) config with the names and defaults of its family."""

    values: Mapping[str, Any]
    defaults: Mapping[str, int]

    def find(self, name: str) -> Any:
        """The value under any of the field's names, else the family's default, else None. An explicit null is None."""
        for key in (name, *_ALIASES.get(name, ())):
            if key in self.values:
                return self.values[key]
        return self.defaults.get(name)

    def optional(self, name: str, *, least: int = 1) -> int | None:
        """A whole number of at least `least`, or None for null and absent. Raises UnsupportedConfig."""
        value = self.find(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= _MAX_NUMBER:
            raise _refused(name, value)
        return value

    def required(self, name: str) -> int:
        value = self.optional(name)
        if value is None:
            raise _refused(name, None)
        return value

    def flag(self, name: str, default: bool) -> bool:
        value = self.values.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise _refused(name, value)
        return value


def shape_from_config(config: dict[str, Any]) -> ModelShape:
    """The shape in a Hugging Face config.json (as a dict). Raises UnsupportedConfig, naming the field that is missing or not understood.

    Nested `text_config` is followed. Rules: transformers' own config classes; an absent field has that class's default.
    """
    model_type, values = _text_part(config)
    family = _UNNAMED if model_type == "" else _FAMILIES.get(model_type)
    if family is None:
        raise _refused("model_type", model_type)
    fields = _Fields(values, family.defaults)
    _refuse_doubtful(fields, family)
    layers = fields.required("num_hidden_layers")
    if layers > _MAX_LAYERS:
        raise _refused("num_hidden_layers", layers)
    heads = fields.required("num_attention_heads")
    return ModelShape(
        model_type=model_type or "unnamed",
        num_hidden_layers=layers,
        hidden_size=fields.required("hidden_size"),
        num_attention_heads=heads,
        num_key_value_heads=_kv_heads(fields, family, heads),
        head_dim=_head_dim(fields, family, heads),
        vocab_size=fields.optional("vocab_size", least=0) or 0,
        max_position_embeddings=fields.optional("max_position_embeddings", least=0) or 0,
        layer_windows=_owned(fields, _layer_windows(fields, family, layers)),
        kv_lora_rank=fields.required("kv_lora_rank") if family.mla else None,
        qk_rope_head_dim=fields.required("qk_rope_head_dim") if family.mla else None,
    )


def _text_part(config: object) -> tuple[str, Mapping[str, Any]]:
    """(model_type, fields) of the language model inside the config; model_type "" if it is not stated."""
    if not isinstance(config, Mapping):
        raise _refused("config", type(config).__name__)
    outer = config.get("model_type") or ""
    inner = config.get("text_config")
    if inner is not None and not isinstance(inner, Mapping):
        raise _refused("text_config", type(inner).__name__)
    if inner is None and outer in _NESTED:
        raise _refused("text_config", None)
    values = config if inner is None else inner
    model_type = outer if inner is None else inner.get("model_type") or _NESTED.get(str(outer), outer)
    if not isinstance(model_type, str):
        raise _refused("model_type", model_type)
    return model_type, values


def _refuse_doubtful(fields: _Fields, family: _Family) -> None:
    if fields.flag("use_bidirectional_attention", False):  # not causal; halves the window
        raise _refused("use_bidirectional_attention", True)
    if family is not _UNNAMED:
        return
    for name in _DOUBTFUL:
        if fields.values.get(name):
            raise _refused(name, fields.values[name])


def _kv_heads(fields: _Fields, family: _Family, heads: int) -> int:
    if family.mla:  # the latent serves all heads; the field has no meaning for the cache
        return heads
    if family.multi_query and not fields.flag("new_decoder_architecture", False):
        return 1 if fields.flag("multi_query", True) else heads  # whatever num_kv_heads says (Falcon-7B writes 71)
    kv_heads = (fields.optional("num_key_value_heads") if family.grouped else None) or heads
    if heads % kv_heads:
        raise _refused("num_key_value_heads", kv_heads)
    return kv_heads


def _head_dim(fields: _Fields, family: _Family, heads: int) -> int:
    if family.mla:  # the width of one head's value; the cache does not depend on it
        return fields.required("v_head_dim")
    stated = fields.optional("head_dim") or family.defaults.get("head_dim")
    if stated:
        return stated
    hidden = fields.required("hidden_size")
    if hidden % heads:
        raise _refused("head_dim", None)
    return hidden // heads


def _layer_windows(fields: _Fields, family: _Family, layers: int) -> tuple[int | None, ...]:
    """One entry per layer, shared layers included."""
    kinds = _layer_kinds(fields.values.get("layer_types"), layers)
    full: tuple[int | None, ...] = (None,) * layers
    if family.windows in ("qwen", "switched_all", "listed") and not fields.flag("use_sliding_window", False):
        return full  # Qwen2.5 states a window and switches it off
    if kinds is not None:
        window = fields.required("sliding_window") if "sliding_attention" in kinds else None
        return tuple(window if kind == "sliding_attention" else None for kind in kinds)
    if family.windows == "none":
        return full
    window = fields.required("sliding_window") if family.windows == "pattern" else fields.optional("sliding_window")
    if window is None:
        return full
    if family.windows in ("unknown", "listed"):
        raise _refused("layer_types", None)
    if family.windows == "qwen":
        first = fields.optional("max_window_layers", least=0) or 0
        return tuple(window if layer >= first else None for layer in range(layers))
    pattern = (fields.optional("sliding_window_pattern") if family.pattern_field else None) or family.pattern
    return tuple(None if pattern and (layer + 1) % pattern == 0 else window for layer in range(layers))


def _layer_kinds(listed: object, layers: int) -> tuple[str, ...] | None:
    if listed is None:
        return None
    if not isinstance(listed, list | tuple) or len(listed) != layers:
        raise _refused("layer_types", f"{len(listed)} entries for {layers} layers" if isinstance(listed, list | tuple) else listed)
    for kind in listed:
        if kind not in ("full_attention", "sliding_attention"):
            raise _refused("layer_types", kind)
    return tuple(listed)


def _owned(fields: _Fields, windows: tuple[int | None, ...]) -> tuple[int | None, ...]:
    """Without the last layers, where those reuse another layer's keys and values (Gemma 3n)."""
    shared = fields.optional("num_kv_shared_layers", least=0) or 0
    if shared >= len(windows):
        raise _refused("num_kv_shared_layers", shared)
    return windows[: len(windows) - shared]


def _refused(name: str, value: object) -> UnsupportedConfig:
    return UnsupportedConfig(field=name, value="null" if value is None else str(value)[:80])
