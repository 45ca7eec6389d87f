"""A file with a question: its bytes become text, or an error that says where they are none.

Knows encodings and the limit; does not know widgets, nor what the text is for.
"""

from __future__ import annotations

import codecs

from engine.errors import FileBinary, FileEmpty, FileNotText, FileTooLarge

LIMIT_BYTES = 1_000_000  # 1 MB; a character takes at least one byte, so what may be read also fits into the question field
_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_NAMES = {"utf-8": "UTF-8", "utf-16-le": "UTF-16", "utf-16-be": "UTF-16"}


def text_of(data: bytes) -> str:
    """UTF-8 with or without a byte order mark, or UTF-16 with one; the mark itself is left out, all else stays as it is.

    Raises FileTooLarge, FileNotText and FileBinary (positions are those in `data`), FileEmpty.
    """
    if len(data) > LIMIT_BYTES:
        raise FileTooLarge(size=len(data), limit=LIMIT_BYTES)
    mark, encoding = next(((mark, name) for mark, name in _MARKS if data.startswith(mark)), (b"", "utf-8"))
    try:
        text = data[len(mark) :].decode(encoding)
    except UnicodeDecodeError as error:
        position = len(mark) + error.start
        raise _unreadable(data, position, encoding) from error
    if (zero := text.find("\0")) >= 0:
        raise FileBinary(position=len(mark) + len(text[:zero].encode(encoding)))
    if not text.strip():
        raise FileEmpty()
    return text


def _unreadable(data: bytes, position: int, encoding: str) -> FileNotText | FileBinary:
    """What is no text: a zero byte before the first fault tells a picture or a program."""
    zero = data.find(0, 0, position)
    if zero >= 0 and encoding == "utf-8":
        return FileBinary(position=zero)
    return FileNotText(position=position, byte=f"0x{data[position]:02X}", encoding=_NAMES[encoding])
