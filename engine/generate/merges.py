"""How a word is cut: the merges of byte-pair encoding, by the loaded tokenizer's own rules and ranks.

Knows how a tokenizer goes about a text; does not know models or templates, nor how its rules are found (engine.generate.rules).
What it tells is checked against the tokenizer's own ids.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from engine.findings import LONGEST_TEXT, Merge, TextCut, WordCut
from engine.generate.rules import MergeRules
from engine.generate.tokens import Vocabulary, encode_plain


def cut(tokenizer: Any, vocabulary: Vocabulary, text: str) -> TextCut:
    """`text` as plain text, without template or BOS; the merges of its words if it is short (LONGEST_TEXT). Raises LoneSurrogate.

    A word begins with whatever the tokenizer's normalizer puts ahead of it (Llama 2: a space that nobody typed). Characters that the
    vocabulary lacks are in no word.
    """
    encoded = encode_plain(tokenizer, vocabulary, text)
    if len(text) > LONGEST_TEXT:
        return TextCut(encoded.tokens, encoded.tokenize_s, (), "long")
    rules = vocabulary.merge_rules()
    if rules is None:
        return TextCut(encoded.tokens, encoded.tokenize_s, (), "not_bpe")
    with vocabulary.lock:
        words = tuple(word for word in _words(tokenizer, vocabulary, rules, text) if word.ids)
    if [id for word in words for id in word.ids] != [token.id for token in encoded.tokens]:
        return TextCut(encoded.tokens, encoded.tokenize_s, (), "disagrees")
    return TextCut(encoded.tokens, encoded.tokenize_s, words, rules=len(rules.keys))


def _words(tokenizer: Any, vocabulary: Vocabulary, rules: MergeRules, text: str) -> Iterator[WordCut]:
    """Word by word, as the tokenizer goes: its added tokens are taken out first, the rest is normalized and split."""
    backend = tokenizer.backend_tokenizer
    for stretch, added in _stretches(tokenizer, text):
        if added is not None:
            yield WordCut(raw := vocabulary.raw(added), (raw,), (), (added,), whole=True)
            continue
        plain = stretch if backend.normalizer is None else backend.normalizer.normalize_str(stretch)
        pieces = [(plain, None)] if backend.pre_tokenizer is None else backend.pre_tokenizer.pre_tokenize_str(plain)
        for word, _ in pieces:
            yield _cut_word(backend.model, vocabulary, rules, word)


def _stretches(tokenizer: Any, text: str) -> Iterator[tuple[str, int | None]]:
    """The text between added tokens (such as Gemma's runs of line breaks), and the ids of these. Special ones are plain text here."""
    added = {id for id, token in tokenizer.added_tokens_decoder.items() if not token.special}
    batch = tokenizer(text, add_special_tokens=False, split_special_tokens=True, return_offsets_mapping=True, verbose=False)
    at = 0
    for id, (start, end) in zip(batch["input_ids"], batch["offset_mapping"], strict=True):
        if id in added and start >= at:
            if start > at:
                yield text[at:start], None
            yield "", id
            at = end
    if at < len(text):
        yield text[at:], None


def _cut_word(model: Any, vocabulary: Vocabulary, rules: MergeRules, word: str) -> WordCut:
    """One word in the tokenizer's own characters (byte-level: GPT-2's stand-ins)."""
    if rules.ignore_merges and (whole := model.token_to_id(word)) is not None:
        raw = vocabulary.raw(whole)
        return WordCut(raw, (raw,), (), (whole,), whole=True)
    ids = list(_single(model, rules, word))
    start = tuple(map(vocabulary.raw, ids))
    merges = []
    while (found := rules.best(ids)) is not None:
        rank, at, merged = found
        left, right = vocabulary.raw(ids[at]), vocabulary.raw(ids[at + 1])
        ids[at : at + 2] = [merged]
        merges.append(Merge(rank, left, right, tuple(map(vocabulary.raw, ids))))
    return WordCut(b"".join(start), start, tuple(merges), tuple(ids))


def _single(model: Any, rules: MergeRules, word: str) -> Iterator[int]:
    """Where a word begins: its characters; what the vocabulary lacks is left out, or is "unknown" (a whole stretch of them, if fused)."""
    lacking = False
    for character in word:
        ids = _spelled(model, rules, character)
        if not ids and rules.unknown is not None and not (lacking and rules.fuse_unknown):
            yield rules.unknown
        lacking = not ids
        yield from ids


def _spelled(model: Any, rules: MergeRules, character: str) -> list[int]:
    """The id of one character, or those of its bytes; none where the vocabulary has neither."""
    known = model.token_to_id(character)
    if known is not None:
        return [known]
    ids = [model.token_to_id(f"<0x{byte:02X}>") for byte in character.encode()] if rules.byte_fallback else []
    return [] if None in ids else ids
