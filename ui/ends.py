"""Which end an exam came to, by its name in the texts, and who brought it about.

Knows a run's snapshot; does not know how an end is brought about (ui.sections.endings) nor how it is told (ui.sections.outcome).
"""

from __future__ import annotations

from engine.trace import RunSettings, RunStatus, RunView, StopReason

# Errors that befall an exam; every other one that comes before the first token is a refusal to begin.
ACCIDENTS = ("internal", "engine_lost", "engine_unavailable", "not_finite")


def name_of(view: RunView) -> str | None:
    """The end that came; None: not ended. A stop reason, but

    "eos_hand" where the reader put the end token there, "refused" where nothing could be begun, and where memory ended it "paper" (our own
    limit), "power" (refused on purpose) or "memory" (refused, and nobody had asked for that).
    """
    if view.status != RunStatus.ENDED or view.stop_reason is None:
        return None
    match view.stop_reason:
        case StopReason.EOS:
            return "eos_hand" if by_reader(view) else "eos"
        case StopReason.ERROR:
            return "refused" if refused(view) else "error"
        case StopReason.OUT_OF_MEMORY:
            return _memory(view)
        case _:
            return str(view.stop_reason)


def sentence(view: RunView) -> str:
    """The key of the sentence in stops.toml that tells how the run ended."""
    name = name_of(view)
    return name if name in {"eos_hand", "refused", "power"} else str(view.stop_reason)


def by_reader(view: RunView) -> bool:
    """Whether the newest token is the reader's choice and not the model's."""
    newest = view.steps[-1] if view.steps else view.prefill
    return newest is not None and newest.chosen_by == "reader"


def refused(view: RunView) -> bool:
    """Whether the exam could not be held at all: the question does not fit, say, or the model cannot be loaded."""
    return view.prefill is None and view.error is not None and view.error.code not in ACCIDENTS


def _memory(view: RunView) -> str:
    if view.error is not None and view.error.params.get("cause") == "cap":
        return "paper"
    return "power" if view.settings.power_cut_at == len(view.generated) else "memory"


def intended(settings: RunSettings) -> str | None:
    """The end that these settings were to bring about, besides the usual ones."""
    limits = {
        "power": settings.power_cut_at,
        "paper": settings.kv_limit_bytes,
        "timeout": settings.time_limit_s,
        "context_full": settings.context_limit,
    }
    return next((name for name, limit in limits.items() if limit is not None), None)
