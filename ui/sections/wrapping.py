"""What was added to the reader's words: text as typed, with the template, as ids.

Knows a run's snapshot and the words; does not know which page it stands on. All is read from the tokens that were really sent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby

import streamlit as st

from engine.trace import ModelInfo, RunView, Token
from ui import asking, panels, state
from ui.components.wrapping import Part, wrapping
from ui.failures import code_span
from ui.state import t

# What looks like the name of a control token in the families that can be chosen.
_CONTROL = re.compile(r"<\|[^\s<>|]{1,40}\|>|<(?:/?s|bos|eos|pad|unk|start_of_turn|end_of_turn)>")
MOST_NAMED = 16  # ids of one typed name that are written in full


def show(view: RunView) -> None:
    """Draw the section."""
    with panels.card("wrapping"):
        here = bool(view.tokens) and view.model is not None
        panels.card_title(t("wrapping.title"), "measured" if here else None, t("wrapping.note"))
        if not view.tokens or view.model is None:
            st.caption(f":material/hourglass_empty: {t('wrapping.waiting')}")
            return
        system = system_prompt(view, view.model)
        wrapping(parts=tuple(parts(view.tokens, system)), tokens=view.tokens, labels=state.labels("wrapping"), key="wrapping_stages")
        st.markdown(_explained(view, view.model, system))
        _switches(view, view.model, system)
        _typed_controls(view.tokens)


def system_prompt(view: RunView, info: ModelInfo) -> str:
    """The system prompt that this run was given: the reader's own, the template's, or none ("")."""
    if not view.settings.use_chat_template:
        return ""
    return info.default_system_prompt if view.settings.system_prompt is None else view.settings.system_prompt


def parts(tokens: Sequence[Token], system: str) -> Iterator[Part]:
    """The prompt in stretches of one author, their bytes joined; control tokens stand alone. The system prompt is told apart once."""
    left = system.strip().encode()
    for (kind, special), group in groupby(tokens, key=lambda token: (token.kind, token.special)):
        raw = b"".join(token.raw for token in group)
        if kind == "prompt":
            yield Part(raw, "prompt", special)
            continue
        at = raw.find(left) if left and not special else -1
        if at < 0:
            yield Part(raw, "template", special)
            continue
        before, after = raw[:at], raw[at + len(left) :]
        if before:
            yield Part(before, "template")
        yield Part(left, "system")
        if after:
            yield Part(after, "template")
        left = b""


def _explained(view: RunView, info: ModelInfo, system: str) -> str:
    typed = sum(token.kind == "prompt" for token in view.tokens)
    if not view.settings.use_chat_template:
        return t("tokenize.raw" if info.has_chat_template else "wrapping.base")
    told = t("tokenize.template", typed=f"{typed:,}", template=f"{len(view.tokens) - typed:,}")
    if not system:
        return f"{told}\n\n{t('wrapping.no_system')}"
    whose = "default_system" if view.settings.system_prompt is None else "own_system"
    return f"{told}\n\n{t('wrapping.' + whose, system=code_span(system))}"


def _switches(view: RunView, info: ModelInfo, system: str) -> None:
    """The same question once more, with or without what is put around it."""
    if not info.has_chat_template:
        return
    templated = view.settings.use_chat_template
    with st.container(horizontal=True, key="wrapping_again"):
        if system:
            _again(view, "without_system", True, False)
        elif templated and (info.default_system_prompt or str(state.get(state.SYSTEM_TEXT)).strip()):
            _again(view, "with_system", True, True)
        if templated:
            _again(view, "without_template", False, bool(state.get(state.SYSTEM_ON)))
        else:
            _again(view, "with_template", True, bool(state.get(state.SYSTEM_ON)))


def _again(view: RunView, name: str, template: bool, system: bool) -> None:
    args = (view.prompt, template, system)
    st.button(t(f"wrapping.{name}"), key=f"wrapping_{name}", icon=":material/replay:", on_click=_ask_again, args=args)


def _ask_again(question: str, template: bool, system: bool) -> None:
    """The sidebar then shows the switches as they were set here."""
    state.put(state.TEMPLATE, template)
    state.put(state.SYSTEM_ON, system)
    asking.start_run(question)


def _typed_controls(tokens: Sequence[Token]) -> None:
    """A reader who typed the name of a control token sees that it stayed text."""
    own = [token for token in tokens if token.kind == "prompt"]
    text = b"".join(token.raw for token in own).decode(errors="replace")
    found = _CONTROL.search(text)
    if found is None or any(token.special for token in own):
        return
    ids = covering(own, len(text[: found.start()].encode()), len(text[: found.end()].encode()))
    listed = ", ".join(map(str, ids[:MOST_NAMED])) + (" …" if len(ids) > MOST_NAMED else "")
    real = next((token.id for token in tokens if token.special and token.text == found[0]), None)
    told = t("wrapping.control", name=code_span(found[0]), ids=listed)
    st.info(told if real is None else f"{told}\n\n{t('wrapping.control_real', id=real)}", icon=":material/shield:")


def covering(tokens: Sequence[Token], start: int, end: int) -> list[int]:
    """The ids of the tokens that hold the bytes from `start` to `end`."""
    ids, at = [], 0
    for token in tokens:
        if at < end and at + len(token.raw) > start:
            ids.append(token.id)
        at += len(token.raw)
    return ids
