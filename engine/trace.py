"""Every frozen dataclass that leaves the engine: settings, tokens, traces, snapshots, records.

Knows what happened in a run; does not know how it was computed (no torch here) nor how it is shown.
All durations are seconds of `time.perf_counter` with the device synchronised; all sizes are bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from engine.errors import ErrorInfo
from engine.model.shape import ModelShape
from engine.run_settings import RunSettings as RunSettings
from engine.usage import MemoryReading

SCHEMA_VERSION = 1
TokenKind = Literal["template", "prompt", "generated"]
LoadStage = Literal["download", "verify", "convert", "load", "warm_up"]
ChosenBy = Literal["sampler", "reader", "forced"]  # who chose a token; "reader": the first token of a branch, "forced": Run(forced=…)


class RunStatus(StrEnum):
    """Where a run stands. `queued` covers waiting for the model to load and for a turn."""

    QUEUED = "queued"
    RUNNING = "running"
    PAUSED = "paused"
    ENDED = "ended"


class StopReason(StrEnum):
    """How a run ended. What it had produced stays in every case."""

    EOS = "eos"
    LENGTH = "length"
    CONTEXT_FULL = "context_full"
    STOPPED = "stopped"
    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out_of_memory"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Token:
    """One token. `raw` are its exact bytes; `text` its characters, or "" where the bytes are not whole UTF-8 characters."""

    id: int
    raw: bytes
    text: str
    kind: TokenKind
    position: int
    special: bool = False


@dataclass(frozen=True, slots=True)
class Candidate:
    """One possible next token.

    `probability` is the model's own (softmax of the logits at temperature 1); `drawn_from` is its share after temperature,
    top-k and top-p: what the token is drawn from (greedy: 1 for the best, 0 for the others).
    """

    id: int
    raw: bytes
    text: str
    probability: float
    drawn_from: float


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """The loaded model as others may know it. `threads_*` and `dtype_trials` come from a short measurement at load.

    `body_parameters`: those that every token is multiplied with, `head_parameters`: the output head's (input embeddings, which are
    only looked up, are in neither; where tied to the head they count there). 0: not counted.
    """

    model_id: str
    name: str
    shape: ModelShape
    device: str
    dtype: str
    dtype_bytes: int
    dtype_trials: dict[str, float]  # dtype → measured seconds of one layer-sized product
    prefill_threads: int
    decode_threads: int
    parameters: int
    weight_bytes: int
    context_length: int
    has_chat_template: bool
    default_system_prompt: str
    eos_ids: tuple[int, ...]
    load_s: float
    attention_reason: str | None = None  # why no attention map can be drawn for this model; None: it can
    versions: dict[str, str] = field(default_factory=dict)
    body_parameters: int = 0
    head_parameters: int = 0
    lens_reason: str | None = None  # why no guesses can be read off the layers of this model; None: they can


@dataclass(frozen=True, slots=True)
class WorkPeak:
    """Memory while the prompt was read: what was in use before, and the most seen until the pass was over.

    `source`: "resident" (the process's resident set, sampled), "torch" (the device allocator's own peak).
    """

    before_bytes: int
    peak_bytes: int
    source: Literal["resident", "torch"]


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a branch left another run: at its generated token `index` it wrote a token of its own instead of `instead_of`.

    `reread_s`: None where the notes up to there were taken over from the other run; else the seconds of reading all of them once more
    (the other run's live memory was gone, or a sliding window had forgotten what was needed). Counted neither as work nor as waiting.
    """

    run_id: str
    index: int
    instead_of: Token
    reread_s: float | None = None


@dataclass(frozen=True, slots=True)
class StepParts:
    """What a step's forward pass spent its time on, summed over the layers; the four add up to forward_s.

    weights_s: products with the weights, norms, embedding; read_s: attention over the notes; append_s: the new column added to the
    notes; head_s: scores for every token of the vocabulary.
    """

    weights_s: float
    read_s: float
    append_s: float
    head_s: float


@dataclass(frozen=True, slots=True)
class PrefillTrace:
    """The reading of the whole prompt and the first sampled token.

    ttft_s = queue_s + template_s + tokenize_s + prefill_s + sample_s. `paused_s` (reader's own pauses) is in none of them.
    `at_s` is the stamp of the first id, counted from submission, pauses included. `kv_tokens` = prompt length.
    `layer_s`: measured time of each layer's part of the pass, in order; the rest of prefill_s is embedding, masks and output head.
    `drawn`, `chosen_by`: as in DecodeStep. `recorded_bytes` 0 although attention was to be captured: over the limit, maps are read once
    more on demand.
    """

    prompt_tokens: int
    queue_s: float
    template_s: float
    tokenize_s: float
    prefill_s: float
    sample_s: float
    paused_s: float
    at_s: float
    first: Token
    candidates: tuple[Candidate, ...]
    kv_bytes: int
    kv_tokens: int
    recorded_bytes: int
    layer_s: tuple[float, ...] = ()
    peak: WorkPeak | None = None
    drawn: float | None = None
    chosen_by: ChosenBy = "sampler"
    memory: MemoryReading | None = None

    @property
    def ttft_s(self) -> float:
        return self.queue_s + self.template_s + self.tokenize_s + self.prefill_s + self.sample_s


@dataclass(frozen=True, slots=True)
class DecodeStep:
    """One token in, one token out. `index` is the ordinal of `token` among the generated ones (the first one, from prefill, is 0).

    `gap_s`: from the previous id to the start of this step; `paused_s`: the part of it in which the reader had paused;
    the rest was waiting for other runs' turns. `busy_s`: the step's own time, forward and sampling included.
    `kv_tokens` and `kv_bytes` are measured on the cache tensors after the step. `parts`: None where they were not measured.
    `drawn`: the random number in [0, 1) of this step; greedy runs draw it too and leave it unused, a token that was not the sampler's
    choice (`chosen_by`) keeps the number that would have decided. None: not known. `memory`: read now and then, not at every step, while
    the run's clock stood still.
    """

    index: int
    token: Token
    candidates: tuple[Candidate, ...]
    gap_s: float
    paused_s: float
    forward_s: float
    sample_s: float
    busy_s: float
    at_s: float
    kv_bytes: int
    kv_tokens: int
    recorded_bytes: int
    parts: StepParts | None = None
    drawn: float | None = None
    chosen_by: ChosenBy = "sampler"
    memory: MemoryReading | None = None

    @property
    def waited_s(self) -> float:
        """Time spent waiting for other runs' turns."""
        return max(self.gap_s - self.paused_s, 0.0)

    @property
    def itl_s(self) -> float:
        """Inter-token latency: waiting and work, without the reader's own pauses."""
        return self.waited_s + self.busy_s


@dataclass(frozen=True, slots=True)
class RunView:
    """A frozen snapshot of one run, whatever its state. `tokens` are the prompt's (template included).

    `device` as it was asked for (`model.device` is the one it runs on); `pace_s` as it was asked for last.
    """

    run_id: str
    prompt: str
    settings: RunSettings
    model_id: str
    created: str  # ISO 8601 with offset
    status: RunStatus
    model: ModelInfo | None = None
    tokens: tuple[Token, ...] = ()
    prefill: PrefillTrace | None = None
    steps: tuple[DecodeStep, ...] = ()
    stop_reason: StopReason | None = None
    error: ErrorInfo | None = None
    device: str = "auto"
    pace_s: float = 0.0
    origin: Origin | None = None
    recording: bool = False  # from a file: there is no live memory behind it

    @property
    def generated(self) -> tuple[Token, ...]:
        return generated_tokens(self.prefill, self.steps)


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run as it is kept, exported and compared. JSON: `to_json` / `from_json` use engine.codec."""

    prompt: str
    settings: RunSettings
    model: ModelInfo
    created: str
    tokens: tuple[Token, ...]
    prefill: PrefillTrace | None
    steps: tuple[DecodeStep, ...]
    stop_reason: StopReason | None
    error: ErrorInfo | None = None
    schema: int = SCHEMA_VERSION
    origin: Origin | None = None

    @property
    def generated(self) -> tuple[Token, ...]:
        return generated_tokens(self.prefill, self.steps)

    def to_json(self) -> str:
        from engine import codec

        return codec.dump(self).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> RunRecord:
        """Raises RecordInvalid, saying where and what was expected."""
        from engine import codec

        return codec.load_record(text)


def generated_tokens(prefill: PrefillTrace | None, steps: tuple[DecodeStep, ...]) -> tuple[Token, ...]:
    """All generated tokens in order: the first from prefill, then one per decode step."""
    return () if prefill is None else (prefill.first, *(step.token for step in steps))


def weight(tokens: tuple[Token, ...], *traces: PrefillTrace | DecodeStep | None) -> int:
    """What all this costs to keep: tokens and candidates, counted. Each takes about 300 bytes."""
    return len(tokens) + sum(1 + len(trace.candidates) for trace in traces if trace is not None)


def room_left(model: ModelInfo, prompt_tokens: int, limit: int | None = None) -> int:
    """Tokens that can still be written after a prompt of so many: 0 when the prompt itself does not fit. `limit`: a shorter context.

    One more than there are places left, because the last token written is never read.
    """
    return max(min(model.context_length, limit or model.context_length) - prompt_tokens + 1, 0)
