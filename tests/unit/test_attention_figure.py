"""The attention map as a picture: one cell per pair whatever the tokens are called, nothing above the diagonal, nothing too heavy."""

from __future__ import annotations

import numpy as np
import pytest

from engine.trace import Token
from ui import theme
from ui.figures import attention

WORDS = {"query": "query", "key": "key", "weight": "attention"}


def tokens_of(*texts: str) -> list[Token]:
    return [Token(id, text.encode(), text, "prompt", id) for id, text in enumerate(texts)]


def causal(count: int) -> np.ndarray:
    """Rows that sum to 1 over the keys up to the diagonal, float32 [count, count]."""
    weights = np.tril(np.random.default_rng(0).random((count, count), dtype=np.float32))
    return weights / weights.sum(1, keepdims=True)


def draw(weights: np.ndarray, tokens: list[Token], kind: str = "light"):
    return attention.attention_map(weights, tokens, theme.palette(kind), WORDS)


@pytest.mark.parametrize("kind", ["light", "dark"])
def test_equal_tokens_keep_their_own_rows(kind: str) -> None:
    tokens = tokens_of("the", " cat", " sat", " on", " the", " mat", " the", " cat")
    figure = draw(causal(8), tokens, kind)
    heat = figure.data[0]
    assert np.asarray(heat.z).shape == (8, 8)
    assert list(heat.x) == list(heat.y) == list(range(8))
    assert list(figure.layout.xaxis.ticktext) == [attention.label(token) for token in tokens]
    assert figure.layout.xaxis.type == figure.layout.yaxis.type == "linear"


def test_numbers_and_dates_stay_text_in_order() -> None:
    texts = ["1", "2", "10", "3", "2024-01-01", "1e1"]
    figure = draw(causal(6), tokens_of(*texts))
    assert list(figure.layout.yaxis.ticktext) == texts


def test_the_triangle_above_the_diagonal_is_blank() -> None:
    heat = draw(causal(12), tokens_of(*"abcdefghijkl")).data[0]
    cells = np.asarray(heat.z)
    above = np.triu(np.ones((12, 12), bool), 1)
    assert np.isnan(cells[above]).all()
    assert np.isfinite(cells[~above]).all()
    assert heat.customdata[0][1] is None


def test_markup_in_tokens_is_escaped_and_bytes_are_hex() -> None:
    assert attention.label(tokens_of("</b><script>")[0]) == "&lt;/b&gt;&lt;script&gt;"
    assert attention.label(Token(1, b"\xe4\xbd", "", "prompt", 0)) == "E4 BD"
    assert attention.label(tokens_of(" a\n")[0]) == "·a↵"


def test_hover_names_both_tokens_and_positions() -> None:
    heat = draw(causal(3), tokens_of("x", " y", " z")).data[0]
    assert tuple(heat.customdata[2][1]) == ("2 ·z", "1 ·y")


def test_long_prompts_are_cut_and_the_hidden_share_is_right() -> None:
    weights, tokens = causal(600), tokens_of(*["ab"] * 600)
    figure = draw(weights, tokens)
    assert list(figure.data[0].x) == list(range(600 - attention.MOST_TOKENS, 600))
    for axis, most in ((figure.layout.xaxis, attention.TICKS_ACROSS), (figure.layout.yaxis, attention.TICKS_DOWN)):
        assert most / 2 < len(axis.ticktext) == len(axis.tickvals) <= most
    assert len(figure.to_json()) < 2 * 1024**2
    shown = weights[344:, 344:].sum() / weights[344:].sum()
    assert attention.hidden_share(weights, range(344, 600)) == pytest.approx(1 - shown, abs=1e-6)


def test_the_newest_rows_alone_draw_the_same_picture() -> None:
    weights, tokens = causal(600), tokens_of(*["ab"] * 600)
    whole, newest = draw(weights, tokens), draw(weights[-attention.MOST_TOKENS :], tokens)
    np.testing.assert_array_equal(np.asarray(newest.data[0].z), np.asarray(whole.data[0].z))
    assert newest.layout == whole.layout
    assert attention.hidden_share(weights[-256:], range(344, 600)) == pytest.approx(attention.hidden_share(weights, range(344, 600)))
    few = draw(weights[-5:], tokens).data[0]
    assert list(few.x) == list(few.y) == list(range(595, 600))


def test_counts_that_differ_are_named() -> None:
    with pytest.raises(ValueError, match="attention covers 4 positions but 3 tokens were given"):
        draw(causal(4), tokens_of("a", "b", "c"))
