"""The mark sheet's numbers as a reader sees them, in Chromium: the chart's TPOT against transformers' `generate` measured side by side,
and the engine's own speed with the page open and closed. Knows the page's buttons and its chart."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import torch
from playwright.sync_api import Browser, sync_playwright

from engine import Run, RunSettings, load_model
from engine.model.loader import LoadedModel
from tests.bench.engine_bench import Stamps, plain
from tests.bench.report import Figure
from tests.browser.desk import Desk
from tests.browser.driver import AppServer, Visitor, launch, settle, visit
from ui import i18n

QUESTION = "Tell me a long story about an orange that rolled off a table."
TOKENS = 64
ROUNDS = 5
TALL = 2600  # px: all three charts are on the screen; what is off it rests while a run plays
# The last point of the line "TPOT so far", in ms, as Plotly draws it.
CHART_TPOT = f"""plot => {{
  const line = plot.data.find(trace => trace.name === {i18n.text("en", "components.charts_tpot")!r})?.y ?? [];
  return line.length === {TOKENS - 1} ? line.at(-1) : null;
}}"""
MODEL = "() => window.__openbook.runs[new URLSearchParams(location.search).get('run')].model"


def begin(browser: Browser, app: AppServer) -> tuple[Desk, Visitor]:
    """A new session on the mark sheet that has just pressed Play."""
    visitor = visit(browser, app.url, height=TALL)
    desk = Desk(visitor.page)
    desk.longest(TOKENS)
    desk.write(QUESTION)
    desk.go("marks")
    desk.press("shell.play")
    desk.wait(lambda run: run["prefilled"])
    return desk, visitor


def tpot_s(run: dict[str, Any]) -> float:
    """The engine's own, from its own stamps."""
    at_s = run["at_s"]
    return (at_s[-1] - at_s[0]) / (len(at_s) - 1)


def watched(browser: Browser, app: AppServer) -> tuple[float, float, dict[str, Any]]:
    """TPOT as the chart draws it and by the stamps, in seconds, and the model."""
    desk, visitor = begin(browser, app)
    run = desk.until_status("ended", 300)
    assert run["generated"] == TOKENS, f"the answer ended after {run['generated']} tokens: {run['stop_reason']}"
    settle(desk.page)
    plot = desk.page.locator(".charts .plot").first
    while (drawn_ms := plot.evaluate(CHART_TPOT)) is None:
        desk.page.wait_for_timeout(50)
    model = desk.page.evaluate(MODEL)
    visitor.close()
    return drawn_ms / 1000, tpot_s(run), model


def unwatched(browser: Browser, app: AppServer) -> float:
    """Play, close the page, come back when it is over: TPOT by the stamps."""
    desk, visitor = begin(browser, app)
    address = desk.page.url
    visitor.close()
    until = visit(browser, app.url + "/static-nothing")  # the browser itself stays up, as in the other case
    until.page.goto("about:blank")
    until.page.wait_for_timeout(1000 * TOKENS / 8)
    until.page.goto(address)
    run = Desk(until.page).until_status("ended", 300)
    until.close()
    return tpot_s(run)


@cache
def loaded_as(dtype: str) -> LoadedModel:
    return load_model("smollm2-135m", device="cpu", dtype=dtype)


def generate_tpot_s(model: dict[str, Any]) -> float:
    """transformers' own loop on the same prompt, in the engine's dtype and with its threads."""
    loaded = loaded_as(model["dtype"])
    ids = torch.tensor([[token.id for token in Run(loaded, QUESTION, RunSettings()).tokens]])
    stamps = Stamps()
    torch.set_num_threads(model["decode_threads"])
    with plain(loaded) as network:
        network.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=TOKENS, min_new_tokens=TOKENS, do_sample=False, streamer=stamps
        )
    at_s = stamps.at_s[1:]
    return (at_s[-1] - at_s[0]) / (len(at_s) - 1)


def marks() -> Iterator[Figure]:
    """Chart, `generate`, page closed; three of a kind lie close together in time."""
    rounds = []
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        app = AppServer(Path(folder) / "app.log", env={"OPENBOOK_LEASE_S": "600"}).start()
        chromium = launch(playwright)
        try:
            generate_tpot_s(watched(chromium, app)[2])  # both sides warm
            for _ in range(ROUNDS):
                chart_s, stamps_s, model = watched(chromium, app)
                rounds.append((chart_s, stamps_s, generate_tpot_s(model), unwatched(chromium, app)))
        finally:
            chromium.close()
            app.stop()
    chart_s, open_s, theirs_s, closed_s = (statistics.median(each) for each in zip(*rounds, strict=True))
    ratio = statistics.median(drawn / theirs for drawn, _, theirs, _ in rounds)
    yield Figure("marks_tpot", chart_s * 1e3, "ms", f"transformers generate {theirs_s * 1e3:.2f} ms", max(ratio, 1 / ratio), "<= 1.05")
    opened = statistics.median(seen / closed for _, seen, _, closed in rounds)
    yield Figure("marks_open", open_s * 1e3, "ms", f"page closed {closed_s * 1e3:.2f} ms", opened, "<= 1.05")
