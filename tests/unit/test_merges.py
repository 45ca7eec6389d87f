"""Merges on tiny tokenizers of every build: what is told leads to the tokenizer's own ids, by legal steps."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from engine.errors import LoneSurrogate
from engine.findings import LONGEST_TEXT, TextCut, WordCut
from engine.generate.merges import cut
from engine.generate.tokens import Vocabulary
from tests.fakes import make_tokenizer
from tests.small_tokenizers import make_gemma_like, make_gpt2_like, make_llama2_like

BUILDS: tuple[Callable[[], Any], ...] = (make_tokenizer, make_gpt2_like, make_gemma_like, make_llama2_like)
TEXTS = ("the cat", " the  the", "你好🤗", "a\tb\n\nc", "x\u200dy", "", " ", "\n\n", "<|im_end|><eos></s>", "zebra Q th th")


def cut_with(tokenizer: Any, text: str) -> TextCut:
    return cut(tokenizer, Vocabulary(tokenizer), text)


def own_ids(tokenizer: Any, text: str) -> list[int]:
    return tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"]


def check_steps(word: WordCut) -> None:
    """Each step joins one pair of neighbours and leaves every byte where it was; nothing is joined before its piece exists."""
    rows = [word.start, *(merge.pieces for merge in word.merges)]
    assert all(b"".join(row) == word.raw for row in rows)
    assert len(rows[-1]) == len(word.ids)
    for (before, after), merge in zip(pairwise(rows), word.merges, strict=True):
        joins = [at for at in range(len(before) - 1) if (*before[:at], before[at] + before[at + 1], *before[at + 2 :]) == after]
        assert any((before[at], before[at + 1]) == (merge.left, merge.right) for at in joins)


def make_unigram() -> PreTrainedTokenizerFast:
    backend = Tokenizer(models.Unigram([("<unk>", 0.0), ("a", -1.0), ("b", -2.0), ("ab", -1.5)], 0, False))
    return PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="<unk>")


def make_bpe(words: list[str], merges: list[tuple[str, str]], **model: Any) -> PreTrainedTokenizerFast:
    backend = Tokenizer(models.BPE({word: id for id, word in enumerate(words)}, merges, **model))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=backend)


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("text", TEXTS)
def test_words_lead_to_the_tokenizers_own_ids(build: Callable[[], Any], text: str) -> None:
    tokenizer = build()
    found = cut_with(tokenizer, text)
    assert found.reason is None
    assert [token.id for token in found.tokens] == own_ids(tokenizer, text) == [id for word in found.words for id in word.ids]
    assert {token.kind for token in found.tokens} <= {"prompt"}
    for word in found.words:
        check_steps(word)


@pytest.mark.parametrize("build", BUILDS)
def test_any_text_is_told_or_owned_up(build: Callable[[], Any]) -> None:
    tokenizer = build()
    vocabulary = Vocabulary(tokenizer)

    @given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
    @settings(max_examples=100, deadline=None, database=None)
    def check(text: str) -> None:
        found = cut(tokenizer, vocabulary, text)
        assert [token.id for token in found.tokens] == own_ids(tokenizer, text)
        assert found.reason in {None, "disagrees"}
        assert bool(found.words) <= (found.reason is None)
        for word in found.words:
            check_steps(word)

    check()


def test_lowest_rank_goes_first_and_the_leftmost_of_equal_ones() -> None:
    """abcbc with rules bc < ab: the bc at the left, then the one at the right, and no ab is left to be joined."""
    tokenizer = make_bpe(["a", "b", "c", "bc", "ab", "abc"], [("b", "c"), ("a", "b"), ("a", "bc")])
    (word,) = cut_with(tokenizer, "abcbc").words
    steps = [(merge.rank, merge.left, merge.right, merge.pieces) for merge in word.merges]
    assert steps == [
        (0, b"b", b"c", (b"a", b"bc", b"b", b"c")),
        (0, b"b", b"c", (b"a", b"bc", b"bc")),
        (2, b"a", b"bc", (b"abc", b"bc")),
    ]
    assert word.start == (b"a", b"b", b"c", b"b", b"c")
    assert word.ids == (5, 3)
    assert not word.whole


def test_rules_are_counted_and_learned_ranks_are_the_files() -> None:
    tokenizer = make_tokenizer()
    found = cut_with(tokenizer, " the")
    assert found.rules == len(tokenizer) - 3 - 256
    ranks = [merge.rank for merge in found.words[0].merges]
    assert ranks
    assert all(0 <= rank < found.rules for rank in ranks)


def test_a_word_that_is_in_the_vocabulary_asks_no_rule_where_the_tokenizer_asks_none() -> None:
    """Llama 3: "ab" is known whole although no rule leads to it; without ignore_merges it stays in two pieces."""
    for ignoring, ids in ((True, (2,)), (False, (0, 1))):
        (word,) = cut_with(make_bpe(["a", "b", "ab"], [], ignore_merges=ignoring), "ab").words
        assert word.ids == ids
        assert word.whole is ignoring
        assert word.merges == ()
        assert word.start == ((b"ab",) if ignoring else (b"a", b"b"))


def test_characters_outside_the_vocabulary_begin_as_bytes() -> None:
    """Gemma's and Llama 2's way: 🤗 is four byte tokens, and no rule joins them; the space ahead is Llama 2's own."""
    for build, raw in ((make_gemma_like, "🤗".encode()), (make_llama2_like, " 🤗".encode())):
        (word,) = cut_with(build(), "🤗").words
        assert word.raw == raw
        assert word.start[-4:] == (b"\xf0", b"\x9f", b"\xa4", b"\x97")
        assert word.merges == ()


def test_unknown_characters_are_one_stretch_where_the_tokenizer_fuses_them() -> None:
    for fused, ids in ((True, (1, 0, 1)), (False, (1, 0, 0, 1))):
        (word,) = cut_with(make_bpe(["?", "a"], [], unk_token="?", fuse_unk=fused), "axya").words
        assert word.ids == ids


def test_added_tokens_are_words_of_their_own_and_special_ones_are_plain_text() -> None:
    found = cut_with(make_gemma_like(), "a\n\nth<eos>")
    assert [word.raw for word in found.words] == [b"a", b"\n\n", b"th<eos>"]
    assert [word.whole for word in found.words] == [False, True, False]
    assert not any(token.special and token.text == "<eos>" for token in found.tokens)


def test_no_bos_and_no_space_that_nobody_typed_in_the_tokens() -> None:
    for build in (make_gemma_like, make_llama2_like):
        found = cut_with(build(), "the")
        assert b"".join(token.raw for token in found.tokens) == b"the"
        assert [token.position for token in found.tokens] == list(range(len(found.tokens)))


def test_where_no_story_can_be_told() -> None:
    unigram = cut_with(make_unigram(), "abab")
    assert (unigram.reason, unigram.words) == ("not_bpe", ())
    assert [token.id for token in unigram.tokens] == [3, 3]
    long = cut_with(make_tokenizer(), "a" * (LONGEST_TEXT + 1))
    assert (long.reason, long.words) == ("long", ())
    assert b"".join(token.raw for token in long.tokens) == b"a" * (LONGEST_TEXT + 1)
    assert cut_with(make_tokenizer(), "a" * LONGEST_TEXT).reason is None
    suffixed = cut_with(make_bpe(["a", "b", "b</w>", "ab</w>"], [("a", "b</w>")], end_of_word_suffix="</w>"), "ab")
    assert (suffixed.reason, suffixed.words) == ("disagrees", ())
    assert [token.id for token in suffixed.tokens] == [3]


def test_nothing_and_half_characters() -> None:
    nothing = cut_with(make_tokenizer(), "")
    assert (nothing.tokens, nothing.words, nothing.reason) == ((), (), None)
    assert nothing.tokenize_s >= 0
    with pytest.raises(LoneSurrogate) as caught:
        cut_with(make_tokenizer(), "ab\ud800")
    assert caught.value.info.params["position"] == 2


def test_rules_are_read_once() -> None:
    """The second cut must not read the file of rules again: it is large."""

    class Counting:
        def __init__(self, inner: Any) -> None:
            self.inner, self.read = inner, 0

        def __getattr__(self, name: str) -> Any:
            self.read += name == "to_str"
            return getattr(self.inner, name)

    tokenizer = make_tokenizer()
    counting = Counting(tokenizer.backend_tokenizer)

    class Wrapped:
        backend_tokenizer = counting

        def __getattr__(self, name: str) -> Any:
            return getattr(tokenizer, name)

        def __call__(self, *args: Any, **options: Any) -> Any:
            return tokenizer(*args, **options)

    vocabulary = Vocabulary(Wrapped())
    for text in ("the", "cat", "the cat"):
        assert cut(Wrapped(), vocabulary, text).words
    assert counting.read == 1
