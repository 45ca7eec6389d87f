"""What the app may ask of the engine process: looks into a run's live memory, what a tokenizer knows, what the machine can do, terms
of a model.

Knows the questions and the form of their answers; does not know who answers them (engine.serve.answers) or how they travel.
"""

from __future__ import annotations

from engine.calibration import Measuring
from engine.serve.message import Message

PATIENCE_S = 15.0  # how long an answer is waited for; whoever asks for more work (a long text read once more) waits longer


class AskAttention(Message, frozen=True, tag="ask_attention"):
    """Answered by float32 [queries, keys]. `layer` None: mean over layers, `head` None: mean over heads.

    `until`: as if only so many tokens had been read; None: all. `rows`: only the newest so many queries of these; None: all.
    """

    request_id: str
    run_id: str
    layer: int | None
    head: int | None = None
    rows: int | None = None
    until: int | None = None
    patience_s: float = PATIENCE_S


class AskLinks(Message, frozen=True, tag="ask_links"):
    """Answered by float32 [layers, heads]: the weight with which the token at `query` reads the one at `key`."""

    request_id: str
    run_id: str
    query: int
    key: int
    patience_s: float = PATIENCE_S


class AskLens(Message, frozen=True, tag="ask_lens"):
    """Answered by `text`: the JSON of LensRow[], one per layer, with `count` candidates each."""

    request_id: str
    run_id: str
    count: int
    patience_s: float = PATIENCE_S


class AskCell(Message, frozen=True, tag="ask_cell"):
    """Answered by float32 [2, kv_heads, head_dim]: key and value of one layer and position."""

    request_id: str
    run_id: str
    layer: int
    position: int
    patience_s: float = PATIENCE_S


class AskStages(Message, frozen=True, tag="ask_stages"):
    """Answered by `text`: the JSON of Stages: how generated token `index` would be chosen with these settings (None: the run's own).
    `count`: rows, at least.
    """

    request_id: str
    run_id: str
    index: int
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    count: int = 12
    patience_s: float = PATIENCE_S


class AskDecoded(Message, frozen=True, tag="ask_decoded"):
    """Answered by `text`: what the tokenizer of a model that is in memory makes of `ids`. `model`, `device` as in LoadModel."""

    request_id: str
    model: str
    device: str
    ids: tuple[int, ...]
    skip_special: bool
    patience_s: float = PATIENCE_S


class AskCut(Message, frozen=True, tag="ask_cut"):
    """Answered by `text`: the JSON of a TextCut, by the tokenizer of a model that is in memory. `model`, `device` as in LoadModel."""

    request_id: str
    model: str
    device: str
    words: str
    patience_s: float = PATIENCE_S


class AskCalibration(Message, frozen=True, tag="ask_calibration"):
    """Answered by `text`: the JSON of a Calibration of the device on which a model that is in memory runs; "": none is kept, and none
    was to be measured. `model`, `device` as in LoadModel."""

    request_id: str
    model: str
    device: str
    measuring: Measuring
    patience_s: float = PATIENCE_S


class AskTerms(Message, frozen=True, tag="ask_terms"):
    """Answered by `text`: the terms under which a packaged model may be used."""

    request_id: str
    model: str


class AcceptTerms(Message, frozen=True, tag="accept_terms"):
    request_id: str
    model: str


# About the live memory of a run. Who has waited `patience_s`, counted from the arrival, has gone: the question is not answered any more.
Look = AskAttention | AskLinks | AskLens | AskCell | AskStages
Question = Look | AskCut | AskDecoded | AskCalibration | AskTerms | AcceptTerms
