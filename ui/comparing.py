"""What is different between records, in words: what was asked for, how fast it went, where the answers part.

Knows records and the words; does not know how records are picked or drawn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from engine.measure.latency import summarize
from engine.trace import RunRecord
from ui import handout, literal, numbers
from ui.failures import code_span
from ui.shelf import Filed
from ui.state import t

BEFORE = 20  # characters shown before those that differ
TOLD_S = 0.0005  # a wait shorter than that is not told: it would be 0 ms
ALIKE = 1.02  # times closer than that are called equal
SAID_MOST = 60  # characters of a value


def differences(records: Sequence[Filed]) -> Iterator[str]:
    """One line for each setting that is not the same in all of them; one line that says so where all are."""
    told = {one.number: {t("records.prompt"): one.record.prompt, **handout.parameters(one.record)} for one in records}
    found = False
    for name in told[records[0].number]:
        values = {one.number: told[one.number][name] for one in records}
        if len(set(values.values())) > 1:
            found = True
            said = dict(zip(values, parting(list(values.values())), strict=True))
            yield t("records.each", name=name, values=" · ".join(f"{one.name} {code_span(said[one.number])}" for one in records))
    if not found:
        yield t("records.same_settings")


def parting(values: Sequence[str]) -> list[str]:
    """Values that are not all the same, cut so that what differs can be seen; "…" stands for what is left out. White space counts as one
    blank, unless nothing else differs."""
    lines = [" ".join(value.split()) for value in values]
    if len(set(lines)) < len(set(values)):
        lines = [literal.visible(value) for value in values]
    shared = [_alike(one, other) for one, other in combinations(set(lines), 2)]
    start = max(max(shared) - BEFORE, 0) if max(map(len, lines)) > SAID_MOST else 0
    return [_piece(line, start) for line in lines]


def _alike(one: str, other: str) -> int:
    """How many characters two lines begin with in common."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _piece(line: str, start: int) -> str:
    """`line` from `start` on, or its end where it is not so long."""
    start = min(start, max(len(line) - BEFORE, 0))
    return ("…" if start else "") + literal.beginning(line[start:], SAID_MOST)


def speeds(records: Sequence[Filed]) -> Iterator[str]:
    """Who was faster, for the first token and for the writing: each of them beside the first of those that were picked. Compared is the
    runs' own work; how long each stood in a queue or waited for others' turns says nothing of its speed, and is told apart."""
    for name in ("ttft", "tpot"):
        base, base_s = records[0], work_s(records[0].record, name)
        for one in records[1:]:
            other_s = work_s(one.record, name)
            if not base_s or not other_s:
                yield t(f"records.{name}_untold", one=base.name, other=one.name)
                continue
            (fast, fast_s), (slow, slow_s) = sorted(((base, base_s), (one, other_s)), key=lambda pair: pair[1])
            places = {"fast": fast.name, "slow": slow.name, "a": numbers.milliseconds(fast_s), "b": numbers.milliseconds(slow_s)}
            factor = slow_s / fast_s
            yield t(f"records.{name}_alike", **places) if factor < ALIKE else t(f"records.{name}_faster", **places, factor=f"{factor:,.2f}")
    for one in records:
        queue_s, waited_s = one.record.prefill.queue_s if one.record.prefill else 0.0, summarize(one.record).waited_s
        if max(queue_s, waited_s) >= TOLD_S:
            places = {"queue": numbers.milliseconds(queue_s), "waited": numbers.milliseconds(waited_s)}
            yield t("records.left_out", name=one.name, **places)


def work_s(record: RunRecord, name: str) -> float | None:
    """Seconds of a run's own work: "ttft": up to the first token, without the queue; "tpot": of a step, on average, without waiting for
    others. None where it did not come to that."""
    if record.prefill is None or (name == "tpot" and not record.steps):
        return None
    if name == "ttft":
        return record.prefill.ttft_s - record.prefill.queue_s
    return sum(step.busy_s for step in record.steps) / len(record.steps)


def answers(records: Sequence[Filed]) -> Iterator[str]:
    """How far the answers go together. Runs of different models have different vocabularies, so that nothing can be said of those."""
    base = records[0]
    for one in records[1:]:
        places = {"one": base.name, "other": one.name}
        if base.record.model.model_id != one.record.model.model_id:
            yield t("records.answers_models", **places)
            continue
        left, right = base.record.generated, one.record.generated
        shared = next((at for at, (a, b) in enumerate(zip(left, right, strict=False)) if a.id != b.id), min(len(left), len(right)))
        if shared == len(left) == len(right):
            yield t("records.answers_same", **places, n=f"{shared:,}")
        elif shared in (len(left), len(right)):
            yield t("records.answers_longer", **places, n=f"{shared:,}")
        else:
            words = [code_span(literal.short(tokens[shared].text, tokens[shared].raw, 24)) for tokens in (left, right)]
            yield t("records.answers_part", **places, n=f"{shared + 1:,}", a=words[0], b=words[1])
