"""What a share link carries: the question, how it is to be answered, and where one looks. Names of a query and values, both ways.

Pure: knows ranges, the list of models and the names in a link; knows no session and starts nothing. A link is untrusted: numbers
are clamped, and what is unknown, unreadable or longer than any link of ours is ignored. Text stays text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

from engine.errors import ModelNotFound
from engine.model import registry
from engine.trace import RunSettings, RunView

MAX_NEW_LIMIT, TOP_K_LIMIT, SEED_LIMIT, TEMPERATURE_LIMIT = 2048, 1000, 2**31 - 1, 2.0
PLACE_LIMIT = 1023  # of a layer or a head; a page clamps it again, to what its model has
DEVICES = ("auto", "cpu", "cuda", "mps")
TEXT_MOST = 4_000  # characters of question and system text together, as they stand in a link: half of the 8 KiB that common servers take
SYSTEM_MOST = 4_000  # characters, as the field in the sidebar
MEAN = "mean"
NUMBER_MOST = 64  # characters; a longer number is nobody's
_HUB_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*/[A-Za-z0-9_][A-Za-z0-9_.-]*")
_BASE = RunSettings()


@dataclass(frozen=True, slots=True)
class Shared:
    """What a link tells; what it leaves out is as here. `model`, `device`, `layer`, `head` None: as the reader's own app has it.

    `system_prompt` as in RunSettings: None means the template's own, "" none at all.
    """

    question: str = ""
    model: str | None = None
    device: str | None = None
    max_new_tokens: int = 48
    temperature: float = _BASE.temperature
    top_k: int = _BASE.top_k
    top_p: float = _BASE.top_p
    seed: int = _BASE.seed
    use_chat_template: bool = _BASE.use_chat_template
    system_prompt: str | None = None
    layer: int | None = None
    head: int | None = None
    layer_mean: bool = False  # the mean over layers is looked at, whatever `layer` says


@dataclass(frozen=True, slots=True)
class Parcel:
    """The query of a link, and what did not fit in: "question", "system" (too long for a link), "model" (a folder of this computer)."""

    query: dict[str, str]
    left_out: tuple[str, ...]


_NO = Shared()


def parse(query: Mapping[str, str], *, any_model: bool) -> Shared:
    """What the query of a link asks for. Never raises. `any_model`: whether a visitor may name hub ids (engine.settings)."""
    return Shared(
        question=_text(query.get("q"), TEXT_MOST) or "",
        model=known_model(query.get("model"), any_model=any_model),
        device=_one_of(query.get("device"), DEVICES),
        max_new_tokens=int(_number(query.get("max_new"), 1, MAX_NEW_LIMIT, _NO.max_new_tokens)),
        temperature=_number(query.get("temp"), 0.0, TEMPERATURE_LIMIT, _NO.temperature),
        top_k=int(_number(query.get("top_k"), 0, TOP_K_LIMIT, _NO.top_k)),
        top_p=_number(query.get("top_p"), 0.0, 1.0, _NO.top_p),
        seed=int(_number(query.get("seed"), 0, SEED_LIMIT, _NO.seed)),
        use_chat_template=query.get("template") != "0",
        system_prompt=_text(query.get("system"), SYSTEM_MOST),
        layer=_place(query.get("layer")),
        head=_place(query.get("head")),
        layer_mean=query.get("layer") == MEAN,
    )


def link_of(shared: Shared, *, any_model: bool) -> Parcel:
    """The query from which `parse` makes `shared` again: only what differs from the defaults, texts only while they fit. A model always
    stands in it, for another computer may have another one by default. Values out of range are clamped as they are when read."""
    model = known_model(shared.model, any_model=any_model)
    texts, left_out = _texts(shared)
    if shared.model is not None and model is None:
        left_out.append("model")
    query = texts | {
        "model": model,
        "device": _one_of(shared.device, DEVICES),
        "max_new": _differs(_number(shared.max_new_tokens, 1, MAX_NEW_LIMIT, _NO.max_new_tokens), _NO.max_new_tokens),
        "temp": _differs(_number(shared.temperature, 0.0, TEMPERATURE_LIMIT, _NO.temperature), _NO.temperature),
        "top_k": _differs(_number(shared.top_k, 0, TOP_K_LIMIT, _NO.top_k), _NO.top_k),
        "top_p": _differs(_number(shared.top_p, 0.0, 1.0, _NO.top_p), _NO.top_p),
        "seed": _differs(_number(shared.seed, 0, SEED_LIMIT, _NO.seed), _NO.seed),
        "template": None if shared.use_chat_template else "0",
        "layer": MEAN if shared.layer_mean else _differs(_place(shared.layer), None),
        "head": _differs(_place(shared.head), None),
    }
    return Parcel({name: value for name, value in query.items() if value is not None}, tuple(left_out))


def of_run(view: RunView) -> Shared:
    """What a run was asked to do, as far as the sidebar can say it."""
    kept = view.settings
    return Shared(
        question=view.prompt,
        model=view.model_id,
        device=view.device,
        max_new_tokens=min(kept.max_new_tokens, MAX_NEW_LIMIT),
        temperature=min(kept.temperature, TEMPERATURE_LIMIT),
        top_k=min(kept.top_k, TOP_K_LIMIT),
        top_p=kept.top_p,
        seed=min(kept.seed, SEED_LIMIT),
        use_chat_template=kept.use_chat_template,
        system_prompt=kept.system_prompt,
    )


def known_model(name: str | None, *, any_model: bool) -> str | None:
    """A name that may stand in a link: a key of the registry, or a hub id where visitors may name those. Never a folder."""
    if name in {spec.key for spec in registry.MODELS}:
        return name
    if name is None or not any_model or not _HUB_ID.fullmatch(name):
        return None
    try:
        return name if registry.find(name).folder is None else None
    except ModelNotFound:
        return None


def _texts(shared: Shared) -> tuple[dict[str, str | None], list[str]]:
    """Question and system text while both fit into a link, and the names of those that do not. The question comes first."""
    room, found, left_out = TEXT_MOST, dict[str, str | None](), list[str]()
    for name, place, text in (("question", "q", shared.question or None), ("system", "system", shared.system_prompt)):
        width = 0 if text is None else _width(text)
        if width > room:
            left_out.append(name)
            continue
        room -= width
        found[place] = text
    return found, left_out


def _width(text: str) -> int:
    """Characters that a text takes in a link. A lone half of a character cannot stand in one at all."""
    if len(text) > TEXT_MOST:
        return len(text)
    try:
        return len(quote(text, safe=""))
    except UnicodeEncodeError:
        return TEXT_MOST + 1


def _text(value: str | None, most: int) -> str | None:
    """A cut question would be another question: one that is longer than any link of ours is no question."""
    return value if value is not None and len(value) <= most else None


def _one_of(value: str | None, allowed: tuple[str, ...]) -> str | None:
    return value if value in allowed else None


def _place(value: object) -> int | None:
    number = _number(value, 0, PLACE_LIMIT, math.nan)
    return None if math.isnan(number) else int(number)


def _number(value: object, low: float, high: float, otherwise: float) -> float:
    """The number that stands there, clamped; `otherwise` where there is none."""
    if isinstance(value, bool) or not isinstance(value, int | float | str) or (isinstance(value, str) and len(value) > NUMBER_MOST):
        return otherwise
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return otherwise
    return otherwise if math.isnan(number) else min(max(number, low), high) + 0.0  # no minus before a zero


def _differs(value: float | None, default: float | None) -> str | None:
    """A number in a link, the shortest way that gives the same one again; None where it need not stand there."""
    if value is None or value == default:
        return None
    return str(int(value)) if value == int(value) else repr(value)
