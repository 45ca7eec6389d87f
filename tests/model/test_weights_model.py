"""The converted SmolLM2: its size, and that its tokenizer says what llama.cpp says on the packaged file."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors import safe_open
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from engine.model import registry, weights
from engine.model.store import MANIFEST
from engine.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
PARAMETERS = 134_515_008

# llama.cpp's ids for the packaged file. The reader's own tokenizer, without the fix, differs on every line marked *.
EXPECTED_IDS: tuple[tuple[str, list[int]], ...] = (
    ("don't1*  12(", [12420, 982, 33, 26, 256, 33, 34, 24]),  # *
    ("I'LL;+&8| cat.\u4e16\u754c  12", [57, 23, 16421, 43, 27, 22, 40, 108, 2644, 30, 7906, 240, 178, 239, 230, 256, 33, 34]),  # *
    (
        "(c=\ud55c\uad6d\uc5b4I'LL 1!,~   12",
        [24, 83, 45, 33085, 246, 181, 130, 251, 183, 240, 129, 57, 23, 16421, 216, 33, 45495, 110, 333, 33, 34],
    ),  # *
    (
        "+\u3000 12\r\n07-7]*X3\u3000$1_\u684c\u5b50",
        [27, 12109, 218, 216, 33, 34, 2738, 32, 39, 29, 39, 19118, 72, 35, 12109, 218, 20, 33, 79, 177, 111, 230, 47222],
    ),  # *
    ("9\u3000", [41, 12109, 218]),
    ("\u21678", [173, 223, 117, 40]),
    (".:+", [11171, 27]),
    ("`/\r\n\n!8\u00df", [80, 31, 2738, 198, 17, 40, 34878]),
    ("{bI'LL\u4f60\u597d", [107, 82, 57, 23, 16421, 18645, 250, 48392, 138]),
)


@pytest.fixture(scope="module")
def tokenizer(smollm2_dir: Path) -> PreTrainedTokenizerBase:
    return AutoTokenizer.from_pretrained(smollm2_dir, local_files_only=True)


def test_every_parameter_is_there_in_bfloat16(smollm2_dir: Path) -> None:
    with safe_open(smollm2_dir / "model.safetensors", framework="pt") as file:
        tensors = [file.get_slice(name) for name in file.keys()]  # noqa: SIM118 (no mapping: it has keys() and no iteration)
        assert {tensor.get_dtype() for tensor in tensors} == {"BF16"}
        assert sum(math.prod(tensor.get_shape()) for tensor in tensors) == PARAMETERS


@pytest.mark.parametrize(("text", "ids"), EXPECTED_IDS, ids=[ascii(text) for text, _ in EXPECTED_IDS])
def test_tokenizer_agrees_with_llama_cpp(tokenizer: PreTrainedTokenizerBase, text: str, ids: list[int]) -> None:
    assert tokenizer(text, add_special_tokens=False).input_ids == ids


def test_context_and_special_tokens(tokenizer: PreTrainedTokenizerBase) -> None:
    assert tokenizer.model_max_length == 8192
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id, tokenizer.unk_token_id) == (1, 2, 2, 0)


def test_the_template_brings_the_only_bos(tokenizer: PreTrainedTokenizerBase) -> None:
    assert tokenizer("hi").input_ids == tokenizer("hi", add_special_tokens=False).input_ids == [6004]
    text = tokenizer.apply_chat_template([{"role": "user", "content": "hi"}], add_generation_prompt=True, tokenize=False)
    assert isinstance(text, str)
    assert tokenizer(text).input_ids[:3] == [1, 9690, 198]


def test_nothing_but_the_model_is_left(smollm2_dir: Path) -> None:
    manifest = json.loads((smollm2_dir / MANIFEST).read_text(encoding="utf-8"))
    assert {path.name for path in smollm2_dir.iterdir()} == {*manifest["files"], MANIFEST}
    assert not [path for path in smollm2_dir.iterdir() if path.suffix in {".gguf", ".whl", ".py"}]
    assert weights.is_ready(registry.find("smollm2-135m"), Settings.from_env())


def test_a_ready_model_needs_no_torch(smollm2_dir: Path) -> None:
    code = "import sys; from engine.model import console; r = console.main(['smollm2-135m']); print(r, 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.stdout.split()[-3:] == [str(smollm2_dir), "0", "False"], done.stderr
