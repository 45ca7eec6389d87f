"""A record as one page to take home: a file that needs no network and no script, in the language of whoever saves it.

Knows a record, the words and the page's skeleton (assets/handout); does not know where the file goes. All that comes from a record is
escaped; the pictures are drawn here, as SVG.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from functools import partial
from pathlib import Path
from string import Template

from engine.generate.detokenize import answer_text
from engine.measure.latency import LatencySummary, summarize
from engine.trace import ModelInfo, RunRecord, RunStatus, RunView
from ui import ends, i18n, literal, numbers
from ui.state import t

SKELETON = Path(__file__).resolve().parent.parent / "assets" / "handout"
WIDE, CLOCK_TALL, ITL_TALL, LEFT, FOOT = 760, 74, 190, 52, 22
HEADING_MOST = 80  # characters of the question
THIN = 0.35  # of a bar's place is left free, as far as there is room

Say = Callable[..., str]  # a text's key → its words


def page(record: RunRecord, language: str) -> str:
    """The whole file. The language is handed in: it may be written outside of any session, when somebody takes it home."""
    say = partial(i18n.text, language)
    summary = summarize(record)
    shown = view_of(record)
    words = {
        "lang": "zh-CN" if language == "zh" else "en",
        "title": f"{say('shell.product')} · {literal.beginning(record.prompt, HEADING_MOST)}",
        "eyebrow": say("records.page_eyebrow"),
        "heading": literal.beginning(record.prompt, HEADING_MOST),
        "made": say("records.made", **origin_words(record.created, record.model)),
        "question": record.prompt,
        "answer": answer_text(record.generated, skip_special=True) or numbers.NOTHING,
        "ended": say(f"stops.{ends.sentence(shown)}") if record.stop_reason else "",
        "footer": say("records.page_footer", schema=record.schema),
    }
    titles = ("asked", "answered", "metrics_title", "clock_title", "itl_title", "settings_title")
    words |= {name: say(f"records.page_{name}") for name in titles}
    filled = {name: html.escape(text) for name, text in words.items()}
    drawn = {
        "style": (SKELETON / "handout.css").read_text(encoding="utf-8"),
        "metrics": _table(metric_rows(record, summary, say)),
        "settings": _table(setting_rows(record, say)),
        "clock": _clock(record, say),
        "clock_key": _key(("queue", "cut", "read", "sample", "step"), say),
        "itl": _itl(record, summary, say),
        "itl_key": _key(("step", "wait"), say),
    }
    return Template((SKELETON / "handout.html").read_text(encoding="utf-8")).substitute(filled | drawn)


def view_of(record: RunRecord) -> RunView:
    """The record as a run that has ended, for all that is said of runs."""
    said = (record.prompt, record.settings, record.model.model_id, record.created, RunStatus.ENDED, record.model, record.tokens)
    return RunView("", *said, record.prefill, record.steps, record.stop_reason, record.error, origin=record.origin, recording=True)


def origin_words(created: str, model: ModelInfo) -> dict[str, str]:
    """When and on what a run was made: places of the texts `made` and `banner`."""
    made = datetime.fromisoformat(created)
    zone = made.strftime("%z")
    date = made.strftime("%Y-%m-%d %H:%M") + (f" UTC{zone[:3]}:{zone[3:5]}" if zone else "")
    return {"date": date, "device": model.device, "dtype": model.dtype, "model": model.name}


def metric_rows(record: RunRecord, summary: LatencySummary, say: Say) -> Iterator[tuple[str, str]]:
    """What was measured, in words."""
    newest, speed = record.steps[-1] if record.steps else record.prefill, summary.decode_tokens_per_s
    yield say("records.prompt_tokens"), f"{len(record.tokens):,}"
    yield say("records.tokens"), f"{summary.tokens:,}"
    for name in ("ttft", "tpot", "p50_itl", "p95_itl"):
        yield say(f"records.{name}"), numbers.milliseconds(getattr(summary, f"{name}_s"))
    yield say("records.speed"), numbers.NOTHING if speed is None else f"{speed:,.1f}"
    yield say("records.kv"), numbers.NOTHING if newest is None else f"{numbers.mebibytes(newest.kv_bytes)} ({newest.kv_bytes:,} B)"
    yield say("records.waited"), numbers.milliseconds(summary.waited_s)


def setting_rows(record: RunRecord, say: Say) -> Iterator[tuple[str, str]]:
    """What was asked for and on what it ran, in words."""
    model, asked = record.model, record.settings
    system = model.default_system_prompt if asked.system_prompt is None else asked.system_prompt
    yield say("records.model"), f"{model.name} ({model.parameters / 1e6:,.0f} M)"
    yield say("records.device"), f"{model.device} · {model.dtype}"
    yield say("records.versions"), " · ".join(f"{name} {version}" for name, version in model.versions.items()) or numbers.NOTHING
    yield say("errors.field_max_new_tokens"), f"{asked.max_new_tokens:,}"
    yield say("errors.field_temperature"), f"{asked.temperature:g}" + (f" · {say('records.greedy')}" if not asked.temperature else "")
    for name in ("top_k", "top_p", "seed"):
        yield say(f"errors.field_{name}"), f"{getattr(asked, name):g}" if name == "top_p" else str(getattr(asked, name))
    yield say("errors.field_use_chat_template"), say("records.on" if asked.use_chat_template else "records.off")
    yield say("errors.field_system_prompt"), (system or numbers.NOTHING) if asked.use_chat_template else numbers.NOTHING


def _table(rows: Iterator[tuple[str, str]]) -> str:
    return "".join(f"<tr><th>{html.escape(name)}</th><td>{html.escape(value)}</td></tr>" for name, value in rows)


def _key(kinds: tuple[str, ...], say: Say) -> str:
    return " ".join(f'<span class="one"><i class="swatch {kind}"></i>{html.escape(say(f"records.key_{kind}"))}</span>' for kind in kinds)


def _clock(record: RunRecord, say: Say) -> str:
    """One line from the question to the last token, to scale; pauses of the reader are left out, as in all times."""
    parts = _parts(record)
    whole_s = sum(seconds for _, seconds in parts)
    if not whole_s:
        return f"<p>{numbers.NOTHING}</p>"
    drawn, at = [], 0.0
    for kind, seconds in parts:
        left, width = WIDE * at / whole_s, WIDE * seconds / whole_s
        drawn.append(_bar(kind, left, 8, max(width - min(width * 0.12, 1), 0.2), CLOCK_TALL - FOOT - 12))
        at += seconds
    labels = [(0.0, "start", "0"), (float(WIDE), "end", numbers.milliseconds(whole_s))]
    if record.prefill is not None and (at_x := WIDE * record.prefill.ttft_s / whole_s) < WIDE - 150 and at_x > 60:
        labels.append((at_x, "middle", f"TTFT {numbers.milliseconds(record.prefill.ttft_s)}"))
    drawn += [_said(x, CLOCK_TALL - 6, anchor, words) for x, anchor, words in labels]
    return _svg(CLOCK_TALL, say("records.page_clock_title"), drawn)


def _parts(record: RunRecord) -> list[tuple[str, float]]:
    read = record.prefill
    if read is None:
        return []
    first = [("queue", read.queue_s), ("cut", read.template_s + read.tokenize_s), ("read", read.prefill_s), ("sample", read.sample_s)]
    steps = [part for step in record.steps for part in (("wait", step.waited_s), ("step late" if step.index % 2 else "step", step.busy_s))]
    return [part for part in (*first, *steps) if part[1] > 0]


def _itl(record: RunRecord, summary: LatencySummary, say: Say) -> str:
    """One bar for each token after the first: its own work, and on top of it the waiting for others."""
    if not record.steps:
        return f"<p>{numbers.NOTHING}</p>"
    top_s, tall, room = max(summary.itl_s) or 1.0, ITL_TALL - FOOT - 10, WIDE - LEFT
    place = room / len(record.steps)
    drawn = [f'<line class="axis" x1="{LEFT}" x2="{WIDE}" y1="{10 + tall}" y2="{10 + tall}"/>']
    for number, step in enumerate(record.steps):
        left, width, work = LEFT + place * number, place * (1 - THIN), tall * step.busy_s / top_s
        wait = tall * step.waited_s / top_s
        drawn += [_bar("step", left, 10 + tall - work, width, work), _bar("wait", left, 10 + tall - work - wait, width, wait)]
    if summary.tpot_s is not None and summary.tpot_s <= top_s:
        y = 10 + tall - tall * summary.tpot_s / top_s
        drawn.append(f'<line class="median" x1="{LEFT}" x2="{WIDE}" y1="{y:.1f}" y2="{y:.1f}"/>')
        drawn.append(_said(WIDE, y - 5, "end", f"TPOT {numbers.milliseconds(summary.tpot_s)}"))
    drawn += [_said(LEFT - 6, 20, "end", numbers.milliseconds(top_s)), _said(LEFT - 6, 10 + tall, "end", "0")]
    drawn += [_said(LEFT, ITL_TALL - 5, "start", "1"), _said(WIDE, ITL_TALL - 5, "end", f"{len(record.steps):,}")]
    return _svg(ITL_TALL, say("records.page_itl_title"), drawn)


def _svg(tall: int, name: str, drawn: list[str]) -> str:
    return f'<svg viewBox="0 0 {WIDE} {tall}" role="img" aria-label="{html.escape(name)}">{"".join(drawn)}</svg>'


def _bar(kind: str, x: float, y: float, width: float, tall: float) -> str:
    return f'<rect class="{kind}" x="{x:.2f}" y="{y:.2f}" width="{width:.2f}" height="{tall:.2f}"/>' if tall > 0 else ""


def _said(x: float, y: float, anchor: str, words: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{html.escape(words)}</text>'


def parameters(record: RunRecord) -> Mapping[str, str]:
    """Setting → value, by name, for comparing."""
    return dict(setting_rows(record, t))
