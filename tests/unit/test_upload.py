"""A file's bytes become text, or an error that names the place: encodings, byte order marks, limits."""

from __future__ import annotations

import codecs

import pytest

from engine.errors import EngineError, FileBinary, FileEmpty, FileNotText, FileTooLarge
from ui import i18n, state
from ui.upload import LIMIT_BYTES, text_of

WORDS = "你好🤗 the cat\r\n\ufffd \u200d end"


@pytest.mark.parametrize(
    "data",
    [
        WORDS.encode(),
        codecs.BOM_UTF8 + WORDS.encode(),
        codecs.BOM_UTF16_LE + WORDS.encode("utf-16-le"),
        codecs.BOM_UTF16_BE + WORDS.encode("utf-16-be"),
    ],
    ids=["utf-8", "utf-8 with mark", "utf-16 little", "utf-16 big"],
)
def test_text_is_read_to_the_last_character(data: bytes) -> None:
    assert text_of(data) == WORDS


def test_a_mark_further_on_is_a_character_of_the_text() -> None:
    assert text_of("a\ufeffb".encode()) == "a\ufeffb"


def test_one_megabyte_is_read_and_one_byte_more_is_not() -> None:
    assert LIMIT_BYTES == 1_000_000
    assert len(text_of(b"a" * LIMIT_BYTES)) == LIMIT_BYTES <= state.QUESTION_LIMIT
    with pytest.raises(FileTooLarge) as caught:
        text_of(b"a" * (LIMIT_BYTES + 1))
    assert caught.value.params == {"size": 1_000_001, "limit": 1_000_000}


@pytest.mark.parametrize("data", [b"", b" \n\t ", codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF8 + b"\n", "\u3000".encode()])
def test_a_file_without_a_visible_character_is_empty(data: bytes) -> None:
    with pytest.raises(FileEmpty):
        text_of(data)


@pytest.mark.parametrize(
    ("data", "position", "byte", "encoding"),
    [
        (b"Gr\xfc\xdfe", 2, "0xFC", "UTF-8"),
        ("你好".encode()[:-1], 3, "0xE5", "UTF-8"),
        (codecs.BOM_UTF8 + b"ab\xff", 5, "0xFF", "UTF-8"),
        ("你好".encode("gbk"), 0, "0xC4", "UTF-8"),
        (b"a\xed\xa0\x80", 1, "0xED", "UTF-8"),  # half a surrogate pair
        (codecs.BOM_UTF16_LE + b"a\0b", 4, "0x62", "UTF-16"),  # cut in the middle of a unit
        (codecs.BOM_UTF16_BE + b"\0a\xd8\0\0b", 4, "0xD8", "UTF-16"),  # a high surrogate alone
    ],
)
def test_the_first_byte_that_is_no_text_is_named(data: bytes, position: int, byte: str, encoding: str) -> None:
    with pytest.raises(FileNotText) as caught:
        text_of(data)
    assert caught.value.params == {"position": position, "byte": byte, "encoding": encoding}
    assert data[position] == int(byte, 16)


@pytest.mark.parametrize(
    ("data", "position"),
    [
        (b"\0" * 500, 0),
        ("ä".encode() + b"b\0c", 3),
        (codecs.BOM_UTF8 + b"\0", 3),
        (codecs.BOM_UTF16_LE + "ab\0".encode("utf-16-le"), 6),
        (codecs.BOM_UTF16_BE + "🤗\0".encode("utf-16-be"), 6),
        (codecs.BOM_UTF32_LE + "a".encode("utf-32-le"), 2),  # UTF-32 is none of the encodings that are read
        (b"\x7fELF\2\1\1\0\0\xff\xfe", 7),
        (b"ab\0b\xff", 2),
    ],
)
def test_a_zero_byte_tells_a_binary_file(data: bytes, position: int) -> None:
    with pytest.raises(FileBinary) as caught:
        text_of(data)
    assert caught.value.params == {"position": position}
    assert data[position] == 0


@pytest.mark.parametrize("language", i18n.LANGUAGES)
@pytest.mark.parametrize("data", [b"", b"\0", b"\xff\xff", b"a" * 1_000_001])
def test_every_refusal_has_a_sentence_with_its_numbers(data: bytes, language: str) -> None:
    with pytest.raises(EngineError) as caught:
        text_of(data)
    sentence = i18n.text(language, f"errors.{caught.value.code}", **caught.value.params)
    assert all(str(value) in sentence for value in caught.value.params.values())
