"""Bytes become text only when a character is whole."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from itertools import combinations
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from engine import LoadedModel, Run, RunSettings
from engine.generate.detokenize import Detokenizer, answer_text
from engine.trace import StopReason, Token

ROOT = Path(__file__).resolve().parents[2]
FAMILY = "👨‍👩‍👧‍👦"
ANSWER = f"你好🤗地來{FAMILY}é e\u0301 \ufffd."


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


def test_no_cut_in_three_holds_back_more_than_an_unfinished_character() -> None:
    raw = ANSWER.encode()
    for first, second in combinations(range(len(raw) + 1), 2):
        detokenizer, written, read = Detokenizer(), "", b""
        for part in (raw[:first], raw[first:second], raw[second:]):
            written, read = written + detokenizer.push(part), read + part
            assert written == read.decode(errors="ignore"), "all whole characters, and no half one as a replacement sign"
            assert len(detokenizer.pending) <= 3
        assert written == ANSWER


def test_an_answer_of_real_tokens_streams_as_far_as_its_characters_are_whole(tiny: Callable[..., LoadedModel]) -> None:
    """The tiny tokenizer knows no emoji: most tokens of this answer are parts of characters."""
    model = tiny()
    ids = model.tokenizer(ANSWER, add_special_tokens=False)["input_ids"]
    run = Run(model, "Say it", RunSettings(max_new_tokens=len(ids)), forced=ids)
    detokenizer, written, read, parts = Detokenizer(), "", b"", 0
    for token in (run.prefill().first, *(step.token for step in run.decode())):
        written, read, parts = written + detokenizer.push(token.raw), read + token.raw, parts + (not token.text)
        assert written == read.decode(errors="ignore")
        assert answer_text(run.record().generated[: token.position - len(run.tokens) + 1]) == written
    assert [token.id for token in run.record().generated] == ids
    assert parts > 10
    assert run.stop_reason is StopReason.LENGTH
    assert written == ANSWER == model.tokenizer.decode(ids, clean_up_tokenization_spaces=False)


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
