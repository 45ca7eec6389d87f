"""What the app and the engine process say to each other. Knows the messages; does not know sockets, models or pages.

Every message is one JSON text (engine.codec). Only `Answered` may be followed by one binary message: a C-ordered array
of `dtype` and `dims`.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from engine.errors import ErrorInfo
from engine.serve.asks import Question
from engine.serve.message import Message as Message
from engine.stem import Stem
from engine.sweep import Measuring, SweepKind, SweepSample, SweepStatus
from engine.trace import DecodeStep, LoadStage, ModelInfo, Origin, PrefillTrace, RunSettings, RunStatus, RunView, StopReason, Token

SteerAction = Literal["play", "pause", "step", "stop", "cancel"]

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
    `stem`: this run is a branch and goes on from there.
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
    stem: Stem | None = None


class Steer(Message, frozen=True, tag="steer"):
    """`stop` ends the run and keeps it; `cancel` ends it and frees its live memory. `pace_s` None: leave as it is.

    `error`: why a run that is still going is ended, where it was not the reader's wish.
    """

    run_id: str
    action: SteerAction
    pace_s: float | None = None
    error: ErrorInfo | None = None


class BeginSweep(Message, frozen=True, tag="begin_sweep"):
    """Measure at these lengths, in fair turns beside the runs. Answered by SweepMoved…, then SweepEnded."""

    sweep_id: str
    session: str
    model: str
    device: str
    kind: SweepKind
    lengths: tuple[int, ...]


class StopSweep(Message, frozen=True, tag="stop_sweep"):
    """Also in the middle of a measurement. `error`: why, where it was not the reader's wish."""

    sweep_id: str
    error: ErrorInfo | None = None


class Shutdown(Message, frozen=True, tag="shutdown"):
    pass


Command = LoadModel | Submit | Steer | BeginSweep | StopSweep | Question | Shutdown


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


class Branched(Message, frozen=True, tag="branched"):
    """First word of a branch's run, before the Prefilled or Stepped that brings its own first token."""

    run_id: str
    origin: Origin


class Glanced(Message, frozen=True, tag="glanced"):
    """How the step that wrote generated token `index` read the notes: float32, little-endian, one weight per token read, the mean over all
    layers and heads. Only told where there is time for it: in slow motion and after single steps. Nobody keeps it.
    """

    run_id: str
    index: int
    weights: bytes


class StatusChanged(Message, frozen=True, tag="status"):
    run_id: str
    status: RunStatus
    stop_reason: StopReason | None = None
    error: ErrorInfo | None = None


class SweepMoved(Message, frozen=True, tag="sweep_moved"):
    """What has been measured (`sample`), and what comes next. `model` is told once, with the lengths that fit into its context."""

    sweep_id: str
    status: SweepStatus
    model: ModelInfo | None = None
    lengths: tuple[int, ...] = ()
    conditions: dict[str, str] = msgspec.field(default_factory=dict)
    sample: SweepSample | None = None
    then: Measuring | None = None


class SweepEnded(Message, frozen=True, tag="sweep_ended"):
    sweep_id: str
    status: SweepStatus
    error: ErrorInfo | None = None


class Answered(Message, frozen=True, tag="answered"):
    """`error` set: nothing follows. `dtype` set ("float32"): one binary message of shape `dims` follows."""

    request_id: str
    error: ErrorInfo | None = None
    text: str | None = None
    dtype: str | None = None
    dims: tuple[int, ...] = ()


Event = (
    Hello
    | ModelProgress
    | ModelReady
    | ModelFailed
    | ModelFreed
    | Tokenized
    | Branched
    | Prefilled
    | Stepped
    | Glanced
    | StatusChanged
    | SweepMoved
    | SweepEnded
    | Answered
)


# app → browser, on the channel of one run (JSON text frames). The browser also receives the engine's own
# Tokenized, Branched, Prefilled, Stepped, Glanced and StatusChanged messages, unchanged and once each.


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
    origin: Origin | None = None

    @classmethod
    def of(cls, view: RunView) -> Snapshot:
        """A run as the browser needs it."""
        same = {name: getattr(view, name) for name in cls.__struct_fields__ if name != "max_new_tokens"}
        return cls(**same, max_new_tokens=view.settings.max_new_tokens)


class Addressed(msgspec.Struct, frozen=True):
    """Only whom a message is about: for one that cannot be read in full, or whose handling failed."""

    run_id: str | None = None
    request_id: str | None = None
    sweep_id: str | None = None
    model: str | None = None
    device: str | None = None


read_boot = msgspec.json.Decoder(Boot).decode
read_command = msgspec.json.Decoder(Command).decode
read_event = msgspec.json.Decoder(Event).decode
read_address = msgspec.json.Decoder(Addressed).decode
