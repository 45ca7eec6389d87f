"""The terms some packaged weights come with: their text, and the record that somebody accepted them here.

Knows the small package that carries the terms; does not know how they are shown. The text is fetched alone, before any weights.
"""

from __future__ import annotations

import hashlib
import json
import re
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path

from engine.errors import Offline
from engine.model import disk, package, store
from engine.model.registry import ModelSpec
from engine.settings import Settings

NEEDED_BYTES = 1 << 20
_BLOCKS = {"p", "h1", "h2", "h3", "h4", "li", "ul", "ol", "div", "aside", "br", "tr"}
_SILENT = {"script", "style", "template", "button", "nav", "head"}
_BODY_CLASS = "devsite-article-body"


def text(spec: ModelSpec, settings: Settings) -> str:
    """Plain text of the terms; "" for a model without any. Raises Offline, DownloadFailed, DiskFull, StorageFailed."""
    source = spec.source
    if source is None or source.terms_requirement is None or source.terms_member is None:
        return ""
    kept = _folder(settings) / f"{spec.key}.txt"
    with disk.writing(settings.home, NEEDED_BYTES):
        if not kept.exists():
            if settings.offline:
                raise Offline(model=spec.key)
            kept.parent.mkdir(parents=True, exist_ok=True)
            entry = store.CacheEntry(settings.home, f"{spec.key}.terms")
            with store.locked(entry, _nothing), store.staged(entry) as folder:
                package.download([source.terms_requirement], folder, NEEDED_BYTES, _nothing)
                page = package.read_member(folder, source.terms_requirement, source.terms_member)
                _write(kept, plain_text(page.decode("utf-8", errors="replace")), folder)
        return kept.read_text(encoding="utf-8")


def accept(spec: ModelSpec, settings: Settings) -> None:
    """Record, with the date and the hash of the text, that the terms were accepted on this machine. Raises what `text` raises."""
    digest = hashlib.sha256(text(spec, settings).encode()).hexdigest()
    record = {"model": spec.key, "license": spec.license, "accepted_at": datetime.now(UTC).isoformat(), "terms_sha256": digest}
    place = _folder(settings) / f"{spec.key}.accepted.json"
    with disk.writing(settings.home, NEEDED_BYTES):
        place.parent.mkdir(parents=True, exist_ok=True)
        _write(place, json.dumps(record, indent=1), place.parent)


def accepted(spec: ModelSpec, settings: Settings) -> bool:
    """True for a model without terms. Raises StorageFailed."""
    with disk.writing(settings.home, NEEDED_BYTES):
        return not spec.needs_terms or (_folder(settings) / f"{spec.key}.accepted.json").is_file()


def plain_text(page: str) -> str:
    """The article of an HTML page as paragraphs; the whole body when no article is marked."""
    reader = _Article(whole=_BODY_CLASS not in page.rpartition("</style>")[2])
    reader.feed(page)
    reader.close()
    lines = (re.sub(r"\s+", " ", line).strip() for line in "".join(reader.parts).split("\0"))
    return "\n\n".join(line for line in lines if line and line != "•")


class _Article(HTMLParser):
    """Collects text; "\\0" stands where a block begins or ends."""

    def __init__(self, whole: bool) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self._whole = whole
        self._depth = 0  # divs open since the article's own
        self._silent = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _SILENT:
            self._silent += 1
        if tag == "div" and (self._depth or _BODY_CLASS in (dict(attrs).get("class") or "").split()):
            self._depth += 1
        if tag in _BLOCKS:
            self.parts.append("\0• " if tag == "li" else "\0")

    def handle_endtag(self, tag: str) -> None:
        if tag in _SILENT:
            self._silent = max(0, self._silent - 1)
        if tag == "div" and self._depth:
            self._depth -= 1
        if tag in _BLOCKS:
            self.parts.append("\0")

    def handle_data(self, data: str) -> None:
        if not self._silent and (self._whole or self._depth):
            self.parts.append(data)


def _folder(settings: Settings) -> Path:
    return settings.home / "terms"


def _write(place: Path, content: str, staging: Path) -> None:
    made = staging / f"{place.name}.new"
    made.write_text(content, encoding="utf-8")
    made.replace(place)


def _nothing() -> None:
    """Too small a download to report on."""
