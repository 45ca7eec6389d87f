"""What went wrong, in the reader's words. Knows error codes, their parameters and the texts; does not know where a sentence is shown."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePath

from engine.errors import ErrorInfo, ErrorValue
from ui import i18n, numbers, state
from ui.state import t

_NUMBER = re.compile(r"\d{1,200}")  # a longer one, out of a hostile file, would be no number of bytes
_PLACES = {"model", "path", "file"}  # parameters that may name a place on the server


def explain(info: ErrorInfo | None) -> str:
    """An error in the reader's words; what came from outside is shown literally."""
    if info is None:
        return t("errors.internal")
    params = {name: _value(info, name, value) for name, value in info.params.items()}
    return t(f"errors.{_sentence(info)}").format_map(_Filled(params))


def code_span(text: str, limit: int = 300) -> str:
    """Untrusted text as a Markdown code span: nothing inside it is interpreted."""
    clean = " ".join(text.split())[:limit]
    fence = "`" * (max((len(run) for run in "".join(c if c == "`" else " " for c in clean).split()), default=0) + 1)
    return f"{fence} {clean} {fence}" if clean else "``` ```"


class _Filled(dict[str, str]):
    """An error without one of its text's parameters is still told."""

    def __missing__(self, key: str) -> str:
        return "…"


def _sentence(info: ErrorInfo) -> str:
    """The key of the text: some kinds have a sentence of their own for one cause."""
    words = i18n.table("errors")
    if info.code == "hash_mismatch" and str(info.params.get("found")).startswith("more than"):
        return "hash_mismatch_long"
    if (special := f"{info.code}_{info.params.get('field')}") in words:
        return special
    return info.code if info.code in words else "internal"


def _value(info: ErrorInfo, name: str, value: ErrorValue) -> str:
    if not isinstance(value, str):
        return numbers.mebibytes(value) if name.endswith("_bytes") else f"{value:,}"
    if name == "reason":
        return _translated("reason", value, {}) or code_span(value)
    if name == "field" and info.code != "unsupported_config":  # there it is a key of a config.json
        return _translated("field", value, {}) or code_span(value)
    if name == "detail":
        sizes = {f"n{at}": numbers.mebibytes(int(found)) for at, found in enumerate(_NUMBER.findall(value))}
        return _translated("detail", _NUMBER.sub("n", value), sizes) or code_span(value)
    return code_span(without_folders(value) if name in _PLACES and not state.may_steer() else value)


def _translated(kind: str, value: str, params: Mapping[str, str]) -> str | None:
    """The words for one of our own short technical terms; None for anything else."""
    key = f"{kind}_{re.sub('[^a-z0-9]+', '_', value.lower()).strip('_')}"
    return t(f"errors.{key}").format(**params) if key in i18n.table("errors") else None


def without_folders(name: str) -> str:
    """The last part of an absolute path; any other name as it is. Where things lie on the server is not everybody's business."""
    path = PurePath(name)
    return path.name if path.is_absolute() else name
