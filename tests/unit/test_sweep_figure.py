"""A sweep as a picture: every measurement is in it, and the parts of the curve stand apart."""

from __future__ import annotations

import pytest

from engine.sweep import SweepPoint
from ui import theme
from ui.figures.sweep import Curve, growth
from ui.sections.growth import span

NAMES = ("tokens", "seconds", "milliseconds", "each", "median", "curve", "straight", "square", "band")
WORDS = {name: name.upper() for name in NAMES}
POINTS = (SweepPoint(32, (0.2, 0.1, 0.3), (0.1, 0.1, 0.1)), SweepPoint(64, (4.0,), (3.0,)))
CURVE = Curve((32.0, 64.0), (0.2, 4.0), (0.2, 2.0), bends=True)


@pytest.mark.parametrize("palette", [theme.LIGHT, theme.DARK])
def test_all_measurements_and_all_parts_are_drawn(palette: theme.Palette) -> None:
    figure = growth(POINTS, CURVE, palette.prompt, (1.0, 3.0), palette, WORDS)
    drawn = {trace.name: trace for trace in figure.data}
    assert list(drawn) == ["STRAIGHT", "SQUARE", "CURVE", "EACH", "MEDIAN"]
    assert (drawn["EACH"].x, drawn["EACH"].y) == ((32, 32, 32, 64), (0.2, 0.1, 0.3, 4.0))
    assert (drawn["MEDIAN"].x, drawn["MEDIAN"].y) == ((32, 64), (0.2, 4.0))
    assert drawn["STRAIGHT"].line.dash == "dash", "not told apart by colour alone"
    assert (drawn["SQUARE"].fill, drawn["SQUARE"].y) == ("tonexty", (0.2, 4.0))
    assert drawn["STRAIGHT"].y == (0.2, 2.0)
    assert figure.layout.yaxis.title.text == "SECONDS"
    assert figure.layout.yaxis.range[1] > 4.0
    assert figure.layout.xaxis.title.text == "TOKENS"
    band = figure.layout.shapes[0]
    assert (band.y0, band.y1) == (1.0, 3.0)


def test_a_straight_curve_has_no_part_that_grows_with_the_square() -> None:
    straight = Curve((32.0, 64.0), (0.2, 0.4), (0.2, 0.4), bends=False)
    figure = growth(POINTS, straight, "#000000", (1.0, 3.0), theme.LIGHT, WORDS)
    assert [trace.name for trace in figure.data] == ["CURVE", "EACH", "MEDIAN"]
    assert [trace.name for trace in growth(POINTS, None, "#000000", (1.0, 3.0), theme.LIGHT, WORDS).data] == ["EACH", "MEDIAN"]


def test_short_times_are_in_milliseconds_and_the_band_is_drawn_where_it_is_in_reach() -> None:
    steps = (SweepPoint(32, (0.06, 0.07), (0.05, 0.06)),)
    figure = growth(steps, None, "#000000", (0.05, 0.1), theme.LIGHT, WORDS)
    assert figure.layout.yaxis.title.text == "MILLISECONDS"
    assert figure.data[0].y == pytest.approx((60, 70))
    assert figure.layout.shapes[0].y0 == 50
    quick = growth((SweepPoint(32, (0.01,), (0.01,)),), None, "#000000", (1.0, 3.0), theme.LIGHT, WORDS)
    assert not quick.layout.shapes, "far below it"
    assert (quick.layout.yaxis.title.text, quick.data[0].y) == ("MILLISECONDS", (10,))
    near = growth((SweepPoint(32, (0.9,), (0.9,)),), None, "#000000", (1.0, 3.0), theme.LIGHT, WORDS)
    assert near.layout.yaxis.title.text == "SECONDS", "the axis goes beyond one"
    assert near.layout.yaxis.range == (0, 1.25)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (1.684, "1.68 s"),
        (0.9999, "1 s"),
        (0.05, "50 ms"),
        (1.2e-3, "1.2 ms"),
        (3e-7, "300 ns"),
        (4.2e-5, "42 µs"),
        (0.0, "0 s"),
        (2e-12, "2 ps"),
        (1234.0, "1,234 s"),
        (0.99994e-3, "1 ms"),
        (0.9994e-3, "999 µs"),
    ],
)
def test_parts_have_the_unit_that_reads_best(seconds: float, words: str) -> None:
    assert span(seconds) == words
