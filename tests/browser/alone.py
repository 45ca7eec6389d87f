"""The notes, or one cell of them, mounted on a page without a server: a run that is told by the test. Knows no right answers."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
from playwright.sync_api import Page

from engine.trace import ModelInfo, Token
from tests.samples import INFO, PREFILL, SHAPE
from ui import i18n
from ui.components import mount

# Mounts the component on a run that is told by the test: window.told holds what it reported, window.tell(fields) changes the run,
# window.write(n) writes n tokens, each in a frame of its own.
MOUNT = """async ({html, css, script, name, store, data}) => {
  document.body.innerHTML = `<style>${css}</style><div id="host">${html}</div>`;
  window.told = [];
  const module = await import(URL.createObjectURL(new Blob([script], { type: "text/javascript" })));
  const frame = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  const host = document.getElementById("host");
  window.mount = (fields) => {
    data = { ...data, ...fields };
    module.default({ parentElement: host, data, setStateValue() {}, setTriggerValue: (name, value) => window.told.push([name, value]) });
    return frame();
  };
  window.tell = (fields) => {
    const idle = window.__openbook.idle;
    Object.assign(idle, fields, { revision: idle.revision + 1 });
    window.__openbook.wake();
    return frame();
  };
  window.write = async (count, bytes) => {
    const { idle } = window.__openbook;
    for (let at = 0; at < count; at += 1) {
      const index = idle.steps.length + 1;
      const kv_tokens = idle.prefill.kv_tokens + index;
      const token = { id: 65, raw: "QQ==", text: "A", kind: "generated", position: kv_tokens, special: false };
      idle.steps.push({ index, token, kv_tokens, kv_bytes: kv_tokens * bytes });
      window.__openbook.wake();
      await frame();
    }
  };
  await window.mount({});
  await window.tell({ ...store, epoch: 1 });
}"""
LAYERS, COLUMN = 4, 512  # of the small run: bytes of a column


def model(layers: int = LAYERS, windows: tuple[int | None, ...] | None = None) -> ModelInfo:
    return replace(INFO, shape=replace(SHAPE, num_hidden_layers=layers, layer_windows=windows or (None,) * layers))


def prompt(count: int, kind: str = "prompt") -> list[Token]:
    return [Token(100 + at, f"w{at}".encode(), f"w{at}", kind, at) for at in range(count)]  # type: ignore[arg-type]


def packed(weights: list[float]) -> str:
    return base64.b64encode(np.array(weights, "<f4").tobytes()).decode()


def show_notes(page: Page, tokens: int, *, info: ModelInfo | None = None, longest: int = 40, status: str = "ended", **data: Any) -> None:
    """A run whose prompt of so many tokens has been read, and nothing more."""
    info = info or model()
    each = len(info.shape.layer_windows) * 128
    store = {"status": status, "model": info, "tokens": prompt(tokens), "steps": [], "max_new_tokens": longest}
    store["prefill"] = replace(PREFILL, prompt_tokens=tokens, kv_tokens=tokens, kv_bytes=tokens * each)
    words = {key: entry["en"] for key, entry in i18n.table("components").items()}
    own = {"opens": True, "glance": None, "unlit": None, "pace_s": 0, "opened": None}
    own |= {"windows": None, "layer_token_bytes": 128, "weights_read_bytes": None}
    given = {"run_id": None, "path": "", "cursor": None, "labels": words} | own | data
    html = (mount.ASSETS / "notes" / "notes.html").read_text(encoding="utf-8")
    assets = {"name": "notes", "html": html, "css": mount.style("notes"), "script": mount.script("notes")}
    page.evaluate(MOUNT, assets | {"data": given, "store": msgspec.to_builtins(store)})


def write(page: Page, count: int, layers: int = LAYERS) -> None:
    page.evaluate("([count, bytes]) => window.write(count, bytes)", [count, layers * 128])


def told(page: Page) -> list[Any]:
    return page.evaluate("() => window.told")


def inked(page: Page) -> list[dict[str, Any]]:
    return page.evaluate("() => window.__openbook.inked")
