"""Looks through the real engine process: what comes back is what the engine found, and every refusal is typed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from engine.errors import InvalidSetting, LoneSurrogate, ModelNotLoaded, OutOfRange, RunFreed
from engine.serve.client import Ticket
from engine.trace import RunSettings
from tests.exam import Exam, open_exam, until
from tests.fakes import make_tokenizer

SHORT = RunSettings(max_new_tokens=6, ignore_eos=True)


@pytest.fixture(scope="module")
def exam(tiny_dir: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Exam]:
    made = open_exam(str(tiny_dir("llama")), tmp_path_factory.mktemp("home"))
    yield made
    made.client.close()


@pytest.fixture
def ticket(exam: Exam) -> Ticket:
    made = exam.submit(SHORT)
    until(lambda: exam.ended(made))
    return made


@pytest.fixture
def run_id(ticket: Ticket) -> str:
    return ticket.run_id


def test_links_are_the_cells_of_every_heads_map(exam: Exam, run_id: str) -> None:
    links = exam.client.links(run_id, 9, 4)
    assert links.shape == (3, 4)
    cells = [[exam.client.attention(run_id, layer, head)[9, 4] for head in range(4)] for layer in range(3)]
    np.testing.assert_allclose(links, cells, atol=1e-6)


def test_a_window_of_rows_and_the_means(exam: Exam, run_id: str) -> None:
    whole = exam.client.attention(run_id, None, None)
    heads = np.mean([exam.client.attention(run_id, layer, None) for layer in range(3)], axis=0)
    np.testing.assert_allclose(whole, heads, atol=1e-6)
    rows = exam.client.attention(run_id, 1, 2, rows=3, until=8)
    np.testing.assert_allclose(rows, exam.client.attention(run_id, 1, 2)[5:8, :8], atol=1e-6)


def test_the_last_layers_guess_is_what_the_first_token_was_drawn_from(exam: Exam, run_id: str) -> None:
    view = exam.client.view(run_id)
    assert view is not None
    assert view.prefill is not None
    rows = exam.client.lens(run_id, 3)
    assert [row.layer for row in rows] == [0, 1, 2]
    assert all(len(row.candidates) == 3 for row in rows)
    last = [(one.id, one.probability) for one in rows[-1].candidates]
    assert last == [(one.id, pytest.approx(one.probability, abs=1e-5)) for one in view.prefill.candidates[:3]]
    assert (rows[-1].rank, rows[-1].probability) == (0, pytest.approx(view.prefill.candidates[0].probability, abs=1e-5))


def test_the_stages_of_a_step_are_those_of_its_own_choice(exam: Exam, run_id: str) -> None:
    view = exam.client.view(run_id)
    assert view is not None
    assert view.prefill is not None
    for index, token in enumerate(view.generated):
        trace = view.steps[index - 1] if index else view.prefill
        stages = exam.client.stages(run_id, index)
        assert (stages.index, stages.temperature, stages.drawn) == (index, 0.0, trace.drawn)
        assert (stages.written_id, stages.would_write_id) == (token.id, token.id)
        likely = {row.id: row.likely for row in stages.rows}
        assert [likely[one.id] for one in trace.candidates] == pytest.approx([one.probability for one in trace.candidates], abs=1e-5)
        assert sum(likely.values()) + stages.rest_likely == pytest.approx(1.0, abs=1e-6)
    other = exam.client.stages(run_id, 2, 1.0, 3, 1.0)
    assert (other.temperature, other.top_k, other.kept_top_k, other.written_id) == (1.0, 3, 3, view.generated[2].id)


def test_stages_that_cannot_be_are_refused(exam: Exam, ticket: Ticket) -> None:
    for index in (-1, 6, 2**40):
        with pytest.raises(OutOfRange):
            exam.client.stages(ticket.run_id, index)
    with pytest.raises(InvalidSetting):
        exam.client.stages(ticket.run_id, 0, -1.0)
    exam.client.steer(ticket.run_id, ticket.key, "cancel")
    with pytest.raises(RunFreed):
        exam.client.stages(ticket.run_id, 0)


def test_the_text_of_an_answer_is_the_tokenizers_own(exam: Exam, run_id: str) -> None:
    view = exam.client.view(run_id)
    assert view is not None
    ids = tuple(token.id for token in view.generated)
    assert exam.client.decoded(exam.model, "cpu", ids, False) == make_tokenizer().decode(list(ids))
    assert exam.client.decoded(exam.model, "cpu", (1, 2), True) == ""
    assert exam.client.decoded(exam.model, "cpu", (), False) == ""
    with pytest.raises(OutOfRange):
        exam.client.decoded(exam.model, "cpu", (-1,), False)
    with pytest.raises(ModelNotLoaded):
        exam.client.decoded(exam.model, "cuda:7", ids, False)


def test_a_cut_keeps_every_byte(exam: Exam) -> None:
    text = "the cat 你好🤗 <|im_end|>"
    cut = exam.client.cut(exam.model, "cpu", text)
    assert b"".join(token.raw for token in cut.tokens) == text.encode()
    assert not any(token.special for token in cut.tokens)
    assert [id for word in cut.words for id in word.ids] == [token.id for token in cut.tokens]


@pytest.mark.parametrize(("query", "key"), [(4, 9), (-1, 0), (10_000, 0), (3, -1)])
def test_a_link_that_cannot_be_is_refused(exam: Exam, run_id: str, query: int, key: int) -> None:
    with pytest.raises(OutOfRange):
        exam.client.links(run_id, query, key)


def test_what_cannot_be_sent_and_what_is_gone(exam: Exam, ticket: Ticket) -> None:
    with pytest.raises(LoneSurrogate):
        exam.client.cut(exam.model, "cpu", "a\ud800")
    vocabulary = len(make_tokenizer())
    for count in (0, vocabulary + 1):
        with pytest.raises(OutOfRange) as caught:
            exam.client.lens(ticket.run_id, count)
        assert caught.value.params == {"field": "count", "value": count, "count": vocabulary}
    exam.client.steer(ticket.run_id, ticket.key, "cancel")
    for look in (
        lambda: exam.client.links(ticket.run_id, 1, 0),
        lambda: exam.client.lens(ticket.run_id),
    ):
        with pytest.raises(RunFreed):
            look()
    assert exam.client.cut(exam.model, "cpu", "the").words, "a tokenizer outlives every run"
    with pytest.raises(ModelNotLoaded):
        exam.client.cut(exam.model, "cuda:7", "the")
