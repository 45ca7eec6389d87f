"""A chart on a page of its own, fed with runs of known numbers, and what Plotly has been given to draw. Knows no right answers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from playwright.sync_api import Page

from engine.trace import DecodeStep, PrefillTrace
from tests.browser.paper import page_for, put
from tests.samples import INFO, PREFILL, token
from ui import i18n, plotly_script
from ui.components.charts import templates

COLUMN = 2 * 2 * 2 * 8 * 4  # bytes of one token in the sample model: layers, key and value, KV heads, head size, float32
DRAWN = """() => {
  const plot = window.shadow.querySelector('.plot');
  return (plot.data ?? []).map(({ name, type, x, y, width, text, customdata }) => ({ name, type, x, y, width, text, customdata }));
}"""


def step(index: int, busy_s: float, *, gap_s: float = 0.0, paused_s: float = 0.0, at_s: float = 0.0, **more: Any) -> DecodeStep:
    size = COLUMN * (3 + index)
    plain = DecodeStep(index, token(3 + index), (), gap_s, paused_s, busy_s, 0.0, busy_s, at_s, size, 3 + index, 640)
    return replace(plain, **more)


def begun(**fields: Any) -> PrefillTrace:
    return replace(PREFILL, kv_bytes=COLUMN * 3, at_s=0.5, **fields)


def told(steps: list[DecodeStep], status: str = "ended", prefill: PrefillTrace | None = None, **more: Any) -> dict[str, Any]:
    return {"status": status, "model": INFO, "tokens": [], "prefill": prefill or begun(), "steps": steps} | more


def show(page: Page, chart: str, run: dict[str, Any], **data: Any) -> None:
    own = {
        "chart": chart,
        "script": plotly_script.path(),
        "templates": templates(),
        "comfort_ms": [50, 100],
        "windows": [None, None],
        "layer_token_bytes": COLUMN // 2,
    }
    put(page_for(page), "charts", run, **own | data)
    page.wait_for_function("() => window.shadow.querySelector('.main-svg')")


def drawn(page: Page) -> dict[str, dict[str, Any]]:
    return {trace["name"]: trace for trace in page.evaluate(DRAWN)}


def words(key: str, **places: object) -> str:
    return i18n.text("en", f"components.charts_{key}", **places)
