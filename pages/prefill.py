"""Station 2: the whole paper in one reading; notes are taken, the first token is read off."""

import streamlit as st

from engine.errors import EngineError
from ui import failures, inputs, numbers, panels, state
from ui.components.candidates import candidates
from ui.components.clock import clock
from ui.components.token_strip import token_strip
from ui.figures import attention
from ui.state import t

panels.head("prefill")
view = panels.window_on_run("prefill")
if view is None:
    st.stop()

# 1 · the paper
with panels.card("strip"):
    panels.card_title(t("prefill.strip"), "measured", t("prefill.strip_note"))
    token_strip(**panels.live(view), show="prompt", tokens=None, labels=state.labels("token_strip"), key="prefill_strip")
if view.prefill is None or view.model is None:
    st.caption(f":material/hourglass_empty: {t('prefill.waiting')}")
    panels.ending(view)
    st.stop()

# 2 · who reads whom, and what came of it
left, right = st.columns([3, 2])
with right, panels.card("heads"):
    panels.card_title(t("prefill.head"), None, t("prefill.head_note", group=view.model.shape.group_size))
    layer, head = inputs.layer_and_head(view.model.shape)
    st.caption(t("prefill.gloss"))
with left, panels.card("map", stretch=True):
    name = t("prefill.mean") if head is None else t("prefill.head_n", head=head)
    panels.card_title(t("prefill.map"), "measured", t("prefill.map_note", layer=layer, head=name))
    try:
        weights = state.attention_map(view, layer, head, attention.MOST_TOKENS)
    except EngineError as error:
        st.info(failures.explain(error.info), icon=":material/visibility_off:")
    else:
        span = attention.window(weights)
        words = {key: t(f"prefill.axis_{key}") for key in ("query", "key", "weight")}
        figure = attention.attention_map(weights, view.tokens, state.palette(), words)
        st.markdown(panels.strongest_link(weights, view.tokens))
        st.plotly_chart(
            figure, theme=None, key="attention", config={"displayModeBar": False}, alt=t("prefill.alt", layer=layer, head=name, n=len(span))
        )
        if span.start:
            share = f"{attention.hidden_share(weights, span):.0%}"
            st.caption(t("prefill.hidden", hidden=span.start, shown=len(span), share=share))
        across, down = attention.label_steps(span, min(len(weights), len(span)))
        if across > 1 or down > 1:
            st.caption(t("prefill.thinned", columns=across, rows=down))
with right:
    with panels.card("first"):
        panels.card_title(t("prefill.first"), "measured", t("prefill.first_note"))
        candidates(**panels.live(view) | {"cursor": 0}, labels=state.labels("candidates"), key="prefill_candidates")
    st.caption(t("prefill.reading"))

# 3 · predict, then check
done = view.prefill
parts = {"queue": done.queue_s, "tokenize": done.template_s + done.tokenize_s, "pass": done.prefill_s, "sample": done.sample_s}
longest = max(parts, key=parts.__getitem__)
check = t("prefill.check", **{name: numbers.milliseconds(value) for name, value in parts.items()})
panels.predict("prefill", tuple(parts), longest, check)

# 4 · the first-token wait, to scale
with panels.card("clock"):
    panels.card_title(t("prefill.clock"), "measured", t("prefill.clock_note"))
    clock(**panels.live(view), labels=state.labels("clock"), key="prefill_clock")

# 5 · the numbers
each_s = done.prefill_s / done.prompt_tokens
panels.figures(
    [
        numbers.Figure(t("shell.ttft"), numbers.milliseconds(done.ttft_s), "measured", t("shell.ttft_help")),
        numbers.Figure(t("prefill.pass"), numbers.milliseconds(done.prefill_s), "measured", t("prefill.pass_help")),
        numbers.Figure(t("prefill.per_token"), numbers.milliseconds(each_s), "computed", t("prefill.per_token_help")),
        numbers.Figure(t("prefill.kv"), numbers.mebibytes(done.kv_bytes), "measured", numbers.in_full(done.kv_bytes)),
        numbers.kv_formula(view.model, done.kv_tokens),
    ]
)
panels.formula_check(view.model, done.kv_tokens, done.kv_bytes)

panels.how("prefill", ("engine/generate/prefill.py", "read_prompt"), ("engine/kv/sizes.py", "kv_bytes"))
panels.go_on("decode")
