"""The step on screen as it would be without the notes: tokens pushed through the model and arithmetic, both counted.

Knows a run's snapshot and the words; knows no time that was not measured: what the step would have taken is not guessed.
"""

from __future__ import annotations

from dataclasses import dataclass

import streamlit as st

from engine.errors import EngineError
from engine.measure import flops
from engine.trace import ModelInfo, RunView
from ui import failures, literal, looking, panels
from ui.numbers import milliseconds
from ui.scale import Row, scale
from ui.sections.traits import operations
from ui.state import t

NAME_MOST = 24  # characters of a token in a sentence


@dataclass(frozen=True, slots=True)
class StepWork:
    """Floating-point operations of writing one token behind `context` tokens, or of several such steps."""

    context: int
    with_notes: int
    without: int

    @property
    def factor(self) -> float:
        return self.without / self.with_notes


def work_of(info: ModelInfo, context: int) -> StepWork:
    """One decode step that reads `context` tokens, its own included, against one pass over all of them.

    Raises UnsupportedConfig where the model's numbers do not tell.
    """
    return StepWork(context, flops.decode_flops(info, context), flops.prefill_flops(info, context))


def work_until(info: ModelInfo, prompt: int, steps: int) -> StepWork:
    """The reading of the prompt and `steps` decode steps, against reading everything anew for each token. Raises UnsupportedConfig."""
    read = flops.prefill_flops(info, prompt)
    each = [work_of(info, prompt + number) for number in range(1, steps + 1)]
    return StepWork(prompt + steps, read + sum(one.with_notes for one in each), read + sum(one.without for one in each))


def show(view: RunView, index: int | None) -> None:
    """Draw the section for the step that wrote generated token `index`."""
    still = not looking.moving(view)
    with panels.slot():
        if still and (index is None or view.prefill is None or view.model is None):
            return
        with panels.card("without"):
            panels.card_title(t("without.title"), "computed" if still and index else None, t("without.note"))
            if index is None or view.prefill is None or view.model is None or not still:
                st.caption(f":material/hourglass_empty: {t('without.moving')}")
            elif index == 0:
                st.markdown(t("without.first", tokens=f"{view.prefill.prompt_tokens:,}"))
            else:
                _compare(view, view.model, index)


def _compare(view: RunView, info: ModelInfo, index: int) -> None:
    step = view.steps[index - 1]
    try:
        now, all_of_it = work_of(info, step.kv_tokens), work_until(info, len(view.tokens), index)
    except EngineError as error:
        st.info(failures.explain(error.info), icon=":material/visibility_off:")
        return
    written = failures.code_span(literal.short(step.token.text, step.token.raw, NAME_MOST))
    st.markdown(t("without.says", token=written, context=f"{now.context:,}", others=f"{now.context - 1:,}", factor=times(now.factor)))
    _pair("tokens", (1, "1"), (now.context, f"{now.context:,}"))
    _pair("flops", (now.with_notes, operations(now.with_notes)), (now.without, operations(now.without)))
    st.markdown(f"{t('without.cost', time=milliseconds(step.busy_s))} {panels.badge('measured')}")
    total = {"with_notes": operations(all_of_it.with_notes), "without": operations(all_of_it.without), "factor": times(all_of_it.factor)}
    st.caption(t("without.so_far", tokens=f"{index + 1:,}", **total))


def _pair(name: str, with_notes: tuple[int, str], without: tuple[int, str]) -> None:
    """Two bars over the width of the card, so that the small one can be told from nothing."""
    with st.container(gap="xxsmall"):
        st.caption(t(f"without.{name}"))
        scale([Row(t("without.with"), *with_notes, "notes"), Row(t("without.without"), *without, "template")])


def times(factor: float) -> str:
    """27.94 → "28", 1.53 → "1.5"."""
    return f"{factor:,.1f}" if factor < 10 else f"{factor:,.0f}"
