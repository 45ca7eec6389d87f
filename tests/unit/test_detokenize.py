"""Bytes become text only when a character is whole."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from engine.generate.detokenize import Detokenizer, answer_text
from engine.trace import Token

ROOT = Path(__file__).resolve().parents[2]
FAMILY = "👨‍👩‍👧‍👦"


def tokens(*raws: bytes, special: tuple[int, ...] = ()) -> list[Token]:
    return [Token(index, raw, "", "generated", index, index in special) for index, raw in enumerate(raws)]


@given(text=st.text(), cuts=st.lists(st.integers(0, 60)))
def test_any_cut_gives_the_text_back(text: str, cuts: list[int]) -> None:
    raw, detokenizer, written, at = text.encode(), Detokenizer(), "", 0
    for cut in [*sorted(cuts), len(raw)]:
        written += detokenizer.push(raw[at:cut])
        at = max(at, cut)
        assert text.startswith(written)
        assert written.encode() + detokenizer.pending == raw[: min(at, len(raw))]
    assert written == text
    assert detokenizer.finish() == ""


def test_half_a_character_waits() -> None:
    detokenizer = Detokenizer()
    pushed = []
    for byte in "🤗".encode():
        pushed.append(detokenizer.push(bytes([byte])))
    assert pushed == ["", "", "", "🤗"]
    assert detokenizer.push("你".encode()[:2]) == ""
    assert detokenizer.pending == "你".encode()[:2]
    assert detokenizer.finish() == "\ufffd"
    assert detokenizer.pending == b""
    assert detokenizer.push(b"a") == "a"


def test_bytes_that_can_never_be_text() -> None:
    detokenizer = Detokenizer()
    assert detokenizer.push(b"a\xff") == "a\ufffd"
    assert detokenizer.push(b"\xe4A") == "\ufffdA"
    assert detokenizer.push("\ufffd".encode()) == "\ufffd"


def test_answer_leaves_special_tokens_and_half_characters_out() -> None:
    raws = [FAMILY.encode()[:5], FAMILY.encode()[5:], b" ok", "你".encode()[:1], b"<|im_end|>"]
    assert answer_text(tokens(*raws, special=(4,))) == FAMILY + " ok"
    assert answer_text(tokens(b"ok", b"<|im_end|>", special=(1,)), skip_special=False) == "ok<|im_end|>"
    assert answer_text([]) == ""


def test_the_app_may_import_it() -> None:
    code = "import sys, engine.generate.detokenize; print(sorted({'torch', 'transformers', 'tokenizers'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
