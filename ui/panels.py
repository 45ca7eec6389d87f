"""Pieces that every page shares: head, numbers with their evidence, predict-then-check, how it is done, how a run ended.

Knows how things are said and framed; does not know which page uses them.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from engine.errors import EngineError, ErrorInfo
from engine.trace import ModelInfo, RunStatus, RunView, room_left
from ui import asking, channel, ends, handout, navigation, numbers, state
from ui.failures import code_span, explain
from ui.numbers import Evidence, Figure
from ui.state import t

ROOT = Path(__file__).resolve().parent.parent
READY_MOST = 300  # characters of a question that waits to be begun
EVIDENCE_LOOK: Mapping[Evidence, tuple[str, str]] = {
    "measured": ("green", ":material/straighten:"),
    "computed": ("blue", ":material/function:"),
    "illustrative": ("gray", ":material/draw:"),
}


def head(page: str) -> None:
    """Title and the one sentence of story."""
    with st.container(gap="xsmall", key="head"):
        st.title(t(f"{page}.title"), anchor=False)
        st.markdown(t(f"{page}.story"))


def card(name: str, *, stretch: bool = False) -> DeltaGenerator:
    """A sheet of paper on the desk: what belongs together. `name` is unique on a page."""
    return st.container(border=True, key=f"card_{name}", height="stretch" if stretch else "content")


def slot() -> DeltaGenerator:
    """A place for what is there only at times. What stands below keeps its own place, so the browser does not build it anew when
    something comes or goes here. An empty one takes no room."""
    return st.container()


def badge(evidence: Evidence) -> str:
    """The evidence tag as it stands in a label."""
    colour, icon = EVIDENCE_LOOK[evidence]
    return f":{colour}-badge[{icon} {t('shell.' + evidence)}]"


def figures(items: Sequence[Figure]) -> None:
    """A row of numbers, each with its evidence tag."""
    with st.grid(len(items), min_column_width=150):
        for number, item in enumerate(items):
            with st.container(border=True, key=f"card_figure_{number}", height="stretch", gap="xxsmall"):
                st.metric(item.label, item.value, help=item.help)
                if item.value not in (numbers.NOTHING, numbers.UNTOLD):
                    st.markdown(badge(item.evidence))


def card_title(text: str, evidence: Evidence | None = None, note: str = "", *, anchor: str = "") -> None:
    """The heading inside a framed picture, with its evidence tag and a short note. `anchor`: what a link of the page leads to."""
    parts = [f"**{text}**", badge(evidence) if evidence else "", f":gray[:small[{note}]]" if note else ""]
    with st.container(gap=None) if anchor else nullcontext():
        if anchor:
            st.html(f'<span id="{anchor}" style="scroll-margin-top: 5rem"></span>')
        st.markdown("\u2002".join(part for part in parts if part))


def recording() -> None:
    """On top of every page: that what it shows is a recording, where and when it was made, and the way to an exam of one's own."""
    view = state.current_view()
    with slot():
        if view is not None and view.recording and view.model is not None:
            made = {name: code_span(value) for name, value in handout.origin_words(view.created, view.model).items()}
            with st.container(key="recording"):
                st.info(t("records.banner", **made, replay=t("shell.replay")), icon=":material/smart_display:")
                words, icon = t("records.ask_anew"), ":material/ink_pen:"
                st.button(words, key="ask_anew", icon=icon, on_click=asking.start_run, args=(view.prompt,), type="tertiary")


def notice() -> None:
    """What went wrong since the last picture, once."""
    info = state.take_notice()
    with slot():
        if info is not None:
            st.warning(explain(info), icon=":material/error:")


def ending(view: RunView, *, told: bool = False) -> None:
    """How the run ended, in exam words, and what went wrong if anything did. `told`: the answer sheet has said the first already."""
    if view.status != RunStatus.ENDED or view.stop_reason is None:
        return
    if view.error is not None and view.error.code == "unwatched":  # no accident
        if not told:
            st.caption(f":material/notifications: {explain(view.error)}")
    elif view.error is not None:
        told_as = t("endings.power_machine") if ends.name_of(view) == "power" else explain(view.error)
        st.error(told_as, title=t(f"stops.{ends.sentence(view)}"), icon=":material/error:")
    elif not told:
        st.caption(f":material/notifications: {t(f'stops.{ends.sentence(view)}')}")


def window_on_run(page: str) -> RunView | None:
    """The current run, or None after an invitation to start one: what a page does first."""
    view = state.current_view()
    if view is None:
        own = str(state.get(state.QUESTION) or "")  # of a link, or written before this page was opened
        name, question = ("empty_own", own) if own.strip() else ("empty_button", t("home.example_1"))
        with card(f"empty_{page}"), st.container(horizontal_alignment="center"):
            st.markdown(t("shell.empty_title"), text_alignment="center")
            st.button(
                t(f"shell.{name}"), key=f"empty_{page}", type="primary", icon=":material/play_arrow:",
                on_click=asking.start_run, args=(question,),
            )  # fmt: skip
            st.text(question if len(question) <= READY_MOST else question[: READY_MOST - 1] + "…", width="content")
    return view


def live(view: RunView | None) -> dict[str, Any]:
    """The arguments by which every live component finds the run."""
    return {"run_id": view.run_id if view else None, "path": channel.path_of(view.run_id if view else None), "cursor": state.cursor()}


def predict(page: str, options: Sequence[str], truth: str | None, measured: str) -> bool:
    """Predict, then check: a guess, and what the live run says (`truth` None: it has not said yet). Gives whether there is a guess."""
    with card("predict"):
        st.markdown(f"**{t('shell.predict')}** · {t(f'{page}.guess')}")
        guess = st.segmented_control(
            t(f"{page}.guess"),
            options,
            format_func=state.names(f"{page}.guess_"),
            key=state.GUESS + page,
            label_visibility="collapsed",
            persist_state="session",
        )
        if guess is None:
            return False
        if truth is None:
            st.caption(f":material/hourglass_empty: {t('shell.predict_wait')}")
        else:
            verdict = "right" if guess == truth else "wrong"
            icon = ":material/check_circle:" if guess == truth else ":material/lightbulb:"
            st.markdown(f"{icon} **{t('shell.predict_' + verdict)}** {measured} {badge('measured')}")
        return True


def how(page: str, *pieces: tuple[str, str]) -> None:
    """How it is done: the engine's own lines, `(file, function or Class.method)`, read when the box is opened."""
    box = st.expander(t("shell.how"), icon=":material/code:", key=f"how_{page}", on_change="rerun")
    if box.open:
        with box:
            st.markdown(t(f"{page}.how"))
            for file, name in pieces:
                st.caption(f"`{file}` · `{name}`")
                st.code(source(file, name), language="python", wrap_lines=True)


def source(file: str, name: str) -> str:
    """The lines of one function or method, as they stand in the project's file (parsed, never run)."""
    text = (ROOT / file).read_text(encoding="utf-8")
    node: ast.AST = ast.parse(text)
    for part in name.split("."):
        body: list[ast.stmt] = getattr(node, "body", [])
        node = next(child for child in body if getattr(child, "name", None) == part)
    lines = text.splitlines()[getattr(node, "lineno", 1) - 1 : getattr(node, "end_lineno", 1)]
    indent = len(lines[0]) - len(lines[0].lstrip())
    return "\n".join(line[indent:] for line in lines)


def script_failed(error: Exception) -> bool:
    """Last resort for anything a page did not foresee: a sentence instead of a traceback (the server's log has the traceback)."""
    info = error.info if isinstance(error, EngineError) else ErrorInfo("internal")
    st.error(explain(info), icon=":material/error:")
    return True


def go_on(page: str) -> None:
    """The link to the next station."""
    navigation.link(page, t(f"shell.next_{page}"), icon=":material/arrow_forward:")


def little_room(view: RunView) -> None:
    """Say, as soon as the tokens are known, that the answer may be cut short by the context: the model's, or this run's shorter one."""
    if view.model is None or not view.tokens or view.status == RunStatus.ENDED:
        return
    limit, own = view.settings.context_limit, view.model.context_length
    left, wanted = room_left(view.model, len(view.tokens), limit), view.settings.max_new_tokens
    if wanted > left:
        key, context = ("endings.little_desk", limit) if limit is not None and limit < own else ("shell.little_room", own)
        places = {"context": context, "tokens": len(view.tokens), "left": left, "wanted": wanted}
        st.warning(t(key, **{name: f"{count:,}" for name, count in places.items()}), icon=":material/straighten:")


def formula_check(info: ModelInfo, tokens: int, measured_bytes: int) -> None:
    """The formula with its numbers, and whether the tensors agree with it."""
    equal = numbers.formula_bytes(info, tokens) == measured_bytes
    icon, verdict = (":material/check:", "agree") if equal else (":material/difference:", "differ")
    st.markdown(f"{icon} {t('shell.formula_' + verdict, formula=numbers.formula_words(info, tokens), measured=f'{measured_bytes:,} B')}")
