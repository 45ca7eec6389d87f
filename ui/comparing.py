"""What is different between records, in words: what was asked for, how fast it went, where the answers part.

Knows records and the words; does not know how records are picked or drawn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from engine.measure.latency import summarize
from ui import handout, literal, numbers
from ui.failures import code_span
from ui.shelf import Filed
from ui.state import t

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
            each = " · ".join(f"{one.name} {code_span(values[one.number], SAID_MOST)}" for one in records)
            yield t("records.each", name=name, values=each)
    if not found:
        yield t("records.same_settings")


def speeds(records: Sequence[Filed]) -> Iterator[str]:
    """Who was faster, for the wait and for the writing: each of them beside the first of those that were picked."""
    for name in ("ttft", "tpot"):
        base, base_s = records[0], getattr(summarize(records[0].record), f"{name}_s")
        for one in records[1:]:
            other_s = getattr(summarize(one.record), f"{name}_s")
            if not base_s or not other_s:
                yield t(f"records.{name}_untold", one=base.name, other=one.name)
                continue
            (fast, fast_s), (slow, slow_s) = sorted(((base, base_s), (one, other_s)), key=lambda pair: pair[1])
            places = {"fast": fast.name, "slow": slow.name, "a": numbers.milliseconds(fast_s), "b": numbers.milliseconds(slow_s)}
            factor = slow_s / fast_s
            yield t(f"records.{name}_alike", **places) if factor < ALIKE else t(f"records.{name}_faster", **places, factor=f"{factor:,.2f}")


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
