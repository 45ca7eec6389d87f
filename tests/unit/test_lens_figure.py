"""The logit lens as pictures: where the answer firms up, one cell per guess whatever the tokens are called."""

from __future__ import annotations

import pytest

from engine.findings import LensRow
from engine.trace import Candidate
from ui import theme
from ui.figures import lens

WORDS = {"layer": "layer", "probability": "probability", "rank": "place", "guess": "guesses", "firm": "first choice"}


def guess(number: int, text: str, probability: float, raw: bytes | None = None) -> Candidate:
    return Candidate(number, text.encode() if raw is None else raw, text, probability, 0.0)


def row(layer: int, rank: int, *texts: str) -> LensRow:
    """The picked token has id 7 and stands at place `rank`."""
    ids = [7 if at == rank else 100 + at for at in range(len(texts))]
    chances = [0.5 / (at + 1) for at in range(len(texts))]
    candidates = tuple(guess(*parts) for parts in zip(ids, texts, chances, strict=True))
    return LensRow(layer, candidates, rank, chances[rank] if rank < len(chances) else 0.001)


def rows_of(*ranks: int) -> list[LensRow]:
    return [row(layer, rank, *"abcde") for layer, rank in enumerate(ranks)]


@pytest.mark.parametrize(
    ("ranks", "firm"), [((3, 0, 1, 0, 0), 3), ((0, 0, 0), 0), ((9, 9, 0), 2), ((0, 0, 1), None), ((0,), 0), ((4,), None)]
)
def test_the_answer_is_firm_where_it_stays_the_first_choice(ranks: tuple[int, ...], firm: int | None) -> None:
    assert lens.firm_from(rows_of(*ranks)) == firm


@pytest.mark.parametrize("kind", ["light", "dark"])
def test_equal_guesses_keep_cells_of_their_own(kind: str) -> None:
    rows = [row(layer, 0, " the", " the", "1", "2024-01-01", "1e1") for layer in range(5)]
    figure = lens.guesses(rows, 7, theme.palette(kind), WORDS)
    heat = figure.data[0]
    assert (len(heat.z), len(heat.z[0])) == (5, lens.GUESSES)
    assert list(heat.y) == [0, 1, 2, 3, 4]
    assert list(heat.text[2]) == ["·the 50%", "·the 25%", "1 17%"]
    assert figure.layout.xaxis.type == figure.layout.yaxis.type == "linear"
    assert figure.layout.yaxis.range[0] < figure.layout.yaxis.range[1], "the first layer lies below, as in the picture of the reading"


def test_only_the_picked_tokens_cells_are_framed() -> None:
    figure = lens.guesses(rows_of(4, 2, 0), 7, theme.LIGHT, WORDS)
    framed = {(round((box.x0 + box.x1) / 2), round((box.y0 + box.y1) / 2)) for box in figure.layout.shapes}
    assert framed == {(2, 1), (0, 2)}, "place 4 of layer 0 is not drawn"


def test_the_climb_has_every_layers_own_probability_and_place() -> None:
    rows = rows_of(3, 1, 0, 0)
    figure = lens.climb(rows, theme.LIGHT, WORDS)
    chance, place = figure.data
    assert list(chance.x) == list(place.x) == [0, 1, 2, 3]
    assert list(chance.y) == [each.probability for each in rows]
    assert list(place.y) == [4, 2, 1, 1], "places are counted from 1"
    assert figure.layout.yaxis2.type == "log"
    assert figure.layout.yaxis2.range[0] > figure.layout.yaxis2.range[1], "the first place is on top"
    assert len(set(chance.marker.color)) == 2, "a layer that already chooses it looks different without any hover"
    assert min(shape.x0 for shape in figure.layout.shapes) == 1.5
    never = lens.climb(rows_of(0, 0, 2), theme.LIGHT, WORDS)
    assert not never.layout.shapes
    assert not never.layout.annotations


def test_guesses_are_literal() -> None:
    assert lens.name(guess(1, "<b>&amp;</b>", 0.1), 40) == "&lt;b&gt;&amp;amp;&lt;/b&gt;"
    assert lens.name(guess(1, '"', 0.1)) == '"'
    assert lens.name(guess(1, "", 0.1, b"\xe4\xbd")) == "E4 BD"
    assert lens.name(guess(1, " a\n", 0.1)) == "·a↵"
    assert len(lens.name(guess(1, "x" * 99, 0.1))) == lens.NAME_MOST
