"""The exam at a glance: one question, four stations, and something moving within one click."""

import streamlit as st

from engine.trace import RunStatus
from ui import inputs, model, navigation, numbers, panels, state
from ui.components.answer import answer
from ui.components.notes import notes
from ui.sections.shelf import examples
from ui.state import t

view = state.current_view()
summary = numbers.latency(view) if view else None

# 1 · the story
with st.container(gap=None, key="head"):
    st.markdown(f":red[**{t('home.eyebrow')}**]")
    st.title(t("home.title"), anchor=False)

# 2 · the paper: question in blue, answer in red, the notes beside it
with panels.card("paper"):
    times = t("home.times", ttft=numbers.milliseconds(summary.ttft_s), tpot=numbers.milliseconds(summary.tpot_s)) if summary else ""
    with st.container(key="paper_title"):
        panels.card_title(t("home.paper"), "measured" if summary else None, times)
    # Both pictures stand here from the start, at their full height: a question that begins moves nothing below.
    sheet, draft = st.columns([5, 4])
    asked = view.prompt if view else state.get(state.QUESTION) or t("home.example_1")
    words = state.labels("answer") | {"answer_none": t("home.press_play")}
    with sheet:
        answer(**panels.live(view), question=asked, labels=words, key="home_answer")
    with draft:
        notes(**panels.live(view), **numbers.notes_formula(view), labels=state.labels("notes"), key="home_notes")
    st.caption(t("home.tiny"))
with panels.slot():
    if view is not None:
        panels.little_room(view)
        panels.ending(view, told=True)

    if view is None and model.chosen_status().state in {"loading", "failed", "absent"}:  # something to see at once
        with panels.card("recordings"):
            st.markdown(t("records.waiting"))
            examples("home")

# 3 · ask
inputs.question()

# 4 · the four stations, with this run's numbers
prefill, steps = (view.prefill, view.steps) if view else (None, ())
stations = {
    "tokenize": t("home.did_tokenize", n=len(view.tokens), ms=numbers.milliseconds(prefill.tokenize_s)) if view and prefill else "",
    "prefill": t("home.did_prefill", n=prefill.prompt_tokens, ms=numbers.milliseconds(prefill.prefill_s)) if prefill else "",
    "decode": t("home.did_decode", n=len(steps) + 1, ms=numbers.milliseconds(summary.tpot_s)) if summary else "",
    "detokenize": t("home.did_detokenize", n=len(numbers.answer_text(view))) if view and prefill else "",
}
with st.grid(4, min_column_width=230):
    for key, did in stations.items():
        with panels.card(f"station_{key}", stretch=True):
            navigation.link(key, f"**{t('home.station_' + key)}**")
            st.markdown(t(f"home.about_{key}"))
            st.space("stretch")
            st.markdown(f"**{did}**" if did else f":gray[{t('home.not_yet')}]")
st.caption(t("home.branch"))

# 5 · predict, then check
ended = view is not None and view.status == RunStatus.ENDED and prefill is not None and bool(steps)
writing_s = sum(step.busy_s for step in steps)
reading_s = prefill.prefill_s if prefill else 0.0
panels.predict(
    "home",
    ("read", "write", "same"),
    ("same" if 0.8 < writing_s / max(reading_s, 1e-9) < 1.25 else "write" if writing_s > reading_s else "read") if ended else None,
    t("home.check", read=numbers.milliseconds(reading_s), write=numbers.milliseconds(writing_s)),
)
panels.how("home", ("engine/generate/stepper.py", "Stepper.advance"), ("engine/run.py", "Run.decode"))
