"""Every failure the engine can report, as a type with a stable `code`.

Knows the codes and their parameters; does not know any human language: the UI looks a code up in its texts.
"""

from __future__ import annotations

from dataclasses import dataclass, field

ErrorValue = str | int | float


@dataclass(frozen=True, slots=True)
class ErrorInfo:
    """An error as it travels between processes and into a record.

    `code` is stable and names a text; `params` fill that text's places.
    """

    code: str
    params: dict[str, ErrorValue] = field(default_factory=dict)


class EngineError(Exception):
    """Base of all errors that a reader may be told about."""

    code = "internal"

    def __init__(self, **params: ErrorValue) -> None:
        super().__init__(f"{self.code}: " + ", ".join(f"{name}={value!r}" for name, value in params.items()))
        self.params = params

    @property
    def info(self) -> ErrorInfo:
        return ErrorInfo(self.code, dict(self.params))


class RemoteError(EngineError):
    """An error that was reported by the other process; carries that error's own code."""

    def __init__(self, info: ErrorInfo) -> None:
        self.code = info.code
        super().__init__(**info.params)


class EmptyPrompt(EngineError):
    """The prompt has no visible character."""

    code = "empty_prompt"


class LoneSurrogate(EngineError):
    """The text cannot be written as UTF-8. Params: position (character index)."""

    code = "lone_surrogate"


class PromptTooLong(EngineError):
    """Params: tokens, context."""

    code = "prompt_too_long"


class FileTooLarge(EngineError):
    """A file with a question is larger than may be. Params: size, limit (bytes)."""

    code = "file_too_large"


class FileEmpty(EngineError):
    """A file with a question has no visible character."""

    code = "file_empty"


class FileNotText(EngineError):
    """A file with a question cannot be read as text. Params: position (of the first byte that is none), byte (in hex), encoding."""

    code = "file_not_text"


class FileBinary(EngineError):
    """A file with a question holds a NUL character, which no text has. Params: position (byte)."""

    code = "file_binary"


class InvalidSetting(EngineError):
    """Params: field, value (as text), allowed (as text)."""

    code = "invalid_setting"


class NoChatTemplate(EngineError):
    """The chat template was asked for, but the model has none. Params: model."""

    code = "no_chat_template"


class ModelNotFound(EngineError):
    """Params: model."""

    code = "model_not_found"


class ModelNotLoaded(EngineError):
    """The model is not, or not any more, in memory. Params: model."""

    code = "model_not_loaded"


class UnsafeWeights(EngineError):
    """The model offers no safetensors, or wants to run code of its own. Params: model."""

    code = "unsafe_weights"


class NotCausal(EngineError):
    """The model is not a causal language model. Params: model, model_type."""

    code = "not_causal"


class UnsupportedConfig(EngineError):
    """A config.json whose cache cannot be computed. Params: field, value (as text)."""

    code = "unsupported_config"


class DownloadFailed(EngineError):
    """Params: package, detail (the last line the downloader printed)."""

    code = "download_failed"


class Offline(EngineError):
    """The weights are not in the cache and the network may not be used. Params: model."""

    code = "offline"


class HashMismatch(EngineError):
    """Params: file, expected, found."""

    code = "hash_mismatch"


class DiskFull(EngineError):
    """Params: path, needed_bytes, free_bytes."""

    code = "disk_full"


class StorageFailed(EngineError):
    """The disk refused to be written or read (no permission, read-only, no folder). Params: path, detail."""

    code = "storage_failed"


class TermsNotAccepted(EngineError):
    """Params: model."""

    code = "terms_not_accepted"


class ConversionFailed(EngineError):
    """Params: model, detail."""

    code = "conversion_failed"


class LoadFailed(EngineError):
    """Params: model, detail."""

    code = "load_failed"


class DeviceUnavailable(EngineError):
    """Params: device."""

    code = "device_unavailable"


class OutOfMemory(EngineError):
    """No memory for what was to be done. Params: cause ("cap": our own limit on the cache; "device": an allocator refused), detail."""

    code = "out_of_memory"


class NotFinite(EngineError):
    """The model gave logits that are not numbers (an overflow in float16, or broken weights)."""

    code = "not_finite"


class AttentionUnavailable(EngineError):
    """No true map can be drawn. Params: reason (off | softcap | sinks | not_causal | position | latent | unrecorded)."""

    code = "attention_unavailable"


class LensUnavailable(EngineError):
    """No true guesses can be read off this model's layers. Params: reason (unread | layers | head | norm | disagrees)."""

    code = "lens_unavailable"


class StagesUnavailable(EngineError):
    """The scores of a step cannot be had again. Params: reason (head | disagrees | forgotten | drawn)."""

    code = "stages_unavailable"


class OutOfRange(EngineError):
    """A layer, head or position that this run does not have. Params: field, value, count."""

    code = "out_of_range"


class RunUnknown(EngineError):
    """No run has this id, or its record has left the bounded store. Params: run."""

    code = "run_unknown"


class RunFreed(EngineError):
    """The run's live memory has been freed; its record remains. Params: run."""

    code = "run_freed"


class RunNotBegun(EngineError):
    """The run has not had its first turn, so there is no live memory to look into yet. Params: run."""

    code = "run_not_begun"


class NotYours(EngineError):
    """Steering without the run's key. Params: run."""

    code = "not_yours"


class Unwatched(EngineError):
    """The run was ended because nobody had looked at it for a whole lease."""

    code = "unwatched"


class TooManyRuns(EngineError):
    """Params: limit."""

    code = "too_many_runs"


class TooManySweeps(EngineError):
    """Params: limit."""

    code = "too_many_sweeps"


class EngineLost(EngineError):
    """The engine process ended on its own. Params: exit_code."""

    code = "engine_lost"


class EngineUnavailable(EngineError):
    """The engine process is not up (yet), or does not answer in time. Params: detail."""

    code = "engine_unavailable"


class RecordInvalid(EngineError):
    """An imported record is not valid. Params: field (what kind of fault), place (where in the file), detail (what was expected, for a
    log), and what each kind tells besides (see engine.codec.load_record)."""

    code = "record_invalid"


class NotRecorded(EngineError):
    """A look into live memory, or a branch, was asked of a recording: only what was written down is there. Params: run."""

    code = "not_recorded"
