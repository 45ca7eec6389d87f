"""From text to tokens: ids, the exact bytes behind each one, and which of them the reader typed.

Knows the tokenizer; does not know the model. A reader's words never become control tokens.
"""

from __future__ import annotations

import dataclasses
import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from engine.codec import check_text
from engine.errors import EmptyPrompt, LoadFailed, PromptTooLong
from engine.generate.rules import MergeRules, rules_of
from engine.generate.template import Rendered, default_system_prompt, has_chat_template, render
from engine.trace import RunSettings, Token, TokenKind

__all__ = ["Encoded", "Vocabulary", "default_system_prompt", "encode", "encode_plain", "has_chat_template", "whole_text"]

_NO_BREAK_SPACE = "\u00a0"  # unlike other white space, nobody types it by leaving a field empty


@dataclass(frozen=True, slots=True)
class Encoded:
    """The prompt's tokens in order, template included, and the seconds that rendering and tokenizing took."""

    tokens: tuple[Token, ...]
    template_s: float
    tokenize_s: float


class Vocabulary:
    """The bytes behind each id of one tokenizer. Thread-safe. Raises LoadFailed if the tokenizer is not a fast one.

    Special tokens are the UTF-8 of their name. The others follow the tokenizer's own decoder: byte-level BPE through GPT-2's
    table of 256 characters; SentencePiece style with ▁ as a space and <0x0A> as one byte (there a typed ▁ is a space to the model too).
    A few vocabularies lack some bytes (SmolLM2: six control characters and two planes without characters): those never reach the model.
    """

    def __init__(self, tokenizer: Any) -> None:
        backend = getattr(tokenizer, "backend_tokenizer", None)
        if backend is None:
            raise LoadFailed(model=str(getattr(tokenizer, "name_or_path", "")), detail="not a fast tokenizer")
        # A fast tokenizer must not be read while another thread sets its switches ("Already borrowed").
        self.lock = threading.RLock()
        self._tokenizer = tokenizer
        self._added = dict(tokenizer.added_tokens_decoder)
        self._special = frozenset(tokenizer.all_special_ids) | {id for id, token in self._added.items() if token.special}
        self._piece_bytes, self._added_are_plain = _piece_reader(backend)
        self._raw: dict[int, bytes] = {}
        self._rules: list[MergeRules | None] = []  # one entry, once they have been read
        self._reading_rules = threading.Lock()

    def is_special(self, id: int) -> bool:
        return id in self._special

    def raw(self, id: int) -> bytes:
        """Exact bytes of one id; b"" for an id that the model has but the tokenizer does not (padding of the vocabulary)."""
        found = self._raw.get(id)
        if found is None:
            with self.lock:
                found = self._raw[id] = self._read(id)
        return found

    def token(self, id: int, kind: TokenKind, position: int) -> Token:
        raw = self.raw(id)
        return Token(id, raw, whole_text(raw), kind, position, self.is_special(id))

    def merge_rules(self) -> MergeRules | None:
        """Read once, when first asked for: a vocabulary of 262,144 takes a second or two. None: no byte-pair encoding."""
        with self._reading_rules:  # not `lock`, for which a run that goes on would wait all that time
            if not self._rules:
                with self.lock:
                    file = self._tokenizer.backend_tokenizer.to_str()
                self._rules.append(rules_of(json.loads(file)["model"]))
            return self._rules[0]

    def _read(self, id: int) -> bytes:
        piece = self._tokenizer.backend_tokenizer.id_to_token(id) if id >= 0 else None
        if piece is None:
            return b""
        if self.is_special(id) or (id in self._added and self._added_are_plain):
            return piece.encode()
        return self._piece_bytes(piece)


def whole_text(raw: bytes) -> str:
    """The characters, or "" where the bytes are not whole UTF-8 characters."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return ""


def encode(tokenizer: Any, vocabulary: Vocabulary, text: str, settings: RunSettings, most: int | None = None) -> Encoded:
    """Tokens of the prompt: in the chat template, or raw (use_chat_template False) with at most the tokenizer's own BOS ahead.

    `most`: the context that they must fit into; looked at before the tokens of a far too long text are made one by one.
    Raises EmptyPrompt, LoneSurrogate, NoChatTemplate, PromptTooLong, InvalidSetting (a system prompt that the template does not take).
    """
    _check(text, settings)
    started = time.perf_counter()
    rendered = render(tokenizer, text, settings.system_prompt) if settings.use_chat_template else None
    templated = time.perf_counter()
    with vocabulary.lock:
        if rendered is None:
            source, pieces = text, _tokenize(tokenizer, text, plain=True, add_special=True)
            user = (-1, len(text))  # everything but BOS; -1 because the first token's range may be trimmed to nothing
        else:
            source, user, pieces = rendered.text, rendered.user, _tokenize_chat(tokenizer, vocabulary, rendered)
        if most is not None and len(pieces) > most:
            raise PromptTooLong(tokens=len(pieces), context=most)
        tokens = tuple(_tokens(vocabulary, source, pieces, user))
    ended = time.perf_counter()
    return Encoded(tokens, templated - started, ended - templated)


def encode_plain(tokenizer: Any, vocabulary: Vocabulary, text: str) -> Encoded:
    """Tokens of a text by itself: no template, no BOS, names of special tokens are ordinary text. It may be empty. Raises LoneSurrogate."""
    check_text(text)
    with vocabulary.lock:
        started = time.perf_counter()
        tokens = tuple(_tokens(vocabulary, text, _tokenize(tokenizer, text, plain=True), (-1, len(text))))
        return Encoded(tokens, 0.0, time.perf_counter() - started)


def _check(text: str, settings: RunSettings) -> None:
    for words in (text, (settings.system_prompt or "") if settings.use_chat_template else ""):
        check_text(words)
    if all(character.isspace() and character != _NO_BREAK_SPACE for character in text):
        raise EmptyPrompt()


@dataclass(frozen=True, slots=True)
class _Piece:
    """One id and the characters of the source it comes from. `added`: put in by the tokenizer itself (BOS)."""

    id: int
    start: int
    end: int
    added: bool = False

    def overlaps(self, start: int, end: int) -> bool:
        # Byte-level tokenizers may trim spaces from offsets: a token of spaces is then an empty range at its own end.
        return self.end > start and (self.start < end or self.start == self.end == end)


def _tokenize(tokenizer: Any, text: str, *, plain: bool, add_special: bool = False, offset: int = 0) -> list[_Piece]:
    """`plain`: names of special tokens in the text are ordinary text."""
    batch = tokenizer(
        text,
        add_special_tokens=add_special,
        split_special_tokens=plain,
        return_offsets_mapping=True,
        return_special_tokens_mask=True,
        verbose=False,
    )
    rows = zip(batch["input_ids"], batch["offset_mapping"], batch["special_tokens_mask"], strict=True)
    return [_Piece(id, start + offset, end + offset, bool(mask)) for id, (start, end), mask in rows]


def _tokenize_chat(tokenizer: Any, vocabulary: Vocabulary, rendered: Rendered) -> list[_Piece]:
    """In one go, as apply_chat_template does, unless the reader typed the name of a special token."""
    pieces = _tokenize(tokenizer, rendered.text, plain=False)
    special = [piece for piece in pieces if vocabulary.is_special(piece.id)]
    if not any(start <= piece.start and piece.end <= end for piece in special for start, end in rendered.typed):
        return pieces
    return list(_tokenize_guarded(tokenizer, vocabulary, rendered))


def _tokenize_guarded(tokenizer: Any, vocabulary: Vocabulary, rendered: Rendered) -> Iterator[_Piece]:
    """Cuts at the template's own special tokens; everything between them is plain text."""
    bounds = [0, *(edge for span in rendered.typed for edge in span), len(rendered.text)]
    controls: list[_Piece] = []
    for start, end in zip(bounds[::2], bounds[1::2], strict=True):  # the stretches that are the template's own
        found = _tokenize(tokenizer, rendered.text[start:end], plain=False, offset=start)
        controls += [piece for piece in found if vocabulary.is_special(piece.id)]
    at = 0
    for control in [*controls, None]:
        stop = len(rendered.text) if control is None else control.start
        if at < stop:
            yield from _tokenize(tokenizer, rendered.text[at:stop], plain=True, offset=at)
        if control is not None:
            yield control
            at = control.end


def _tokens(vocabulary: Vocabulary, source: str, pieces: list[_Piece], user: tuple[int, int]) -> Iterator[Token]:
    prefixed = _prefixed(vocabulary, source, pieces)
    for position, piece in enumerate(pieces):
        typed = not piece.added and piece.overlaps(*user)
        token = vocabulary.token(piece.id, "prompt" if typed else "template", position)
        if position in prefixed:
            raw = token.raw[1:]
            token = dataclasses.replace(token, raw=raw, text=whole_text(raw))
        yield token


def _prefixed(vocabulary: Vocabulary, source: str, pieces: list[_Piece]) -> set[int]:
    """Positions whose first byte is a space that nobody typed: some tokenizers (Llama 2) put one ahead of each stretch of text."""
    found: set[int] = set()
    stretch: list[int] = []
    begin = 0
    for position, piece in enumerate([*pieces, None]):
        if piece is not None and not piece.added and not vocabulary.is_special(piece.id):
            stretch.append(position)
            continue
        end = len(source) if piece is None or piece.added else piece.start
        if stretch and b"".join(vocabulary.raw(pieces[at].id) for at in stretch) == b" " + source[begin:end].encode():
            found.add(stretch[0])
        stretch, begin = [], begin if piece is None or piece.added else piece.end
    return found


def _byte_table() -> dict[str, int]:
    """GPT-2's printable stand-in for each of the 256 bytes (openai/gpt-2, src/encoder.py, bytes_to_unicode), read backwards."""
    own = [*range(33, 127), *range(161, 173), *range(174, 256)]
    table = {chr(byte): byte for byte in own}
    others = (byte for byte in range(256) if byte not in own)
    return table | {chr(256 + index): byte for index, byte in enumerate(others)}


_BYTES = _byte_table()


def _byte_level(piece: str) -> bytes:
    if all(character in _BYTES for character in piece):
        return bytes(_BYTES[character] for character in piece)
    return piece.encode()  # the tokenizer's own decoder does the same


def _piece_reader(backend: Any) -> tuple[Callable[[str], bytes], bool]:
    """(piece → bytes, whether added tokens are plain text) by the decoder that the tokenizer itself uses."""
    steps = _flat(backend.decoder, "decoders")
    if "ByteLevel" in {step["type"] for step in [*steps, *([] if steps else _flat(backend.pre_tokenizer, "pretokenizers"))]}:
        return _byte_level, True

    def read(piece: str) -> bytes:
        for step in steps:
            if step["type"] == "Replace" and "String" in step["pattern"]:
                piece = piece.replace(step["pattern"]["String"], step["content"])
            elif step["type"] == "Metaspace":
                piece = piece.replace(step["replacement"], " ")
            elif step["type"] == "ByteFallback" and len(piece) == 6 and piece.startswith("<0x") and piece.endswith(">"):
                return bytes.fromhex(piece[3:5])
        return piece.encode()

    return read, False


def _flat(part: Any, inner: str) -> list[dict[str, Any]]:
    """A decoder or pre-tokenizer as its list of steps, in the tokenizer file's own words."""
    if part is None:
        return []
    step = json.loads(part.__getstate__())
    return list(step[inner]) if step["type"] == "Sequence" else [step]
