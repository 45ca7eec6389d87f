"""Browser components by themselves, on a page without a server: what they show for a run whose numbers are known."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from playwright.sync_api import Browser, Page

from engine.errors import ErrorInfo, Unwatched
from engine.generate import detokenize
from engine.measure.latency import summarize
from engine.trace import Candidate, DecodeStep, PrefillTrace, RunSettings, RunStatus, RunView, Token
from tests.samples import INFO, PREFILL, step
from ui import i18n
from ui.components import mount

# Mounts one component on a run that has ended; its functions are reachable as window.parts.
MOUNT = """async ({name, html, css, script, store, data}) => {
  document.body.innerHTML = `<style>${css}</style><div id="host">${html}</div>`;
  const body = script + "\\nexport const parts = { percentiles: typeof percentiles === 'undefined' ? null : percentiles };";
  const module = await import(URL.createObjectURL(new Blob([body], { type: "text/javascript" })));
  window.parts = module.parts;
  module.default({ parentElement: document.getElementById("host"), data, setStateValue() {}, setTriggerValue() {} });
  const idle = window.__openbook.idle;
  Object.assign(idle, { ...store, steps: [], epoch: idle.epoch + 1 });
  for (const step of store.steps) {
    idle.steps.push(step);
    idle.itl.push(step.busy_s);
    idle.itlSum.push(idle.itlSum.at(-1) + step.busy_s);
    idle.waitSum.push(0);
  }
  window.__openbook.wake();
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
}"""


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context()
    yield context.new_page()
    context.close()


def show(
    page: Page, name: str, prefill: PrefillTrace, steps: tuple[DecodeStep, ...] = (), run: dict[str, Any] | None = None, **data: Any
) -> None:
    """`run`: changes to the run's own fields; `data`: the component's own arguments."""
    words = {key: entry["en"] for key, entry in i18n.table("components").items()}
    html = (mount.ASSETS / name / f"{name}.html").read_text(encoding="utf-8")
    store = {
        "status": "ended",
        "stop_reason": "length",
        "model": INFO,
        "tokens": [],
        "prefill": prefill,
        "steps": steps,
        "max_new_tokens": 9,
    }
    given = {"run_id": None, "path": "", "cursor": None, "labels": words, **data}
    page.evaluate(
        MOUNT,
        {"name": name, "html": html, "css": mount.style(name), "script": mount.script(name)}
        | {"data": given, "store": msgspec.to_builtins(store | (run or {}))},
    )


def candidate(number: int, drawn: float) -> Candidate:
    return Candidate(number, f" w{number}".encode(), f" w{number}", 0.09 - number / 1000, drawn)


@pytest.mark.parametrize("rank", [0, 9, 10])
def test_the_drawn_candidate_is_shown_wherever_it_stands(page: Page, rank: int) -> None:
    """The engine sends the ten most likely ones and, where it is none of them, the drawn one as the eleventh."""
    sent = tuple(candidate(number, 0.05) for number in range(11 if rank == 10 else 10))
    picked = Token(rank, sent[rank].raw, sent[rank].text, "generated", 3)
    show(page, "candidates", replace(PREFILL, first=picked, candidates=sent))
    marked = page.locator(".row.picked")
    assert marked.count() == 1
    assert marked.is_visible()
    assert marked.locator(".word").inner_text() == f"·w{rank}"
    assert page.locator(".row").filter(visible=True).count() == len(sent)


def test_greedy_keeps_no_place_for_an_eleventh(page: Page) -> None:
    sent = tuple(candidate(number, float(number == 0)) for number in range(10))
    show(page, "candidates", replace(PREFILL, first=Token(0, b" w0", " w0", "generated", 3), candidates=sent))
    assert page.locator(".row.vacant").evaluate("row => getComputedStyle(row).display") == "none"


ITL_S = (
    0.031,
    0.012,
    0.5,
    0.044,
    0.0121,
    0.09,
    0.013,
    0.07,
    0.0301,
    0.02,
    0.021,
    0.022,
    0.3,
    0.024,
    0.025,
    0.0264,
    0.027,
    0.028,
    0.029,
    0.01,
    0.11,
)


@pytest.mark.parametrize("count", [20, 21])
def test_the_browsers_percentiles_are_the_engines(page: Page, count: int) -> None:
    steps = tuple(replace(step(at), busy_s=seconds) for at, seconds in enumerate(ITL_S[:count], 1))
    summary = summarize(RunView("r", "?", RunSettings(), "m", "2026-01-01T00:00:00+00:00", RunStatus.ENDED, None, (), PREFILL, steps))
    show(page, "meters", PREFILL, steps, windows=None, layer_token_bytes=None)
    found = page.evaluate("([values, count]) => window.parts.percentiles(values, count, [0.5, 0.95])", [list(ITL_S), count])
    assert found == pytest.approx([summary.p50_itl_s, summary.p95_itl_s], rel=1e-12)
    assert found[0] == pytest.approx(statistics.median(ITL_S[:count]))
    assert page.locator(".tpot .more").inner_text() == f"p50 {found[0] * 1000:.1f} ms, p95 {found[1] * 1000:.0f} ms"


@pytest.mark.parametrize(
    "raw", [(b"a", b"\xff", b"b"), (b"\xe4\xbd", b"x"), (b"q\xc3", b"\xf0\x9f", b"\x8d\x8a"), (b"\xe4", b"\xbd", b"\xa0")]
)
def test_bytes_and_text_agree_character_by_character(page: Page, raw: tuple[bytes, ...]) -> None:
    tokens = [Token(at, part, "", "generated", 3 + at) for at, part in enumerate(raw)]
    steps = tuple(replace(step(at), token=token) for at, token in enumerate(tokens[1:], 1))
    show(page, "bytes_view", replace(PREFILL, first=tokens[0]), steps, show_special=False)
    cells = page.evaluate(
        "() => [...document.querySelectorAll('.rows .row:not(.waiting) .out:not(.part)')].map(cell => "
        "[...cell.childNodes].filter(node => !node.classList?.contains('note')).map(node => node.textContent).join(''))"
    )
    assert "".join(cells) == detokenize.answer_text(tokens)


@pytest.mark.parametrize(("error", "words"), [(None, "stopped"), (Unwatched().info, "unwatched")])
def test_the_answer_sheet_says_who_ended_the_run(page: Page, error: ErrorInfo | None, words: str) -> None:
    labels = {key: entry["en"] for key, entry in i18n.table("components").items()}
    labels |= {"answer_end_stopped": i18n.text("en", "stops.stopped"), "answer_end_unwatched": i18n.text("en", "errors.unwatched")}
    show(page, "answer", PREFILL, run={"stop_reason": "stopped", "error": error}, labels=labels)
    assert page.locator(".end").inner_text() == labels[f"answer_end_{words}"]
    assert page.locator(".text").inner_text() == "A"


def test_a_candidate_that_is_half_a_character_is_explained(page: Page) -> None:
    sent = tuple(Candidate(at, raw, text, 0.3, 0.3) for at, (raw, text) in enumerate([(b"\x9f", ""), (b" a", " a")]))
    show(page, "candidates", replace(PREFILL, first=Token(1, b" a", " a", "generated", 3), candidates=sent))
    words = i18n.text("en", "components.candidates_partial")
    titles = []
    for at in range(2):
        word = page.locator(".candidates .word").nth(at)
        word.hover()
        titles.append((word.get_attribute("title") or "").splitlines())
    assert titles == [[words, "id 0 · bytes 9F"], [" a", "id 1 · bytes 20 61"]]
