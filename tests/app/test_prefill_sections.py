"""The sections reading, traits and lens of the prefill page: this run's own numbers, in both languages, and what is said without them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from streamlit.testing.v1 import AppTest

from engine.errors import EngineError, LensUnavailable, RunFreed, UnsupportedConfig
from engine.findings import LensRow
from engine.measure import flops
from engine.trace import Candidate, RunView, WorkPeak
from tests.app.visit import ask, go_to, open_app, view_of, wait_for, words_of
from tests.samples import INFO
from ui import i18n, looking, numbers, resources, state, theme
from ui.sections import lens, traits

COUNTED = replace(INFO, body_parameters=1000, head_parameters=500)
pytestmark = pytest.mark.usefixtures("engine_process")


def refuse(error: EngineError) -> Callable[..., None]:
    def answer(*_: object) -> None:
        raise error

    return answer


def prefill_page(language: str = "en", max_new_tokens: int = 6) -> tuple[AppTest, RunView]:
    app = open_app(language)
    run = ask(app, max_new_tokens=max_new_tokens)
    go_to(app, "prefill")
    assert not app.exception, app.exception
    return app, run


def metrics_of(app: AppTest) -> dict[str, str]:
    return {metric.label: metric.value for metric in app.metric}


@pytest.mark.parametrize("language", i18n.LANGUAGES)
def test_the_traits_are_this_runs_own(language: str) -> None:
    app, run = prefill_page(language)
    assert run.prefill is not None
    assert run.model is not None
    n, shape = run.prefill.prompt_tokens, run.model.shape
    total = 2 * run.model.body_parameters * n + 2 * run.model.head_parameters
    total += 4 * shape.num_attention_heads * shape.head_dim * shape.num_hidden_layers * n * (n + 1) // 2
    found = metrics_of(app)
    word = {
        name: i18n.text(language, f"traits.{name}") for name in ("flops", "rate", "per_pass", "per_step", "kv", "ttft_total", "ttft_share")
    }
    assert found[word["flops"]] == traits.operations(total)
    assert found[word["rate"]] == f"{traits.operations(total / run.prefill.prefill_s)}/s"
    assert (found[word["per_pass"]], found[word["per_step"]]) == (f"{n}", "1")
    assert found[word["kv"]] == f"0 → {numbers.mebibytes(run.prefill.kv_bytes)}"
    assert found[word["ttft_total"]] == numbers.milliseconds(run.prefill.ttft_s)
    assert found[word["ttft_share"]] == f"{run.prefill.prefill_s / run.prefill.ttft_s:.0%}"
    assert i18n.text(language, "traits.recorded", size=numbers.mebibytes(run.prefill.recorded_bytes)) in words_of(app)


@pytest.mark.parametrize("language", i18n.LANGUAGES)
def test_without_a_decode_step_nothing_is_compared(language: str) -> None:
    app, run = prefill_page(language, max_new_tokens=1)
    assert not run.steps
    assert f":material/hourglass_empty: {i18n.text(language, 'traits.step_to_come')}" in words_of(app)


def test_where_attention_outgrows_the_rest() -> None:
    """The plain numbers behind “grows with the square”."""
    one, ten = traits.Cost.of(COUNTED, 40), traits.Cost.of(COUNTED, 400)
    assert ten.total - 2 * COUNTED.head_parameters - ten.attention == 10 * (one.total - 2 * COUNTED.head_parameters - one.attention)
    assert ten.attention / one.attention == pytest.approx(100, rel=0.03)
    assert ten.attention_share > one.attention_share


@pytest.mark.parametrize(
    ("count", "words"), [(999, "999 FLOP"), (7_750_000_000, "7.75 GFLOP"), (56_623_104, "56.6 MFLOP"), (3.21e15, "3,210 TFLOP")]
)
def test_operations_are_told_in_fitting_units(count: float, words: str) -> None:
    assert traits.operations(count) == words


def test_flops_that_cannot_be_counted_are_not_made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flops, "prefill_flops", refuse(UnsupportedConfig(field="kv_lora_rank", value="512")))
    app, _ = prefill_page()
    assert not app.error
    assert any("kv_lora_rank" in info.value for info in app.info)
    assert i18n.text("en", "traits.flops") not in metrics_of(app)


@pytest.mark.parametrize("source", ["resident", "torch"])
@pytest.mark.parametrize("language", i18n.LANGUAGES)
def test_the_work_peak_names_its_source(monkeypatch: pytest.MonkeyPatch, language: str, source: str) -> None:
    monkeypatch.setattr(state, "language", lambda: language)
    words = traits._peak_words(WorkPeak(100 << 20, 164 << 20, source))
    assert words == {"before": "100.00 MiB", "peak": "164.00 MiB", "source": i18n.text(language, f"traits.source_{source}")}


def memory_page(
    monkeypatch: pytest.MonkeyPatch, language: str, peak: WorkPeak | None, recorded_bytes: int, capture: bool = True
) -> tuple[str | None, str]:
    """The prefill page of a run with 300 kB of notes; the rise of the working memory, and all words."""
    app = open_app(language)
    run = ask(app)
    assert run.prefill is not None
    done = replace(run.prefill, peak=peak, recorded_bytes=recorded_bytes, kv_bytes=300_000)
    run = replace(run, prefill=done, settings=replace(run.settings, capture_attention=capture))
    monkeypatch.setattr(resources.engine(), "view", lambda run_id: run)
    go_to(app, "prefill")
    assert not app.exception, app.exception
    return metrics_of(app).get(i18n.text(language, "traits.peak")), words_of(app)


RISES = [
    ("resident", 4096, 0, False),
    ("resident", 299_999, 0, False),
    ("resident", 300_000, 0, True),
    ("resident", 350_000, 100_000, False),
    ("resident", 400_000, 100_000, True),
    ("torch", 4096, 0, True),
]


@pytest.mark.parametrize(("source", "rise", "recorded", "seen"), RISES)
@pytest.mark.parametrize("language", i18n.LANGUAGES)
def test_a_rise_smaller_than_what_was_written_is_none(
    monkeypatch: pytest.MonkeyPatch, language: str, source: str, rise: int, recorded: int, seen: bool
) -> None:
    """On later runs the process takes again what it never gave back, and its resident set tells nothing."""
    peak = WorkPeak(1 << 30, (1 << 30) + rise, source)
    value, words = memory_page(monkeypatch, language, peak, recorded)
    assert value == (f"+ {numbers.mebibytes(rise)}" if seen else numbers.NOTHING)
    assert (i18n.text(language, "traits.peak_hidden") in words) is not seen
    sizes = {"before": numbers.mebibytes(peak.before_bytes), "peak": numbers.mebibytes(peak.peak_bytes)}
    told = i18n.text(language, "traits.peak_says", **sizes, source=i18n.text(language, f"traits.source_{source}"))
    assert (told in words) is seen


@pytest.mark.parametrize(("recorded", "capture", "said"), [(1 << 20, True, "recorded"), (0, True, "unrecorded"), (0, False, None)])
@pytest.mark.parametrize("language", i18n.LANGUAGES)
def test_what_was_recorded_is_said_once_it_was(
    monkeypatch: pytest.MonkeyPatch, language: str, recorded: int, capture: bool, said: str | None
) -> None:
    _, words = memory_page(monkeypatch, language, None, recorded, capture)
    places = {"recorded": {"size": "1.00 MiB"}, "unrecorded": {}}
    told = {key for key, given in places.items() if i18n.text(language, f"traits.{key}", **given) in words}
    assert told == ({said} if said else set())
    assert i18n.text(language, "traits.recorded", size="0 B") not in words


def test_the_parts_of_the_wait_have_their_colours_of_the_clock() -> None:
    app, run = prefill_page()
    assert run.prefill is not None
    rows = "".join(block.proto.body for block in app.get("html")).split("<div ")
    colours = {"template": "template", "tokenize": "good", "prefill": "prompt", "sample": "answer"}
    for part, role in colours.items():
        drawn = next(row for row in rows if f">{i18n.text('en', f'traits.part_{part}')}<" in row)
        assert f"background:{getattr(theme.LIGHT, role)}" in drawn
        assert numbers.milliseconds(getattr(run.prefill, f"{part}_s")) in drawn


@pytest.mark.parametrize("language", i18n.LANGUAGES)
def test_the_lens_shows_every_layer(language: str) -> None:
    app, run = prefill_page(language)
    assert run.prefill is not None
    assert run.model is not None
    assert i18n.text(language, "lens.gloss") in words_of(app)
    titles = [i18n.text(language, f"lens.{name}") for name in ("first", "line", "title")]
    assert all(any(title in text.value for text in app.markdown) for title in titles)


@pytest.mark.parametrize("language", i18n.LANGUAGES)
@pytest.mark.parametrize("error", [LensUnavailable(reason="disagrees"), RunFreed(run="x")], ids=lambda error: error.code)
def test_a_lens_that_is_not_there_is_explained(monkeypatch: pytest.MonkeyPatch, language: str, error: EngineError) -> None:
    monkeypatch.setattr(looking, "lens", refuse(error))
    app, _ = prefill_page(language)
    assert not app.error
    assert len([info for info in app.info if info.value]) >= 1
    assert i18n.text(language, "lens.first") in words_of(app), "the candidates stay"
    assert i18n.text(language, "lens.line") not in words_of(app)


def lens_rows(*ranks: int) -> list[LensRow]:
    best = Candidate(7, b" x", " x", 0.5, 0.0)
    return [LensRow(layer, (best,), rank, 0.25) for layer, rank in enumerate(ranks)]


@pytest.mark.parametrize(("ranks", "key"), [((2, 0, 0), "from"), ((0, 0), "always"), ((1, 0), "last"), ((0, 5), "never")])
@pytest.mark.parametrize("language", i18n.LANGUAGES)
def test_where_it_firms_up_is_said(monkeypatch: pytest.MonkeyPatch, language: str, ranks: tuple[int, ...], key: str) -> None:
    monkeypatch.setattr(state, "language", lambda: language)
    places = {"token": "T", "layer": 1, "last": len(ranks) - 1, "rank": "6", "share": "25%"}
    assert lens.finding(lens_rows(*ranks), "T") == i18n.text(language, f"lens.{key}", **places)


def test_before_the_reading_the_sheet_waits() -> None:
    app = open_app()
    app.button(key="step").click().run()
    wait_for(lambda: view_of(app).tokens)
    go_to(app, "prefill")
    assert not app.exception
    assert i18n.text("en", "reading.title") in words_of(app)
    assert i18n.text("en", "traits.title") not in words_of(app)
    assert not app.get("plotly_chart")
    app.button(key="stop").click().run()
