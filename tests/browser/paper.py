"""One component on a page of its own, inside a shadow root as Streamlit has it, fed with a run that the test tells."""

from __future__ import annotations

from typing import Any

import msgspec
from playwright.sync_api import Page, Route

from ui import i18n, plotly_script
from ui.components import mount

ADDRESS = "http://openbook.test/"
# window.mount(fields) brings other data from Python; window.tell(run) is what the channel would bring: a whole snapshot of the run;
# window.shadow is the root of what was put there last.
MOUNT = """async ({html, css, script, name, data}) => {
  const host = document.body.appendChild(document.createElement("div"));
  host.className = "paper";
  const root = host.attachShadow({ mode: "open" });
  root.append(Object.assign(document.createElement("style"), { textContent: css }));
  root.append(...new DOMParser().parseFromString(html, "text/html").body.children);
  window.shadow = root;
  const module = await import(URL.createObjectURL(new Blob([script], { type: "text/javascript" })));
  const frame = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  window.mount = (fields) => {
    data = { ...data, ...fields };
    window.leave = module.default({ parentElement: root, data, setStateValue() {}, setTriggerValue() {} });
    return frame();
  };
  window.tell = (run) => {
    const { idle } = window.__openbook;
    const steps = run.steps ?? [];
    const waited = (step) => Math.max(step.gap_s - step.paused_s, 0);
    const itl = steps.map((step) => waited(step) + step.busy_s);
    const sums = (values) => values.reduce((all, value) => [...all, all.at(-1) + value], [0]);
    Object.assign(idle, run, { itl, itlSum: sums(itl), waitSum: sums(steps.map(waited)), revision: idle.revision + 1 });
    window.__openbook.wake();
    return frame();
  };
  await window.mount({});
}"""


def page_for(page: Page, *, plotly: bool = True) -> Page:
    """An empty page whose server has plotly.js, or has it not."""

    def answer(route: Route) -> None:
        if route.request.url == ADDRESS:
            route.fulfill(body="<!doctype html><title>paper</title><body>", content_type="text/html")
        elif plotly and route.request.url.endswith(plotly_script.path()):
            route.fulfill(path=plotly_script.FILE, content_type="text/javascript")
        else:
            route.fulfill(status=404, body="")

    page.route("**/*", answer)
    page.goto(ADDRESS)
    return page


def put(page: Page, name: str, run: dict[str, Any], *, language: str = "en", **data: Any) -> None:
    """Mount the component and tell it the run (fields of the browser's store: status, model, tokens, prefill, steps, …)."""
    words = i18n.labels(language, name)
    html = (mount.ASSETS / name / f"{name}.html").read_text(encoding="utf-8")
    given = {"run_id": None, "path": "", "cursor": None, "labels": words} | data
    assets = {"name": name, "html": html, "css": mount.style(name), "script": mount.script(name)}
    page.evaluate(MOUNT, assets | {"data": given})
    tell(page, {"epoch": 1, "max_new_tokens": 48} | run)


def tell(page: Page, run: dict[str, Any]) -> None:
    page.evaluate("run => window.tell(run)", msgspec.to_builtins(run))
