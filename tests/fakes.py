"""Tiny random checkpoints with a real byte-level tokenizer: the smallest models of each family that transformers will run.

Nothing here knows the right answers; tests do. Weights come from a fixed seed, so a checkpoint is the same on every machine.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    AutoModelForCausalLM,
    Gemma3TextConfig,
    GPT2Config,
    LlamaConfig,
    PreTrainedConfig,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen3Config,
)

CHATML = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\nYou are a tiny test model<|im_end|>\n' }}{% endif %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
CORPUS = [
    "the cat sat on the mat the cat",
    "Why is the sky blue?",
    "你好，世界。橘子滚下桌子",
    "user system assistant",
    "1 2 3 10 2024-01-01",
]
KINDS = ("llama", "qwen2", "qwen3", "gpt2", "gemma3")


def make_tokenizer(chat: bool = True) -> PreTrainedTokenizerFast:
    """Byte-level BPE over CORPUS: any text can be written, in 400 tokens at most."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    backend.train_from_iterator(CORPUS, trainer)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend, unk_token="<|endoftext|>", bos_token="<|im_start|>", eos_token="<|im_end|>", pad_token="<|im_end|>"
    )
    tokenizer.model_max_length = 1024
    tokenizer.chat_template = CHATML if chat else None
    return tokenizer


def make_config(kind: str, vocab_size: int, **changes: Any) -> PreTrainedConfig:
    """A config of the family `kind` with 2–4 layers; `changes` override its fields."""
    ids = {"vocab_size": vocab_size, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 2}
    common = ids | {
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 1024,
    }
    if kind == "llama":
        return LlamaConfig(**common | {"tie_word_embeddings": True} | changes)
    if kind == "qwen2":
        return Qwen2Config(**common | {"use_sliding_window": False} | changes)
    if kind == "qwen3":
        return Qwen3Config(**common | {"head_dim": 16} | changes)
    if kind == "gpt2":
        return GPT2Config(**ids | {"n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 1024} | changes)
    if kind == "gemma3":
        windows = {"head_dim": 16, "sliding_window": 64, "query_pre_attn_scalar": 16}
        layer_types = ["sliding_attention", "sliding_attention", "full_attention"]
        return Gemma3TextConfig(**common | windows | {"layer_types": layer_types} | changes)
    raise ValueError(f"no such family: {kind}")


def make_checkpoint(kind: str, folder: Path, *, chat: bool = True, seed: int = 0, **changes: Any) -> Path:
    """Write a tiny random model of family `kind` with its tokenizer into `folder`, as safetensors; give the folder back."""
    tokenizer = make_tokenizer(chat)
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(make_config(kind, len(tokenizer), **changes), dtype=torch.float32)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim > 1:
                weight.mul_(4.0)  # the usual tiny initial scale gives nearly equal logits; spread them out
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
