"""Token text on the page: every invisible character has a mark, the same one in Python and in the browser."""

from __future__ import annotations

import json
import re
import unicodedata
from pathlib import Path

import pytest

from engine.trace import Candidate, Token
from ui import literal
from ui.figures import lens
from ui.sections import links

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("cat", "cat"),
        (" cat\n", "·cat↵"),
        ("a\r\n\tb", "a␍↵⇥b"),
        ("a\u00a0b\u3000c", "a⍽bU+3000c"),
        ("a\u200db\u200bc", "aZWJbU+200Bc"),
        ("abc\u202edef\u2066", "abcU+202EdefU+2066"),
        ("\ufeff\u00ad\x00\x1b", "U+FEFFU+00ADU+0000U+001B"),
        ("\u2028\u2029", "U+2028U+2029"),
        ("\U000e0041", "U+E0041"),
        ("    x", "····x"),
        ("     x", "·×5x"),
        ("\n" * 12, "↵×12"),
        ("\u200b" * 7, "U+200B×7"),
        ("ooooooo", "ooooooo"),
        ("\u0301a", "◌\u0301a"),
        ("小猫 的", "小猫·的"),
        ("", ""),
    ],
)
def test_what_cannot_be_seen_is_marked(text: str, seen: str) -> None:
    assert literal.visible(text) == seen


def test_broken_characters_are_bytes() -> None:
    assert literal.visible("", b"\xe4\xbd") == "E4 BD"
    assert literal.visible(" a", b" a") == "·a"


@pytest.mark.parametrize("category", sorted(literal.HIDDEN))
def test_no_character_of_a_hidden_kind_is_left(category: str) -> None:
    hidden = [char for char in map(chr, range(0x11_0000)) if unicodedata.category(char) == category]
    assert hidden
    assert not [char for char in hidden if char in literal.visible(f"a{char}b")]


def test_a_long_text_is_cut_after_it_was_made_visible() -> None:
    assert literal.short("x" * 24, b"", 24) == "x" * 24
    assert literal.short("x" * 25, b"", 24) == "x" * 23 + "…"
    assert literal.short("\u202e" * 3, b"", 9) == "U+202EU+…"


def test_the_marks_are_those_of_the_browser() -> None:
    script = (ROOT / "assets" / "components" / "live" / "words.js").read_text(encoding="utf-8")
    found = re.search(r"^const MARKS = (\{.*\});$", script, re.M)
    assert found
    assert json.loads(found[1]) == literal.MARKS
    hidden = re.search(r"^const HIDDEN = /\[(.*)\]/u;$", script, re.M)
    assert hidden
    assert set(re.findall(r"\\p\{(\w+)\}", hidden[1])) == literal.HIDDEN
    assert f"count > {literal.MOST_REPEATED} ?" in script


def test_lists_and_charts_show_the_same_marks() -> None:
    text = "a\u202e\rb"
    assert links.token_name(Token(1, text.encode(), text, "prompt", 7)) == "7\u2002aU+202E␍b"
    assert lens.name(Candidate(1, text.encode(), text, 0.5, 0.5), 40) == "aU+202E␍b"
