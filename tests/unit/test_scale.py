"""Bars to one scale: the largest fills the room, equal names stay apart, words are literal."""

from __future__ import annotations

import re

import pytest
import streamlit as st

from ui import state, theme
from ui.scale import Row, bar, scale


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    pages: list[str] = []
    monkeypatch.setattr(state, "palette", lambda: theme.LIGHT)
    monkeypatch.setattr(st, "html", lambda body, **_: pages.append(body))
    return pages


def widths(body: str) -> list[float]:
    return [float(width) for width in re.findall(r"[;\"]width:([\d.]+)%", body)]


def test_bars_share_one_scale_and_equal_names_stay_apart(drawn: list[str]) -> None:
    scale([Row("x", 1.0, "1 s", "prompt"), Row("x", 4.0, "4 s", "answer")])
    assert widths(drawn[0]) == [25.0, 100.0]
    assert drawn[0].count(">x</span>") == 2
    assert drawn[0].index(theme.LIGHT.prompt) < drawn[0].index(theme.LIGHT.answer), "the first lies on top"


def test_nothing_is_no_bar_and_zero_is_one_without_length(drawn: list[str]) -> None:
    scale([Row("a", 0.0, "0 ms", "good"), Row("b", None, "to come", "prompt")])
    assert widths(drawn[0]) == [0.0]
    assert "dashed" in drawn[0].partition(">b</span>")[2]


def test_names_and_words_are_literal(drawn: list[str]) -> None:
    scale([Row("<b>&amp;", 1.0, "<i>", "notes")])
    assert "&lt;b&gt;&amp;amp;" in drawn[0]
    assert "<b>" not in drawn[0]
    assert "<i>" not in drawn[0]


@pytest.mark.parametrize(("share", "width"), [(0.25, 25.0), (1.0, 100.0), (1.5, 100.0), (-0.1, 0.0), (0.0, 0.0)])
def test_one_bar_of_a_list_stands_in_a_room_that_others_set(drawn: list[str], share: float, width: float) -> None:
    bar(share, "0.125")
    assert widths(drawn[0]) == [width]
    assert theme.LIGHT.notes in drawn[0]
    assert ">0.125</span>" in drawn[0]
    assert "<span></span>" not in drawn[0], "no name, no room for one"
