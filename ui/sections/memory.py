"""Who holds the memory: weights, notes, recorded queries, the rest of the engine, everybody else; each with its source.

Knows a run's snapshot and the words; does not know which page it stands on. The chart beside it draws the movement; this stands still.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import streamlit as st

from engine.trace import DecodeStep, ModelInfo, PrefillTrace, RunView
from engine.usage import MemoryReading
from ui import failures, i18n, looking, panels
from ui.numbers import Evidence, in_full, mebibytes
from ui.scale import Role, Row, scale
from ui.state import t

Owner = Literal["weights", "notes", "queries", "rest", "others"]
Teller = Literal["tensors", "resident", "system", "torch", "nvml"]
ROLES: dict[Owner, Role] = {"weights": "prompt", "notes": "notes", "queries": "good", "rest": "template", "others": "template"}


@dataclass(frozen=True, slots=True)
class Share:
    """What one owner holds, in bytes; None: not available, and `why` says so in a stable word. `whole_bytes`: what the source told, where
    the share is what is left of that."""

    owner: Owner
    size_bytes: int | None
    source: Teller
    why: str = ""
    whole_bytes: int | None = None

    @property
    def evidence(self) -> Evidence:
        return "measured" if self.whole_bytes is None else "computed"


def show(view: RunView) -> None:
    """Draw the section."""
    index = looking.index_shown(view)
    with panels.slot(), panels.card("memory"):
        panels.card_title(t("memory.title"), None, t("memory.note"), anchor="memory")
        if looking.moving(view):
            st.caption(f":material/hourglass_empty: {t('memory.moving')}")
        elif index is None or view.model is None:
            st.caption(f":material/hourglass_empty: {t('memory.none')}")
        else:
            _list(view, view.model, index)


def _list(view: RunView, info: ModelInfo, index: int) -> None:
    read_at, found = reading_at(view, index)
    held = shares(info, _trace(view, index), found)
    largest = max((share.size_bytes or 0 for share in held), default=0)
    with st.container(gap="xxsmall"):
        for share in held:
            size = t("memory.unavailable") if share.size_bytes is None else mebibytes(share.size_bytes)
            scale([Row(t(f"memory.{share.owner}"), share.size_bytes, size, ROLES[share.owner])], full=float(largest or 1))
            st.caption(_told(share), help=None if share.size_bytes is None else _about(share))
    if found is not None:
        words = t("memory.read_first") if read_at == 0 else t("memory.read_at", token=f"{read_at + 1:,}")
        st.caption(f":material/schedule: {words} {t('memory.untimed')}")


def _told(share: Share) -> str:
    """Where the number comes from, or why there is none."""
    if share.size_bytes is None:
        return f":material/block: {t('memory.because', source=t(f'memory.from_{share.source}'), reason=_reason(share.why))}"
    return f"{t(f'memory.from_{share.source}')} {panels.badge(share.evidence)}"


def _about(share: Share) -> str:
    """The size in full, and what it is a part of."""
    what = t(f"memory.about_{share.owner}")
    left = "" if share.whole_bytes is None else t("memory.left_of", whole=mebibytes(share.whole_bytes))
    return "  \n".join(part for part in (what, left, in_full(share.size_bytes or 0)) if part)


def _reason(word: str) -> str:
    """One of our own words in the reader's; a stranger's, out of a file, literally."""
    return t(f"memory.missing_{word}") if f"missing_{word}" in i18n.table("memory") else failures.code_span(word)


def _trace(view: RunView, index: int) -> PrefillTrace | DecodeStep:
    """What wrote generated token `index`."""
    trace = view.prefill if index == 0 else view.steps[index - 1]
    assert trace is not None, "a token that is shown has been written"
    return trace


def reading_at(view: RunView, index: int) -> tuple[int, tuple[PrefillTrace | DecodeStep, MemoryReading] | None]:
    """The newest reading at generated token `index` or before, with the trace that carries it, and the token's index; None: none was
    taken, as in a record of former days."""
    for at in range(index, -1, -1):
        trace = _trace(view, at)
        if trace.memory is not None:
            return at, (trace, trace.memory)
    return 0, None


def shares(
    info: ModelInfo, shown: PrefillTrace | DecodeStep, found: tuple[PrefillTrace | DecodeStep, MemoryReading] | None
) -> tuple[Share, ...]:
    """Everybody's share: of the tensors as they are at the trace `shown`, of the rest as it was at the reading."""
    tensors = (
        Share("weights", info.weight_bytes, "tensors"),
        Share("notes", shown.kv_bytes, "tensors"),
        Share("queries", shown.recorded_bytes, "tensors"),
    )
    if found is None:
        cpu = _kind(info) == "cpu"
        unread = (
            Share("rest", None, "resident" if cpu else "torch", "unread"),
            Share("others", None, "system" if cpu else "nvml", "unread"),
        )
        return (*tensors, *unread)
    trace, reading = found
    return (*tensors, _rest(info, trace, reading), _others(info, reading))


def _kind(info: ModelInfo) -> str:
    return info.device.partition(":")[0]


def _rest(info: ModelInfo, trace: PrefillTrace | DecodeStep, reading: MemoryReading) -> Share:
    """What this process holds besides the three: other models, other runs, the program itself."""
    known = info.weight_bytes + trace.kv_bytes + trace.recorded_bytes
    if _kind(info) == "cpu":
        return _left("rest", reading.process_bytes, known, "resident", reading.missing.get("process"))
    if reading.device_process_bytes is not None:
        return _left("rest", reading.device_process_bytes, known, "nvml", None)
    return _left("rest", reading.reserved_bytes, known, "torch", reading.missing.get("torch"))


def _others(info: ModelInfo, reading: MemoryReading) -> Share:
    """What the memory that this run uses holds for others: the card's where it runs on a card, else the computer's."""
    missing = reading.missing
    if _kind(info) == "cuda":
        return _left("others", reading.device_used_bytes, reading.device_process_bytes, "nvml", missing.get("nvml"))
    if _kind(info) == "mps":
        return Share("others", None, "system", "shared")
    why = missing.get("system") or missing.get("process")
    return _left("others", reading.system_used_bytes, _counted_in_use(reading), "system", why)


def _counted_in_use(reading: MemoryReading) -> int | None:
    """What of this process the system counts as in use: pages of files (weights are mapped from theirs) can be dropped, so it does not."""
    return None if reading.process_bytes is None else reading.process_bytes - (reading.process_shared_bytes or 0)


def _left(owner: Owner, whole: int | None, part: int | None, source: Teller, why: str | None) -> Share:
    """`whole` without `part`. Less than nothing: part of it is not where the source looks (swapped out, say)."""
    if whole is None or part is None:
        return Share(owner, None, source, why or "not_told")
    return Share(owner, None, source, "elsewhere") if whole < part else Share(owner, whole - part, source, whole_bytes=whole)
