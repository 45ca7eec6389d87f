"""A record as CSV and as a web page: complete, harmless whatever its tokens are, and self-contained."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from streamlit.testing.v1 import AppTest

from engine import codec
from engine.measure.latency import summarize
from engine.trace import DecodeStep, RunRecord
from tests.hostile_files import GOOD, SCRIPT
from ui import i18n, numbers, spreadsheet

RECORD = codec.load_record(GOOD)
FORMULAS = ("=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", " =cmd|' /C calc'!A0", "\uff1d1", "%0A=1", "'=1", "|x")


def saying(text: str, at: int = 3) -> RunRecord:
    """The record with other words in one of its tokens, and in its question."""
    step: DecodeStep = RECORD.steps[at]
    token = replace(step.token, text=text, raw=text.encode())
    steps = (*RECORD.steps[:at], replace(step, token=token), *RECORD.steps[at + 1 :])
    return replace(RECORD, steps=steps, prompt=text, model=replace(RECORD.model, name=text[:200], versions={"torch": text[:200]}))


def rows(record: RunRecord) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(spreadsheet.sheet(record).removeprefix("\ufeff"), newline="")))


def test_one_row_for_each_token_with_its_own_numbers() -> None:
    found = rows(RECORD)
    assert RECORD.prefill is not None
    assert [int(row["id"]) for row in found] == [token.id for token in RECORD.generated]
    assert b"".join(bytes.fromhex(row["bytes_hex"]) for row in found) == b"".join(token.raw for token in RECORD.generated)
    assert float(found[0]["at_s"]) == RECORD.prefill.at_s
    assert found[0]["itl_s"] == "", "the first token has none"
    for row, step in zip(found[1:], RECORD.steps, strict=True):
        assert (float(row["itl_s"]), float(row["at_s"]), int(row["kv_bytes"])) == (step.itl_s, step.at_s, step.kv_bytes)
        assert float(row["waited_s"]) + float(row["busy_s"]) == pytest.approx(float(row["itl_s"]))


@pytest.mark.parametrize("text", FORMULAS)
def test_no_cell_begins_a_formula(text: str) -> None:
    row = rows(saying(text))[4]
    assert row["text"] == f"'{text}"
    for cell in row.values():
        assert not cell.lstrip().startswith(("=", "+", "-", "@"))


@pytest.mark.parametrize("text", ["plain", "你好", 'a "b", c\nd', SCRIPT, " two", "1"])
def test_other_text_stays_as_it_is(text: str) -> None:
    assert rows(saying(text))[4]["text"] == text


def write_page(record_json: str, language: str) -> str:
    """For AppTest: the page as a reader of that language saves it."""
    import streamlit as st

    from engine.trace import RunRecord
    from ui import handout, state

    st.session_state[state.LANGUAGE] = language
    st.session_state["page"] = handout.page(RunRecord.from_json(record_json), language)
    return ""


def page(record: RunRecord, language: str = "en") -> str:
    app = AppTest.from_function(write_page, args=(record.to_json(), language), default_timeout=20).run()
    assert not app.exception, app.exception
    return str(app.session_state["page"])


class Reader(HTMLParser):
    """All tags with their attributes, and all text outside the style."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1][0] != "style":
            self.words.append(data)


@pytest.mark.parametrize("language", i18n.LANGUAGES)
def test_the_page_tells_all_in_the_readers_language(language: str) -> None:
    text = page(RECORD, language)
    said = "".join(Reader(text).words)
    summary = summarize(RECORD)
    answer = b"".join(token.raw for token in RECORD.generated).decode()
    for words in (RECORD.prompt, answer, RECORD.model.name, numbers.milliseconds(summary.ttft_s), numbers.milliseconds(summary.tpot_s)):
        assert words in said
    assert i18n.text(language, "records.page_settings_title") in said
    assert f'lang="{"zh-CN" if language == "zh" else "en"}"' in text
    assert text.count("<svg") == 2
    assert text.count('<rect class="step') >= 2 * len(RECORD.steps), "the clock and the bars, one each for every step"


def test_the_page_needs_nothing_from_outside_and_runs_nothing() -> None:
    text = page(RECORD)
    tags = Reader(text).tags
    assert not {tag for tag, _ in tags} & {"script", "link", "img", "iframe", "object", "embed", "form", "a", "base"}
    assert not [name for _, attributes in tags for name in attributes if name.startswith("on") or name in ("src", "href", "srcset")]
    assert "url(" not in text
    assert "@import" not in text
    assert "prefers-color-scheme: dark" in text
    assert "default-src 'none'" in text


@pytest.mark.parametrize(
    "text", [SCRIPT, '"><img src=x onerror=alert(1)>', "</style><script>", "$title ${style} $$", "&lt;b&gt; &amp;", "]]><!--", "{language}"]
)
def test_hostile_words_are_words(text: str) -> None:
    clean, made = Reader(page(RECORD)), Reader(page(saying(text)))
    assert [tag for tag, _ in made.tags] == [tag for tag, _ in clean.tags], "no element more"
    assert "".join(made.words).count(text) >= 3, "question, answer, model"


def test_a_run_without_any_token_has_a_page_too() -> None:
    empty = replace(RECORD, prefill=None, steps=(), tokens=())
    assert "<svg" not in page(empty)
    assert rows(empty) == []


def test_one_token_has_no_time_between_tokens() -> None:
    text = page(replace(RECORD, steps=()))
    assert text.count("<svg") == 1
    assert re.search(r"TPOT\)</th><td>—", text)
