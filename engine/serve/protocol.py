"""What the app and the engine process say to each other. Knows the messages; does not know sockets, models or pages.

Every message is one JSON text (engine.codec). Only `Answered` may be followed by one binary message: a C-ordered array
of `dtype` and `dims`.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from engine.errors import ErrorInfo
from engine.trace import DecodeStep, LoadStage, ModelInfo, PrefillTrace, RunSettings, RunStatus, RunView, StopReason, Token

SteerAction = Literal["play", "pause", "step", "stop", "cancel"]

PATIENCE_S = 15.0  # how long an answer is waited for; whoever asks for more work (a long text read once more) waits longer


class Message(msgspec.Struct, frozen=True, tag_field="type"):
    """Base of all messages; `type` in the JSON tells them apart."""


# app → engine


class Boot(Message, frozen=True, tag="boot"):
    """What a new engine process reads from its standard input, one line: the one-time key (hex) and the app's own settings."""

    key: str
    home: str
    offline: bool
    held_runs: int


class LoadModel(Message, frozen=True, tag="load_model"):
    """Answered by ModelProgress…, then ModelReady or ModelFailed. `device` as in Settings.device."""

    model: str
    device: str


class Submit(Message, frozen=True, tag="submit"):
    """A new run. `play` False: it waits, paused, for the first step. `pace_s`: least time from one step to the next (slow motion).

    `submitted_at`: stamp of `time.perf_counter`, which all processes of one machine share, when the reader asked; None: at arrival.
    """

    run_id: str
    session: str
    model: str
    device: str
    prompt: str
    settings: RunSettings
    play: bool = True
    pace_s: float = 0.0
    submitted_at: float | None = None


class Steer(Message, frozen=True, tag="steer"):
    """`stop` ends the run and keeps it; `cancel` ends it and frees its live memory. `pace_s` None: leave as it is.

    `error`: why a run that is still going is ended, where it was not the reader's wish.
    """

    run_id: str
    action: SteerAction
    pace_s: float | None = None
    error: ErrorInfo | None = None


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


class AskCut(Message, frozen=True, tag="ask_cut"):
    """Answered by `text`: the JSON of a TextCut, by the tokenizer of a model that is in memory. `model`, `device` as in LoadModel."""

    request_id: str
    model: str
    device: str
    words: str
    patience_s: float = PATIENCE_S


class AskTerms(Message, frozen=True, tag="ask_terms"):
    """Answered by `text`: the terms under which a packaged model may be used."""

    request_id: str
    model: str


class AcceptTerms(Message, frozen=True, tag="accept_terms"):
    request_id: str
    model: str


class Shutdown(Message, frozen=True, tag="shutdown"):
    pass


# About the live memory of a run. Who has waited `patience_s`, counted from the arrival, has gone: the question is not answered any more.
Look = AskAttention | AskLinks | AskLens | AskCell
Question = Look | AskCut | AskTerms | AcceptTerms
Command = LoadModel | Submit | Steer | Look | AskCut | AskTerms | AcceptTerms | Shutdown


# engine → app


class Hello(Message, frozen=True, tag="hello"):
    """First message of a new engine process."""

    pid: int


class ModelProgress(Message, frozen=True, tag="model_progress"):
    """`model` and `device` as they were asked for. `total` 0: not known."""

    model: str
    device: str
    stage: LoadStage
    done: int
    total: int


class ModelReady(Message, frozen=True, tag="model_ready"):
    """`model` and `device` as they were asked for; `info.device` is the device it came to lie on."""

    model: str
    device: str
    info: ModelInfo


class ModelFailed(Message, frozen=True, tag="model_failed"):
    model: str
    device: str
    error: ErrorInfo


class ModelFreed(Message, frozen=True, tag="model_freed"):
    """The model has made room for another one."""

    model: str
    device: str


class Tokenized(Message, frozen=True, tag="tokenized"):
    run_id: str
    model: ModelInfo
    tokens: tuple[Token, ...]


class Prefilled(Message, frozen=True, tag="prefilled"):
    run_id: str
    prefill: PrefillTrace


class Stepped(Message, frozen=True, tag="stepped"):
    run_id: str
    step: DecodeStep


class StatusChanged(Message, frozen=True, tag="status"):
    run_id: str
    status: RunStatus
    stop_reason: StopReason | None = None
    error: ErrorInfo | None = None


class Answered(Message, frozen=True, tag="answered"):
    """`error` set: nothing follows. `dtype` set ("float32"): one binary message of shape `dims` follows."""

    request_id: str
    error: ErrorInfo | None = None
    text: str | None = None
    dtype: str | None = None
    dims: tuple[int, ...] = ()


Event = Hello | ModelProgress | ModelReady | ModelFailed | ModelFreed | Tokenized | Prefilled | Stepped | StatusChanged | Answered


# app → browser, on the channel of one run (JSON text frames). The browser also receives the engine's own
# Tokenized, Prefilled, Stepped and StatusChanged messages, unchanged and once each.


class Snapshot(Message, frozen=True, tag="snapshot"):
    """First frame after a browser connects: all there is so far. It replaces what the browser had."""

    run_id: str
    status: RunStatus
    model: ModelInfo | None
    tokens: tuple[Token, ...]
    prefill: PrefillTrace | None
    steps: tuple[DecodeStep, ...]
    stop_reason: StopReason | None
    error: ErrorInfo | None
    max_new_tokens: int

    @classmethod
    def of(cls, view: RunView) -> Snapshot:
        """A run as the browser needs it."""
        same = {name: getattr(view, name) for name in cls.__struct_fields__ if name != "max_new_tokens"}
        return cls(**same, max_new_tokens=view.settings.max_new_tokens)


class Addressed(msgspec.Struct, frozen=True):
    """Only whom a message is about: for one that cannot be read in full, or whose handling failed."""

    run_id: str | None = None
    request_id: str | None = None
    model: str | None = None
    device: str | None = None


read_boot = msgspec.json.Decoder(Boot).decode
read_command = msgspec.json.Decoder(Command).decode
read_event = msgspec.json.Decoder(Event).decode
read_address = msgspec.json.Decoder(Addressed).decode
