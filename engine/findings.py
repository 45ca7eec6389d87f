"""What somebody finds who looks into a run: frozen answers that are no part of its trace.

Knows the guesses of layers, the stages of a choice and the cuts of a text; does not know how they are found (no torch here) nor
how they are shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from engine.trace import Candidate, Token

LONGEST_TEXT = 200  # characters of a text whose words are told; a longer one is only counted


@dataclass(frozen=True, slots=True)
class LensRow:
    """What the model would say if it stopped after `layer`: the logit lens at the prompt's last position (nostalgebraist, 2020).

    `rank` (0: the first choice) and `probability` are those of the first token that was really picked.
    """

    layer: int
    candidates: tuple[Candidate, ...]
    rank: int
    probability: float


@dataclass(frozen=True, slots=True)
class Merge:
    """One step of byte-pair encoding: the neighbours `left` and `right` become one piece, by the merge rule of this `rank` (0: first).

    `pieces`: the word afterwards. Where several equal neighbours are joined by one rule, one step joins one pair.
    """

    rank: int
    left: bytes
    right: bytes
    pieces: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class WordCut:
    """One word as the pre-tokenizer gives it: its single bytes (or characters) at the start, then the merges until none applies.

    `whole`: the word is in the vocabulary as it is, and this tokenizer then asks no merge rule.
    """

    raw: bytes
    start: tuple[bytes, ...]
    merges: tuple[Merge, ...]
    ids: tuple[int, ...]
    whole: bool = False


@dataclass(frozen=True, slots=True)
class TextCut:
    """A text cut by a model's tokenizer, without any template. `words` are given for short texts only (LONGEST_TEXT).

    `reason`: why there are no words ("long", "not_bpe", "disagrees": our merges do not lead to the tokenizer's own ids).
    `rules`: how many merge rules the tokenizer has in all, where words are given.
    """

    tokens: tuple[Token, ...]
    tokenize_s: float
    words: tuple[WordCut, ...]
    reason: Literal["long", "not_bpe", "disagrees"] | None = None
    rules: int = 0


@dataclass(frozen=True, slots=True)
class StageRow:
    """One token on its way from score to share.

    `logit`: the model's own score; None: −infinity, the model itself rules the token out. `likely`: softmax at temperature 1. `tempered`:
    softmax at the temperature asked for (0: 1 for the best, 0 for all others). `after_top_k`, `share` (after top-p): shares of what is
    left, 0 for a token that was cut out. `begins`: the shares of all tokens with lower ids, that is where its piece of the ruler [0, 1)
    begins on which the drawn number falls.
    """

    id: int
    raw: bytes
    text: str
    logit: float | None
    likely: float
    tempered: float
    after_top_k: float
    share: float
    begins: float


@dataclass(frozen=True, slots=True)
class Stages:
    """How one token was chosen, or would be with other settings: the real distribution of the step that wrote generated token `index`.

    `rows`: the likeliest first; the token that was written and the one that would be are always among them. `rest_*`: the sums over all
    other tokens, so that each stage adds up to 1. `kept_top_k`, `kept_top_p`: tokens left after each filter, of `vocabulary`.
    `drawn`: the step's own random number. `written_id`: what the run wrote; `would_write_id`: what these settings write with that number.
    """

    index: int
    temperature: float
    top_k: int
    top_p: float
    rows: tuple[StageRow, ...]
    vocabulary: int
    kept_top_k: int
    kept_top_p: int
    rest_likely: float
    rest_tempered: float
    rest_after_top_k: float
    rest_share: float
    drawn: float
    written_id: int
    would_write_id: int
