"""Records in a real browser: out as a file and in again with the same pictures; a recording is played without any model."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from engine.trace import RunRecord
from tests.browser.desk import Desk
from tests.browser.driver import AppServer, Visitor, settle, visit
from tests.hostile_files import changed
from ui import i18n

# What every canvas and every text of the page's components shows, without what names the run.
PICTURES = """() => [...document.querySelectorAll('.ob, [data-testid="stBidiComponentRegular"], [data-testid="stBidiComponentIsolated"]')]
  .flatMap((host) => [...(host.shadowRoot ?? host).querySelectorAll('.ob')])
  .map((root) => [
    root.className.split(' ')[1],
    root.innerText,
    [...root.querySelectorAll('canvas')].map((canvas) => canvas.toDataURL()),
    [...root.querySelectorAll('.plot')].map((plot) => JSON.stringify((plot.data ?? []).map(({ name, x, y }) => [name, x, y]))),
  ])"""
TRACE = """() => {
  const store = window.__openbook.runs[new URLSearchParams(location.search).get('run')];
  const {status, stop_reason, error, model, tokens, prefill, steps, max_new_tokens, origin, itl} = store;
  return JSON.stringify({status, stop_reason, error, model, tokens, prefill, steps, max_new_tokens, origin, itl},
    (key, value) => (key === 'bytes' ? undefined : value)); // worked out of `raw` when it is first drawn
}"""
CURSOR = "() => window.__openbook.runs[new URLSearchParams(location.search).get('run')].cursor"
PAGES = ("home", "tokenize", "prefill", "decode", "detokenize", "marks")
# What also shows, beside the record, what only live memory can tell: which notes were read, the scores of all tokens, pens for a branch.
LIVE = {("decode", kind) for kind in ("notes", "candidates", "step", "strip", "stages")}
LIVE |= {("prefill", kind) for kind in ("attention", "strip")}
SHOWN = {
    "home": {"answer"},
    "tokenize": {"strip", "wrapping", "merges"},
    "prefill": {"reading", "strip", "candidates", "clock"},
    "decode": {"answer", "timeline", "notes", "candidates", "step", "strip", "meters", "clock"},
    "detokenize": {"answer", "bytes"},
    "marks": {"meters", "clock", "charts", "pace"},
}


@pytest.fixture(scope="module")
def empty_app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AppServer]:
    """An app that has no weights and may not fetch any."""
    env = {"OPENBOOK_HOME": str(tmp_path_factory.mktemp("home")), "OPENBOOK_OFFLINE": "1"}
    server = AppServer(tmp_path_factory.mktemp("empty") / "app.log", env=env).start()
    yield server
    assert not server.stop(), "processes were left behind"
    assert "Traceback" not in server.text(), server.text()


@pytest.fixture
def visitor(browser: Browser, empty_app: AppServer) -> Iterator[Visitor]:
    found = visit(browser, empty_app.url)
    yield found
    found.close()
    assert not found.complaints


def pictures(page: Page) -> dict[str, list[Any]]:
    """Kind of picture → text, canvases and what charts draw, for each of that kind; once two looks in a row see the same."""
    seen: list[list[Any]] = []
    for _ in range(60):
        page.wait_for_timeout(250)
        blank = page.locator(".charts .plot:not(:has(.main-svg))").all()
        for chart in blank[:1]:
            chart.scroll_into_view_if_needed()  # nothing is drawn off the screen
        now = page.evaluate(PICTURES)
        if now and now == seen and not blank:
            found: dict[str, list[Any]] = {}
            for name, *shown in now:
                found.setdefault(name, []).append(shown)
            return found
        seen = now
    raise AssertionError("the pictures do not come to rest")


def numbers_of(shown: list[Any]) -> list[str]:
    """Candidates with their shares."""
    return re.findall(r"\S+\n+[\d.]+%", str(shown[0][0]).replace("✎\n", ""))


def compare(name: str, before: dict[str, list[Any]], after: dict[str, list[Any]]) -> None:
    """What page `name` shows of a run and of its recording."""
    assert set(after) >= {"progress"} | SHOWN[name]
    assert all(text.strip() for kind in SHOWN[name] for text, *_ in before[kind])
    assert {kind: after[kind] for kind in after if (name, kind) not in LIVE} == {
        kind: before[kind] for kind in before if (name, kind) not in LIVE
    }
    if name == "decode":
        assert len(numbers_of(before["candidates"])) == 10
        assert numbers_of(after["candidates"]) == numbers_of(before["candidates"]), "the same candidates; only the pens are gone"
    if name == "marks":
        drawn = [json.loads(chart) for _, _, charts in after["charts"] for chart in charts]
        assert len(drawn) == 3
        assert all(chart and chart[0][2] for chart in drawn), "every chart draws something, and the same as it did live"


def bring(page: Page, data: bytes) -> None:
    page.locator('input[type="file"]').set_input_files({"name": "record.json", "mimeType": "application/json", "buffer": data})


def test_out_and_in_again_gives_the_same_record_and_the_same_pictures(open_page: Callable[..., Visitor]) -> None:
    page = open_page("/").page
    desk = Desk(page)
    desk.longest(12)
    desk.press("shell.play")
    desk.until_status("ended", 120)
    before = {}
    for name in PAGES:
        desk.go(name)
        before[name] = pictures(page)
    told = page.evaluate(TRACE)
    desk.go("records")
    with page.expect_download() as caught:
        page.get_by_role("button", name=desk.words("records.as_json"), exact=True).click()
    path = caught.value.path()
    assert caught.value.suggested_filename == "openbook-1.json"
    data = Path(path).read_bytes()
    run = desk.run_id()

    other = open_page("/records").page
    there = Desk(other)
    bring(other, data)
    there.wait(lambda run: run["status"] == "ended")
    assert there.run_id() != run
    assert other.evaluate(TRACE) == told
    for name in PAGES:
        there.go(name)
        after = pictures(other)
        compare(name, before[name], after)
    there.go("records")
    with other.expect_download() as again:
        other.get_by_role("button", name=there.words("records.as_json"), exact=True).click()
    assert RunRecord.from_json(Path(again.value.path()).read_bytes()) == RunRecord.from_json(data)


def test_an_example_plays_at_once_without_any_weights(visitor: Visitor) -> None:
    page, desk = visitor.page, Desk(visitor.page)
    desk.button("records.example_smollm2_en").click()
    assert desk.until_status("ended")["generated"] == 48
    settle(page)
    assert page.get_by_text("This is a recording").is_visible()
    page.wait_for_function(f"({CURSOR})() === null")
    desk.choose("shell.speed", "shell.speed_slow")
    desk.press("shell.replay")
    page.wait_for_function(f"(({CURSOR})() ?? 99) < 20")
    page.wait_for_function(f"(({CURSOR})() ?? -1) >= 2")
    desk.go("decode")
    assert page.evaluate(CURSOR) is not None, "it plays on while the page changes"
    page.keyboard.press("Space")
    page.wait_for_timeout(300)
    stood = page.evaluate(CURSOR)
    page.wait_for_timeout(500)
    assert page.evaluate(CURSOR) == stood is not None
    settle(page)
    page.keyboard.press("ArrowRight")
    page.wait_for_function(f"({CURSOR})() === {stood + 1}")
    settle(page)
    desk.choose("shell.speed", "shell.speed_real")
    desk.press("shell.replay")
    page.wait_for_function(f"({CURSOR})() === null", timeout=15_000)
    assert desk.run()["status"] == "ended", "and nothing was asked of anybody"


def test_hostile_files_leave_the_session_as_it_was(visitor: Visitor) -> None:
    page, desk = visitor.page, Desk(visitor.page)
    desk.button("records.example_gemma_zh").click()
    desk.until_status("ended")
    run, said = desk.run_id(), page.evaluate(TRACE)
    desk.go("records")
    for kind, data in (("json", b"{"), ("order", changed("steps", 2, "index", value=9)), ("size", b"[" * 7_500_000)):
        bring(page, data)
        begin = i18n.text("en", f"errors.record_invalid_{kind}").split("{")[0].strip()
        page.locator('[data-testid="stBottom"]').get_by_text(begin).wait_for(timeout=20_000)
    assert desk.run_id() == run
    assert page.evaluate(TRACE) == said


def test_a_script_in_a_record_is_text(visitor: Visitor) -> None:
    page, desk = visitor.page, Desk(visitor.page)
    script = "<img src=x onerror=window.__hurt=1><script>window.__hurt=1</script>"
    desk.go("records")
    record = json.loads(changed("prompt", value=script))
    for step in record["steps"][:5]:
        step["token"] |= {"text": script, "raw": base64.b64encode(script.encode()).decode()}
    bring(page, json.dumps(record).encode())
    desk.until_status("ended")
    for name in ("records", "home", "tokenize", "decode", "detokenize"):
        if name != "records":
            desk.go(name)
        page.wait_for_timeout(500)
        assert page.evaluate("() => window.__hurt") is None, name


def test_the_web_page_works_offline_in_light_and_dark(browser: Browser, visitor: Visitor, tmp_path: Path) -> None:
    page, desk = visitor.page, Desk(visitor.page)
    desk.button("records.example_smollm2_en").click()
    desk.until_status("ended")
    desk.go("records")
    with page.expect_download() as caught:
        page.get_by_role("button", name=desk.words("records.as_html")).click()
    file = tmp_path / "record.html"
    file.write_bytes(Path(caught.value.path()).read_bytes())
    grounds = []
    for scheme in ("light", "dark"):
        context = browser.new_context(offline=True, color_scheme=scheme)
        sheet = context.new_page()
        asked: list[str] = []
        sheet.on("request", lambda request, asked=asked: asked.append(request.url))
        sheet.goto(file.as_uri())
        assert asked == [file.as_uri()]
        assert "Rayleigh" in sheet.locator(".answer").inner_text()
        assert sheet.locator("svg").count() == 2
        grounds.append(sheet.evaluate("() => getComputedStyle(document.body).backgroundColor"))
        context.close()
    assert grounds[0] != grounds[1]
