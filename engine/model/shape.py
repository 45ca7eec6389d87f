"""Shape numbers of a model, as far as its KV cache and its arithmetic need them.

Knows the field names of config.json families; does not know torch, weights or any live model.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ModelShape:
    """One model's numbers, in Hugging Face's own names.

    `layer_windows` has one entry per layer *that owns a cache*: None for full attention, else the sliding window in tokens.
    For MLA `kv_lora_rank` and `qk_rope_head_dim` are set and replace heads in the cache.
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
