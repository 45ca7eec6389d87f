"""Ranking heads by a link, finding a word among tokens, and the verdict on two runs: known answers, without a model."""

from __future__ import annotations

import numpy as np
import pytest

from engine.trace import Token, TokenKind
from ui import i18n, linking, looking, state
from ui.linking import HeadLink
from ui.sections import links, pair


def cut(*pieces: str | bytes, kind: TokenKind = "prompt", start: int = 0) -> tuple[Token, ...]:
    raw = [piece.encode() if isinstance(piece, str) else piece for piece in pieces]
    return tuple(Token(at, part, part.decode(errors="ignore"), kind, start + at) for at, part in enumerate(raw))


def test_heads_come_in_the_order_of_their_weight() -> None:
    weights = np.array([[0.1, 0.4, 0.0], [0.3, 0.2, 0.05]], np.float32)
    found = linking.strongest(weights, 3)
    assert [(link.layer, link.head) for link in found] == [(0, 1), (1, 0), (1, 1)]
    assert [link.weight for link in found] == pytest.approx([0.4, 0.3, 0.2])


def test_equal_heads_keep_the_order_of_layer_and_head() -> None:
    weights = np.full((4, 5), 0.25, np.float32)
    weights[3, 4] = 0.5
    found = linking.strongest(weights)
    assert len(found) == linking.HEADS_LISTED
    assert found[0] == HeadLink(3, 4, 0.5)
    assert [(link.layer, link.head) for link in found[1:]] == [divmod(at, 5) for at in range(9)]


def test_heads_that_do_not_look_there_are_left_out() -> None:
    weights = np.zeros((3, 4), np.float32)
    assert linking.strongest(weights) == ()
    weights[2, 1], weights[0, 3] = 0.125, 0.5
    assert linking.strongest(weights) == (HeadLink(0, 3, 0.5), HeadLink(2, 1, 0.125))


def test_fewer_heads_than_asked_for() -> None:
    assert linking.strongest(np.array([[0.5]], np.float32)) == (HeadLink(0, 0, 0.5),)


def test_only_layers_by_heads_can_be_ranked() -> None:
    with pytest.raises(ValueError, match="3 axes"):
        linking.strongest(np.zeros((2, 2, 2), np.float32))


def test_the_ranking_is_that_of_a_full_sort() -> None:
    weights = np.random.default_rng(0).random((30, 9)).astype(np.float32)
    found = linking.strongest(weights)
    assert [link.weight for link in found] == sorted(weights.ravel().tolist(), reverse=True)[:10]
    assert all(weights[link.layer, link.head] == np.float32(link.weight) for link in found)


@pytest.mark.parametrize(
    ("pieces", "word", "position"),
    [
        (("The", " cat", " it", " sat"), "it", 2),
        (("The", " cat", " ", "it", " sat"), "it", 3),
        (("wi", "th", " whit", "e it", "em", " it"), "it", 5),  # never inside another word
        ((" wob", "bled", " and"), "wobbled", 1),  # its last token
        ((" orange", " or", " orange"), "orange", 0),  # its first place
        (("但是", "它", "滚"), "它", 1),
        (("但是", "的是"), "的是", 1),
        ((b"\xe5\xae", b"\x83", "滚"), "它", 1),  # one character in two tokens
        (("The", " cat"), "it", None),
        (("The", " cat"), "", None),
        ((), "it", None),
    ],
)
def test_a_word_is_found_by_its_bytes(pieces: tuple[str | bytes, ...], word: str, position: int | None) -> None:
    assert linking.place_of(cut(*pieces), word) == position


def test_words_of_the_template_do_not_count() -> None:
    tokens = (*cut("make", " it", kind="template"), *cut("and", " it", start=2), *cut(" it", kind="generated", start=4))
    assert linking.place_of(tokens, "it") == 3


def test_the_strongest_key_of_a_row() -> None:
    assert linking.strongest_key(np.array([0.6, 0.1, 0.2, 0.1], np.float32)) == 2
    assert linking.strongest_key(np.array([0.9, 0.1], np.float32)) == 1
    assert linking.strongest_key(np.array([1.0], np.float32)) == 0


def rows(*values: float) -> np.ndarray:
    return np.array(values, np.float32).reshape(1, 1, -1)


@pytest.mark.parametrize(
    ("one", "other", "dtype", "truth"),
    [
        (rows(0.5, 0.5), rows(0.5, 0.5), "float32", "same"),
        (rows(0.5, 0.5), rows(0.501, 0.499), "bfloat16", "same"),  # rounding
        (rows(0.5, 0.5), rows(0.501, 0.499), "float32", "second"),
        (rows(0.3, 0.7), rows(0.8, 0.2), "bfloat16", "second"),
        (rows(0.8, 0.2), rows(0.3, 0.7), "bfloat16", "first"),
    ],
)
def test_the_verdict_on_two_rows(one: np.ndarray, other: np.ndarray, dtype: str, truth: str) -> None:
    """Weights of one layer and head; key 0 is the one that is asked about."""
    assert pair.verdict(one, other, 0, dtype) == truth


@pytest.mark.parametrize("example", linking.EXAMPLES, ids=lambda example: example.key)
def test_the_words_of_every_example_stand_in_its_sentence_in_order(example: linking.Example) -> None:
    sentence = cut(*example.sentence)
    assert len(example.pairs) == len(example.reading) * len(example.read) == 4
    for reading, read in example.pairs:
        assert linking.place_of(sentence, reading) is not None
        assert (linking.place_of(sentence, read) or 0) < (linking.place_of(sentence, reading) or 0), "a token looks only backwards"


def test_the_two_sentences_of_the_pair_are_examples_and_share_their_beginning() -> None:
    one, other = pair.SENTENCES
    assert one.sentence.partition(" it ")[0] == other.sentence.partition(" it ")[0]
    assert [example.reading[-1] for example in pair.SENTENCES] == ["rolled", "broke"]
    assert {pair.READER} == {example.reading[0] for example in pair.SENTENCES}
    assert {pair.NOUNS} == {example.read for example in pair.SENTENCES}


@pytest.mark.parametrize("language", i18n.LANGUAGES)
def test_the_model_reads_the_same_whatever_the_page_speaks(language: str) -> None:
    words = (linking.CHINESE.reading, linking.CHINESE.read)
    assert i18n.text(language, "links.chinese") == linking.CHINESE.sentence
    assert tuple(tuple(i18n.text(language, f"links.chinese_{side}").split()) for side in ("reading", "read")) == words
    assert [linking.example_of(example.sentence) for example in linking.EXAMPLES] == list(linking.EXAMPLES)
    assert linking.example_of("Why is the sky blue?") is None


@pytest.mark.parametrize(
    ("query", "key", "picked"),
    [(5, 2, [(5, 2)]), (5, 5, [(5, 5)]), (2, 5, [(2, None)]), ("12\u2002 it", 2, []), (5, "3\u2002 cat", []), (None, 2, [])],
)
def test_a_choice_from_a_list_that_is_gone_picks_nothing(
    monkeypatch: pytest.MonkeyPatch, query: object, key: object, picked: list[tuple[int, int | None]]
) -> None:
    """Streamlit hands over the words of an option that is not on the list any more."""
    seen: list[tuple[int, int | None]] = []
    monkeypatch.setattr(state, "get", {state.LINK_QUERY: query, state.LINK_KEY: key}.get)
    monkeypatch.setattr(looking, "pick", lambda *pair: seen.append(pair))
    links._take_boxes()
    assert seen == picked
