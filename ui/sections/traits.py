"""The four traits of prefill with this run's numbers.

Knows a run's snapshot and the words; does not know which page it stands on.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass

import streamlit as st

from engine.errors import EngineError
from engine.measure import flops
from engine.trace import ModelInfo, PrefillTrace, RunView, WorkPeak
from ui import failures, numbers, panels
from ui.numbers import Figure, milliseconds
from ui.scale import Role, Row, scale
from ui.state import t

LONGER = (2, 10)  # times as long as this run's question


@dataclass(frozen=True, slots=True)
class Cost:
    """Floating-point operations of one pass over so many tokens, and the part of attention in them."""

    tokens: int
    total: int
    attention: int

    @classmethod
    def of(cls, info: ModelInfo, tokens: int) -> Cost:
        """Raises UnsupportedConfig where the model's numbers do not tell."""
        return cls(tokens, flops.prefill_flops(info, tokens), flops.attention_flops(info.shape, tokens))

    @property
    def attention_share(self) -> float:
        return self.attention / self.total


def show(view: RunView) -> None:
    """Draw the section of a run that has been prefilled."""
    if view.prefill is None or view.model is None:
        return
    st.markdown(f"#### {t('traits.title')}")
    with st.grid(2, min_column_width=380):
        with panels.card("trait_work", stretch=True):
            _work(view.model, view.prefill)
        with panels.card("trait_parallel", stretch=True):
            _parallel(view, view.prefill)
        with panels.card("trait_memory", stretch=True):
            _memory(view, view.model, view.prefill)
        with panels.card("trait_ttft", stretch=True):
            _ttft(view.prefill)


def operations(count: float) -> str:
    """A number of floating-point operations in the unit that reads best (1000-based)."""
    for unit, factor in (("TFLOP", 1e12), ("GFLOP", 1e9), ("MFLOP", 1e6)):
        if count >= factor:
            return f"{count / factor:,.3g} {unit}" if count < 1000 * factor else f"{count / factor:,.0f} {unit}"
    return f"{count:,.0f} FLOP"


def _work(info: ModelInfo, done: PrefillTrace) -> None:
    _says("work")
    try:
        cost = Cost.of(info, done.prompt_tokens)
    except EngineError as error:
        st.info(failures.explain(error.info), icon=":material/visibility_off:")
        return
    rate = f"{operations(cost.total / done.prefill_s)}/s" if done.prefill_s else numbers.NOTHING
    _row(
        "work",
        Figure(t("traits.flops"), operations(cost.total), "computed", t("traits.flops_help")),
        Figure(t("traits.rate"), rate, "computed", t("traits.rate_help", time=milliseconds(done.prefill_s))),
    )
    st.caption("  \n".join(_formula(info, cost)))
    st.markdown(f"{t('traits.attention', share=f'{cost.attention_share:.1%}')} {panels.badge('computed')}")
    st.markdown("\n".join(f"* {_longer(info, cost, times)}" for times in LONGER))


def _formula(info: ModelInfo, cost: Cost) -> list[str]:
    """The three terms with their numbers."""
    shape = info.shape
    weights, head = 2 * info.body_parameters * cost.tokens, 2 * info.head_parameters
    pairs = cost.attention // (4 * shape.num_attention_heads * shape.head_dim)
    terms = {"heads": shape.num_attention_heads, "head_dim": shape.head_dim, "layers": shape.num_hidden_layers}
    return [
        t("traits.formula_weights", body=f"{info.body_parameters:,}", tokens=f"{cost.tokens:,}", product=operations(weights)),
        t("traits.formula_head", head=f"{info.head_parameters:,}", product=operations(head)),
        t("traits.formula_attention", pairs=f"{pairs:,}", product=operations(cost.attention), **terms),
    ]


def _longer(info: ModelInfo, now: Cost, times: int) -> str:
    """What a question so many times as long would cost."""
    cost = Cost.of(info, now.tokens * times)
    grown = {"total_times": _times(cost.total / now.total), "attention_times": _times(cost.attention / now.attention)}
    places = {"times": times, "tokens": f"{cost.tokens:,}", "total": operations(cost.total), "share": f"{cost.attention_share:.1%}"}
    beyond = f" {t('traits.growth_context', context=f'{info.context_length:,}')}" if cost.tokens > info.context_length else ""
    return t("traits.growth", **places, **grown) + beyond


def _times(factor: float) -> str:
    return f"{factor:,.1f}" if factor < 10 else f"{factor:,.0f}"


def _parallel(view: RunView, done: PrefillTrace) -> None:
    _says("parallel")
    read_s = done.prefill_s / max(done.prompt_tokens, 1)
    write_s = statistics.median(step.forward_s for step in view.steps) if view.steps else None
    _row(
        "parallel",
        Figure(t("traits.per_pass"), f"{done.prompt_tokens:,}", "measured"),
        Figure(t("traits.per_step"), "1", "measured"),
    )
    if write_s is None:
        st.caption(f":material/hourglass_empty: {t('traits.step_to_come')}")
        return
    if read_s:
        st.markdown(f"{t('traits.factor', factor=_times(write_s / read_s), steps=f'{len(view.steps):,}')} {panels.badge('measured')}")
    read = Row(t("traits.read_one"), read_s, milliseconds(read_s), "prompt")
    scale([read, Row(t("traits.write_one"), write_s, milliseconds(write_s), "answer")])


def _memory(view: RunView, info: ModelInfo, done: PrefillTrace) -> None:
    _says("memory")
    peak = None if done.peak is None or _hidden(done, done.peak) else done.peak
    grown = numbers.NOTHING if peak is None else f"+ {numbers.mebibytes(peak.peak_bytes - peak.before_bytes)}"
    _row(
        "memory",
        Figure(t("traits.kv"), f"0 → {numbers.mebibytes(done.kv_bytes)}", "measured", numbers.in_full(done.kv_bytes)),
        Figure(t("traits.peak"), grown, "measured", None if peak is None else t("traits.peak_help", **_peak_words(peak))),
    )
    panels.formula_check(info, done.kv_tokens, done.kv_bytes)
    unseen = "peak_none" if done.peak is None else "peak_hidden"
    says = t(f"traits.{unseen}") if peak is None else t("traits.peak_says", **_peak_words(peak))
    st.caption(f"{says}  \n{_recorded(view, info, done)}".rstrip())


def _hidden(done: PrefillTrace, peak: WorkPeak) -> bool:
    """Whether the resident set rose by less than was surely written: that then lies in memory which the process had kept from before."""
    return peak.source == "resident" and peak.peak_bytes - peak.before_bytes < done.kv_bytes + done.recorded_bytes


def _recorded(view: RunView, info: ModelInfo, done: PrefillTrace) -> str:
    """What drawing maps costs in memory, or in time where the queries were too many to be kept; nothing where none are drawn."""
    if done.recorded_bytes:
        return t("traits.recorded", size=numbers.mebibytes(done.recorded_bytes))
    return t("traits.unrecorded") if view.settings.capture_attention and info.attention_reason is None else ""


def _peak_words(peak: WorkPeak) -> dict[str, str]:
    sizes = {"before": numbers.mebibytes(peak.before_bytes), "peak": numbers.mebibytes(peak.peak_bytes)}
    return sizes | {"source": t(f"traits.source_{peak.source}")}


def _ttft(done: PrefillTrace) -> None:
    _says("ttft")
    share = f"{done.prefill_s / done.ttft_s:.0%}" if done.ttft_s else numbers.NOTHING
    _row(
        "ttft",
        Figure(t("traits.ttft_total"), milliseconds(done.ttft_s), "measured", t("shell.ttft_help")),
        Figure(t("traits.ttft_share"), share, "measured", t("traits.ttft_share_help")),
    )
    parts: dict[str, tuple[float, Role]] = {  # in their colours on the clock
        "queue": (done.queue_s, "template"),
        "template": (done.template_s, "template"),
        "tokenize": (done.tokenize_s, "good"),
        "prefill": (done.prefill_s, "prompt"),
        "sample": (done.sample_s, "answer"),
    }
    scale([Row(t(f"traits.part_{name}"), seconds, milliseconds(seconds), role) for name, (seconds, role) in parts.items()])


def _says(trait: str) -> None:
    """A trait's name and its one paragraph."""
    panels.card_title(t(f"traits.{trait}"))
    st.markdown(t(f"traits.{trait}_says"))


def _row(trait: str, *items: Figure) -> None:
    """Numbers inside a card, each with its evidence tag."""
    with st.grid(len(items), min_column_width=190):
        for number, item in enumerate(items):
            with st.container(key=f"trait_{trait}_{number}", gap="xxsmall"):
                st.metric(item.label, item.value, help=item.help)
                if item.value != numbers.NOTHING:
                    st.markdown(panels.badge(item.evidence))
