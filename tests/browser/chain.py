"""Pictures of one step mounted on a page without a server, and a made-up run for them. Knows no right answers."""

from __future__ import annotations

from typing import Any

import msgspec
from playwright.sync_api import Locator, Page

from engine.serve.protocol import Snapshot
from engine.trace import Candidate, DecodeStep, PrefillTrace, RunStatus, StepParts, Token
from tests.samples import INFO
from ui import i18n
from ui.components import mount

MOUNT = """async ({html, css, script, data}) => {
  document.body.innerHTML = `<style>${css}</style><div id="host">${html}</div>`;
  const module = await import(URL.createObjectURL(new Blob([script], { type: "text/javascript" })));
  module.default({ parentElement: document.getElementById("host"), data, setStateValue() {}, setTriggerValue() {} });
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
}"""


def show(page: Page, name: str, language: str = "en", **data: Any) -> Locator:
    words = {key: entry[language] for key, entry in i18n.table("components").items()}
    html = (mount.ASSETS / name / f"{name}.html").read_text(encoding="utf-8")
    given = {"run_id": None, "path": "", "cursor": None, "labels": words, **data}
    page.evaluate(MOUNT, {"html": html, "css": mount.style(name), "script": mount.script(name), "data": given})
    return page.locator(".ob")


def token(position: int, text: str, kind: str = "generated") -> Token:
    return Token(100 + position, text.encode(), text, kind, position)  # type: ignore[arg-type]


PARTS = StepParts(0.03, 0.004, 0.001, 0.005)


def chain_data(parts: StepParts | None = PARTS, **data: Any) -> dict[str, Any]:
    """A run of three prompt tokens that has written two: step 1 took 45 ms."""
    prompt = tuple(token(at, text, "prompt") for at, text in enumerate(("The", " <b>", " cat")))
    likely = ((" sat", 0.5), (" 1", 0.3), ("\n", 0.2))
    candidates = tuple(Candidate(at, text.encode(), text, share, share) for at, (text, share) in enumerate(likely))
    prefill = PrefillTrace(3, 0, 0, 0, 0.09, 0.01, 0, 0.1, token(3, " sat"), candidates, 96, 3, 0, drawn=0.25)
    step = DecodeStep(1, token(4, " on"), candidates, 0, 0, 0.04, 0.003, 0.045, 0.2, 128, 4, 0, parts, 0.125)
    said = Snapshot("run", RunStatus.PAUSED, INFO, prompt, prefill, (step,), None, None, 5)
    fallback = msgspec.to_builtins(said) | {"run_id": None}
    notes = {"windows": [None, 2], "layer_token_bytes": 16, "weights_read_bytes": 512}
    return {"fallback": fallback, "greedy": False, "sees": True, "glance": None, **notes, **data}
