"""Two runs side by side whose beginnings are the same: what a token reads cannot depend on what comes after it.

Knows the two sentences, their runs and what was found in them; does not know which page it stands on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
import streamlit as st

from engine.errors import EngineError, RemoteError, RunFreed, RunUnknown
from engine.trace import RunSettings, RunStatus, RunView, Token
from ui import asking, failures, linking, literal, panels, resources, scale, state
from ui.components.pulse import pulse
from ui.components.token_strip import token_strip
from ui.state import t

SENTENCES = (linking.ROLLED, linking.BROKE)  # the last word that reads in each is the one that decides
NOUNS = linking.ROLLED.read
READER = linking.ROLLED.reading[0]
Verdict = Literal["first", "second", "same"]
OPTIONS: tuple[Verdict, ...] = ("first", "second", "same")
SETTINGS = RunSettings(use_chat_template=False, max_new_tokens=1, capture_attention=True)
POLL_S = 0.4
NAME_WIDTH = 240  # of a bar, in pixels
ROUNDING = {"float32": 1e-4}  # largest difference of two weights that is no reading but rounding
COARSE_ROUNDING = 0.05


@dataclass(frozen=True, slots=True)
class Reading:
    """What is kept of one run. `row`: [layers, heads, keys], how its " it" reads; `nouns`: positions; `links`: one per noun."""

    tokens: tuple[Token, ...]
    row: np.ndarray
    nouns: tuple[int, ...]
    decider: Token
    links: tuple[linking.HeadLink | None, ...]
    model: str
    dtype: str


def show() -> None:
    """Draw the section: guess, then run both, then see why."""
    with panels.card("pair"):
        panels.card_title(t("pair.title"), None, t("pair.note"))
        st.markdown(t("pair.lead"))
        _sentences()
        st.markdown(f"**{t('shell.predict')}** · {t('pair.guess')}")
        guess = st.segmented_control(
            t("pair.guess"),
            OPTIONS,
            format_func=state.names("pair.guess_"),
            key=state.PAIR_GUESS,
            label_visibility="collapsed",
            persist_state="session",
        )
        if guess is not None:
            _check(guess)


def verdict(one: np.ndarray, other: np.ndarray, key: int, dtype: str) -> Verdict:
    """In which of two runs a token reads `key` more, by its strongest head. [layers, heads, keys] each; rounding is no difference."""
    if float(np.abs(one - other).max()) <= ROUNDING.get(dtype, COARSE_ROUNDING):
        return "same"
    return "first" if one[..., key].max() >= other[..., key].max() else "second"


def run_both() -> None:
    """Two short runs of the bare sentences that do not become the current one; a refusal becomes the notice of the next picture."""
    try:
        tickets = [asking.submit(example.sentence, SETTINGS) for example in SENTENCES]
    except EngineError as error:
        state.notify(error.info)
    else:
        state.put(state.PAIR_RUNS, tuple(ticket.run_id for ticket in tickets))


def _sentences() -> None:
    for column, example, option in zip(st.columns(2), SENTENCES, OPTIONS, strict=False):
        with column:
            st.caption(t(f"pair.{option}"))
            st.code(example.sentence, language=None, wrap_lines=True)


def _check(guess: Verdict) -> None:
    """What the two runs say to the guess; what they found is kept, the runs themselves need not be."""
    runs = state.get(state.PAIR_RUNS)
    if runs is None:
        st.button(t("pair.run"), key="pair_run", type="primary", icon=":material/play_arrow:", on_click=run_both)
        return
    try:
        found = state.remembered(state.PAIR_FOUND, runs, partial(_found, runs))
    except _Unfinished:
        st.fragment(_waiting)(runs)
        return
    except (RunUnknown, RunFreed):
        st.info(t("pair.gone"), icon=":material/replay:")
    except EngineError as error:
        st.error(failures.explain(error.info), icon=":material/error:")
    else:
        _told(guess, found)
    st.button(t("pair.again"), key="pair_run", icon=":material/replay:", on_click=run_both)


class _Unfinished(Exception):
    """At least one of the two is still on its way."""


def _found(runs: Sequence[str]) -> tuple[Reading, Reading] | None:
    """None: the tokenizer has cut the two so that they cannot be compared. Raises _Unfinished; EngineError when one of the runs failed
    or is no longer there."""
    views = [_view(run) for run in runs]
    for view in views:
        if view.error is not None:
            raise RemoteError(view.error)
    if not all(_over(view) for view in views):
        raise _Unfinished
    one, other = (_reading(view, example.reading[-1]) for view, example in zip(views, SENTENCES, strict=True))
    return None if one is None or other is None or _beginning(one) != _beginning(other) else (one, other)


def _view(run: str) -> RunView:
    """Looking at it keeps it. Raises RunUnknown."""
    view = resources.engine().view(run)
    if view is None:
        raise RunUnknown(run=run)
    resources.engine().touch(run)
    return view


def _over(view: RunView) -> bool:
    return view.status == RunStatus.ENDED


def _reading(view: RunView, decider: str) -> Reading | None:
    """None where the tokenizer has not kept the words as they are. Raises EngineError."""
    places = []
    for word in (READER, decider, *NOUNS):
        place = linking.place_of(view.tokens, word)
        if place is None:
            return None
        places.append(place)
    reader, at, *nouns = places
    engine = resources.engine()
    row = np.stack([engine.links(view.run_id, reader, key) for key in range(reader + 1)], axis=-1)
    best = [next(iter(linking.strongest(engine.links(view.run_id, at, noun), 1)), None) for noun in nouns]
    assert view.model is not None
    return Reading(view.tokens, row, tuple(nouns), view.tokens[at], tuple(best), view.model.name, view.model.dtype)


def _waiting(runs: Sequence[str]) -> None:
    """Where both stand, until both have ended; then the whole page is drawn once."""
    try:
        views = [_view(run) for run in runs]
    except EngineError:
        st.rerun()
    if all(_over(view) for view in views):
        st.rerun()
    status = resources.engine().model_status(views[0].model_id, views[0].device)
    for view, option in zip(views, OPTIONS, strict=False):
        loading = status.state == "loading" and view.status == RunStatus.QUEUED
        words = t(f"shell.stage_{status.stage or 'waiting'}") if loading else t(f"pair.is_{'over' if _over(view) else view.status}")
        st.caption(f":material/hourglass_empty: {t('pair.' + option)}: {words}")
    pulse(key="pair_pulse", every_s=POLL_S)


def _told(guess: Verdict, found: tuple[Reading, Reading] | None) -> None:
    """The verdict with its number, both rows, the words that decide, and why."""
    if found is None:
        st.info(t("pair.cut_apart"), icon=":material/info:")
        return
    one, other = found
    truth = verdict(one.row, other.row, one.nouns[0], one.dtype)
    icon, answer = (":material/check_circle:", "right") if guess == truth else (":material/lightbulb:", "wrong")
    st.markdown(f"{icon} **{t('shell.predict_' + answer)}** {_difference(one, other, truth)} {panels.badge('measured')}")
    head = linking.strongest(one.row[..., one.nouns[0]], 1)[0]
    longest = max((link.weight for reading in found for link in reading.links if link), default=1.0)
    for reading, option in zip(found, OPTIONS, strict=False):  # below each other: chip under equal chip
        _row(reading, head, option)
    for column, reading in zip(st.columns(2, gap="large"), found, strict=True):
        with column, st.container(gap="xsmall"):
            _deciding(reading, longest)
    st.markdown(t("pair.why" if truth == "same" else "pair.why_not"))
    made_by = t("pair.made_by", model=failures.code_span(failures.without_folders(one.model)), dtype=one.dtype)
    st.markdown(f":gray[:small[{made_by}]] {panels.badge('measured')}")


def _beginning(reading: Reading) -> list[int]:
    """The ids up to and with " it"."""
    return [token.id for token in reading.tokens[: reading.row.shape[-1]]]


def _difference(one: Reading, other: Reading, truth: Verdict) -> str:
    """What was measured over all layers, heads and keys, and what it means in this precision."""
    most = float(np.abs(one.row - other.row).max())
    layers, heads, keys = one.row.shape
    places = {"count": f"{layers * heads * keys:,}", "layers": layers, "heads": heads, "keys": keys, "most": f"{most:.6f}" if most else "0"}
    kind = "differs" if truth != "same" else "equal" if most == 0 else "rounding"
    return t(f"pair.{kind}", **places, dtype=one.dtype)


def _row(reading: Reading, head: linking.HeadLink, option: Verdict) -> None:
    """How " it" reads in one head, over the tokens that both sentences share."""
    st.markdown(t("pair.row", which=t(f"pair.{option}"), head=t("links.head", layer=head.layer, head=head.head)))
    weights = reading.row[head.layer, head.head]
    token_strip(
        **panels.live(None),
        tokens=reading.tokens,
        weights=[float(weight) for weight in weights],
        reader=len(weights) - 1,
        labels=state.labels("token_strip"),
        key=f"pair_strip_{option}",
    )


def _deciding(reading: Reading, longest: float) -> None:
    """The word that decides, and where it reads each noun most."""
    word = failures.code_span(literal.visible(reading.decider.text, reading.decider.raw))
    st.markdown(t("pair.deciding", word=word))
    for noun, link in zip(NOUNS, reading.links, strict=True):
        weight = link.weight if link else 0.0
        where = t("links.head", layer=link.layer, head=link.head) if link else t("pair.nowhere")
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.markdown(t("pair.to", noun=noun, where=where), width=NAME_WIDTH)
            scale.bar(weight / longest, f"{weight:.3f}")
