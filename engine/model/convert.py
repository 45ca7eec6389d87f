"""A GGUF file → a folder of safetensors with a tokenizer that agrees with the file, made in a child process.

Knows transformers' GGUF reader and what it gets wrong; does not know downloads or the cache. A child, because the work takes
up to minutes of pure Python, which would hold up every run of an engine that did it itself, and its memory goes back at once.
"""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from engine.errors import ConversionFailed
from engine.model import disk, leash
from engine.model.registry import ModelSpec

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("torch", "transformers", "tokenizers", "gguf", "safetensors")
Converter = Callable[[ModelSpec, Path, Path, Callable[[], None]], None]


def in_child(spec: ModelSpec, data_file: Path, target: Path, tick: Callable[[], None]) -> None:
    """Convert `data_file` into the folder `target`. Raises ConversionFailed, DiskFull."""
    assert spec.source is not None
    environment = {"PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    arguments = [str(data_file), str(target), spec.source.pre_tokenizer]
    ended = leash.run_module("engine.model.convert", arguments, folder=data_file.parent, environment=environment, tick=tick)
    if ended.exit_code == 0:
        return
    if disk.says_full("\n".join(ended.lines[-5:])):
        raise disk.full(data_file.parent, spec.source.converted_bytes)
    detail = f"ended by signal {-ended.exit_code}" if ended.exit_code < 0 else ended.last_line
    raise ConversionFailed(model=spec.key, detail=detail)


def versions() -> dict[str, str]:
    """Versions of the packages that took part, for the manifest."""
    return {name: importlib.metadata.version(name) for name in PACKAGES}


def convert(data_file: Path, target: Path, pre_tokenizer: str) -> None:
    """Weights unpacked to bfloat16 (packed ones cannot be saved and are ten times slower on a CPU), and the tokenizer."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils.quantization_config import GgufConfig

    folder, name = data_file.parent, data_file.name
    unpack = GgufConfig(dequantize=True)
    model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, dtype=torch.bfloat16, quantization_config=unpack)
    model.save_pretrained(target)
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=name)
    put_right(tokenizer, pre_tokenizer, context=model.config.max_position_embeddings)
    tokenizer.save_pretrained(target)


def put_right(tokenizer: PreTrainedTokenizerBase, pre_tokenizer: str, context: int) -> None:
    """What the GGUF reader leaves out: the pre-tokenizer that the file names, and the length of the context.

    "smollm" as in llama.cpp: every digit by itself, then GPT-2's byte-level pieces.
    """
    if pre_tokenizer == "smollm":
        from tokenizers import pre_tokenizers

        digits = pre_tokenizers.Digits(individual_digits=True)
        pieces = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
        tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, pieces])
    tokenizer.model_max_length = context


if __name__ == "__main__":
    convert(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
