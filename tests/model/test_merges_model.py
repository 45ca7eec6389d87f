"""Merges by SmolLM2's own 48,900 rules: the words' ids are the tokenizer's, and every step is a legal one."""

from __future__ import annotations

import json
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from engine.findings import WordCut
from engine.generate.merges import cut
from engine.generate.tokens import Vocabulary

TEXTS = (
    "tokenization",
    " refrigerator",
    "你好",
    "🤗",
    "2024",
    "naïve Straße déjà vu",
    "a\tb\t\tc",
    "你好🤗地來👨‍👩‍👧‍👦 the cat the cat <b>&amp;</b> $5 _a_",
    "<|im_end|><|im_start|>system",
    "don't\n\n  12(3",
)
ALPHABETS = ((0x20, 0x7E), (0x20, 0x7E), (0xA0, 0x24F), (0x4E00, 0x9FFF), (0x1F300, 0x1F6FF), (0x1, 0x20))


@pytest.fixture(scope="module")
def smol(smollm2_dir: Path) -> tuple[Any, Vocabulary]:
    tokenizer = AutoTokenizer.from_pretrained(smollm2_dir, local_files_only=True)
    return tokenizer, Vocabulary(tokenizer)


@pytest.fixture(scope="module")
def ranks(smol: tuple[Any, Vocabulary]) -> dict[tuple[bytes, bytes], int]:
    """The rules as the file has them, by the bytes of the two pieces."""
    merges = json.loads(smol[0].backend_tokenizer.to_str())["model"]["merges"]
    raw = {piece: smol[1].raw(id) for piece, id in smol[0].get_vocab().items()}
    return {(raw[left], raw[right]): rank for rank, (left, right) in enumerate(merges)}


def check_word(word: WordCut, ranks: dict[tuple[bytes, bytes], int]) -> None:
    """At every step the pair joined is the one of lowest rank, leftmost; at the end no rule applies."""
    pieces = list(word.start)
    assert all(len(piece) == 1 for piece in pieces)
    for merge in word.merges:
        found = [(ranks[pair], at) for at, pair in enumerate(pairwise(pieces)) if pair in ranks]
        rank, at = min(found)
        assert (rank, pieces[at], pieces[at + 1]) == (merge.rank, merge.left, merge.right)
        pieces[at : at + 2] = [merge.left + merge.right]
        assert tuple(pieces) == merge.pieces
        assert b"".join(pieces) == word.raw
    assert not [pair for pair in pairwise(pieces) if pair in ranks]


def fuzzed(count: int) -> list[str]:
    dice = random.Random(3)
    return ["".join(chr(dice.randint(*dice.choice(ALPHABETS))) for _ in range(dice.randint(1, 50))) for _ in range(count)]


def test_words_are_the_tokenizers_own(smol: tuple[Any, Vocabulary], ranks: dict[tuple[bytes, bytes], int]) -> None:
    tokenizer, vocabulary = smol
    assert len(ranks) == 48_900
    for text in (*TEXTS, *fuzzed(200)):
        found = cut(tokenizer, vocabulary, text)
        assert found.reason is None, text
        assert found.rules == 48_900
        ids = tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"]
        assert [id for word in found.words for id in word.ids] == ids == [token.id for token in found.tokens], text
        for word in found.words:
            check_word(word, ranks)


def test_bytes_of_the_words_are_the_text(smol: tuple[Any, Vocabulary]) -> None:
    for text in TEXTS:
        assert b"".join(word.raw for word in cut(*smol, text).words) == text.encode()


def test_the_story_of_tokenization(smol: tuple[Any, Vocabulary]) -> None:
    """tokenization: eleven rules, the space joins the t first (rule 0), and " token" comes last."""
    (word,) = cut(*smol, " tokenization").words
    assert [piece.decode() for piece in word.merges[-1].pieces] == [" token", "ization"]
    assert [merge.rank for merge in word.merges] == [0, 6, 9, 12, 33, 36, 57, 211, 985, 2769, 9372]
    assert (word.merges[0].left, word.merges[0].right) == (b" ", b"t")
    assert [len(word.start) for word in cut(*smol, "2024").words] == [1, 1, 1, 1], "digits stand alone"
