"""Reader-facing words: `assets/text/<page>.toml`, Chinese and English side by side. Knows files; knows no session.

A file holds tables `[key]` with `en` and `zh`. Places in a text are filled by name: `{tokens}`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

LANGUAGES = ("en", "zh")
LANGUAGE_NAMES = {"en": "English", "zh": "中文"}
TEXT_DIR = Path(__file__).resolve().parent.parent / "assets" / "text"


class MissingText(KeyError):
    """A text was asked for that the files do not have."""


@cache
def table(name: str) -> Mapping[str, Mapping[str, str]]:
    """One file as key → language → text. Raises MissingText."""
    path = TEXT_DIR / f"{name}.toml"
    if not path.is_file():
        raise MissingText(name)
    return tomllib.loads(path.read_text(encoding="utf-8"))


def text(language: str, key: str, /, **params: object) -> str:
    """The text of `page.key`, with its places filled. Raises MissingText."""
    name, _, entry = key.partition(".")
    try:
        words = table(name)[entry][language]
    except KeyError:
        raise MissingText(f"{key} ({language})") from None
    return words.format(**params) if params else words


def labels(language: str, component: str) -> dict[str, str]:
    """The words of one component, and those that all of them share: keys that begin with its name or with `live`."""
    prefixes = (f"{component}_", "live_")
    return {key: words[language] for key, words in table("components").items() if key.startswith(prefixes)}


def language_of(locale: str | None) -> str:
    """The language for a browser's locale: Chinese for zh-*, else English."""
    return "zh" if (locale or "").lower().startswith("zh") else "en"
