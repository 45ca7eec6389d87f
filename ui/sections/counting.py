"""Counts of a text, and one sentence in two languages side by side.

Knows a run's snapshot and the words; does not know which page it stands on.
"""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from engine.errors import EngineError
from engine.findings import TextCut
from engine.trace import RunView
from ui import looking, numbers, panels, state
from ui.components.token_strip import token_strip
from ui.failures import explain
from ui.numbers import Figure
from ui.scale import Role, Row, scale
from ui.state import t

LONGEST_SENTENCE = 400
ABOUT_THE_SAME = 1.2  # a smaller ratio of two counts says nothing about a language
HARDLY_LONGER, MUCH_LONGER = 1.5, 10  # times as long


def show(view: RunView) -> None:
    """Draw the section."""
    typed = sum(token.kind == "prompt" for token in view.tokens)
    characters = len(view.prompt)
    ratio = typed / characters if characters else 0.0
    truth = "few" if ratio < 0.5 else "near" if ratio <= 1 else "more"
    check = t("tokenize.check", tokens=f"{typed:,}", characters=f"{characters:,}", ratio=f"{ratio:.2f}")
    guessed = panels.predict("tokenize", ("few", "near", "more"), truth if typed else None, check)
    panels.figures(_figures(view, typed, ratio, guessed))
    _times(view)
    _pair(view)


def _figures(view: RunView, typed: int, ratio: float, guessed: bool) -> Sequence[Figure]:
    counts = f"{typed:,} + {len(view.tokens) - typed:,}" if view.tokens else numbers.NOTHING
    share = numbers.NOTHING if not typed else f"{ratio:.2f}" if guessed else numbers.UNTOLD
    return (
        Figure(t("tokenize.characters"), f"{len(view.prompt):,}", "measured", t("tokenize.characters_help")),
        Figure(t("tokenize.bytes"), f"{len(view.prompt.encode('utf-8', 'surrogatepass')):,}", "measured", t("tokenize.bytes_help")),
        Figure(t("tokenize.tokens"), counts, "measured", t("tokenize.tokens_help")),
        Figure(t("tokenize.ratio"), share, "computed", t("tokenize.ratio_help")),
        Figure(t("tokenize.time"), numbers.milliseconds(_cutting_s(view)), "measured", t("tokenize.time_help")),
    )


def _cutting_s(view: RunView) -> float | None:
    return view.prefill.template_s + view.prefill.tokenize_s if view.prefill else None


def _times(view: RunView) -> None:
    """Cutting beside reading, to scale. Before the reading there is only a cutting to be measured, once more."""
    with panels.card("times"):
        panels.card_title(t("counting.times"), "measured" if view.prefill else None, t("counting.times_note"))
        own_s = _cutting_s(view)
        if view.prefill is not None and own_s is not None:
            reading_s = view.prefill.prefill_s
            scale([_time("cutting", own_s, "good"), _time("reading", reading_s, "prompt")])
            if own_s > 0:
                st.markdown(compared(own_s, reading_s))
            return
        found = _cut(view, view.prompt, state.COUNT_SEEN) if view.tokens else None
        reading = Row(t("counting.reading"), None, t("counting.to_come"), "prompt")
        scale([_time("cutting_alone", found.tokenize_s if found else None, "good"), reading])


def _time(name: str, seconds: float | None, role: Role) -> Row:
    return Row(t(f"counting.{name}"), seconds, numbers.milliseconds(seconds), role)


def compared(cutting_s: float, reading_s: float) -> str:
    """What both times mean for the wait: that most of it is ahead is only said where reading takes MUCH_LONGER."""
    times = reading_s / cutting_s
    key = "near" if times < HARDLY_LONGER else "some" if times < MUCH_LONGER else "found"
    return t(f"counting.times_{key}", times=f"{times:,.0f}" if times >= MUCH_LONGER else f"{times:.1f}")


def _pair(view: RunView) -> None:
    """The same sentence in English and Chinese. Both fields belong to the reader and stay as they are in either language of the page."""
    with panels.card("sentences"):
        panels.card_title(t("counting.pair"), "measured" if view.tokens else None, t("counting.pair_note"))
        found: dict[str, tuple[str, TextCut]] = {}
        for (key, name), column in zip(((state.PAIR_EN, "english"), (state.PAIR_ZH, "chinese")), st.columns(2), strict=True):
            with column:
                text = _sentence(key, name)
                cut = _cut(view, text, key) if view.tokens else None
                if cut is not None:
                    found[name] = (text, cut)
                    st.markdown(_counted(text, cut))
                    token_strip(**panels.live(None), tokens=cut.tokens, labels=state.labels("token_strip"), key=f"{key}_strip")
        if len(found) == 2:
            _compare(*(len(cut.tokens) for _, cut in found.values()))
        elif not view.tokens:
            st.caption(f":material/hourglass_empty: {t('counting.waiting')}")


def _sentence(key: str, name: str) -> str:
    if state.get(key) is None:
        state.put(key, t(f"counting.sentence_{name}"))
    words = st.text_area(t(f"counting.{name}"), key=key, height=80, max_chars=LONGEST_SENTENCE, persist_state="session")
    return str(words or "")


def _cut(view: RunView, text: str, name: str) -> TextCut | None:
    try:
        return looking.cut(view, text, name)
    except EngineError as error:
        st.info(explain(error.info), icon=":material/info:")
        return None


def _counted(text: str, cut: TextCut) -> str:
    each = f"{len(cut.tokens) / len(text):.2f}" if text else numbers.NOTHING
    return t("counting.counted", characters=len(text), bytes=len(text.encode()), tokens=len(cut.tokens), each=each)


def _compare(english: int, chinese: int) -> None:
    """Both counts to scale, and the ratio in words."""
    counts = {"english": english, "chinese": chinese}
    scale([Row(t(f"counting.{name}"), count, t("counting.n_tokens", n=f"{count:,}"), "prompt") for name, count in counts.items()])
    if english and chinese:
        times = max(english, chinese) / min(english, chinese)
        key = "same" if times < ABOUT_THE_SAME else "more_chinese" if chinese > english else "more_english"
        st.markdown(t(f"counting.{key}", times=f"{times:.1f}"))
