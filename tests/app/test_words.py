"""The words of the app: every failure and ending has some, none is missing, untrusted ones stay literal."""

from __future__ import annotations

import ast
import dataclasses
import re
from pathlib import Path

import pytest

from engine import codec, errors
from engine.trace import RunSettings, StopReason
from ui import failures, i18n, state

ROOT = Path(__file__).resolve().parents[2]
HOSTILE = "</span><script>alert(1)</script> $5 and $6 _a_ :red[x] **b** `c` ``` :material/home:"


@pytest.mark.parametrize("language", i18n.LANGUAGES)
def test_every_failure_and_every_ending_has_words(language: str) -> None:
    codes = {kind.code for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.EngineError)}
    words = set(i18n.table("errors"))
    assert codes <= words
    terms = {key for key in words if key.startswith(("field_", "detail_", "reason_"))}
    ranges = {f"out_of_range_{field}" for field in ("until", "rows", "key", "count")}
    listed = re.search(r"what is wrong \(([a-z|\s]+)\)", codec.load_record.__doc__ or "")
    assert listed is not None
    faults = {f"record_invalid_{kind.strip()}" for kind in listed[1].split("|")}
    assert words - codes - terms == {"hash_mismatch_long", "invalid_setting_system_prompt", *ranges, *faults}
    assert {str(reason) for reason in StopReason} | {"eos_hand", "refused", "power"} == set(i18n.table("stops")), "as ui.ends.sentence"
    assert all(i18n.text(language, f"errors.{code}") for code in codes)


REASONED = [errors.AttentionUnavailable, errors.LensUnavailable, errors.StagesUnavailable]


@pytest.mark.parametrize("kind", REASONED, ids=lambda kind: kind.code)
def test_every_reason_that_is_documented_has_words(kind: type[errors.EngineError]) -> None:
    listed = re.search(r"reason \(([a-z_| ]+)\)", kind.__doc__ or "")
    assert listed is not None
    assert {f"reason_{reason}" for reason in listed[1].split(" | ")} <= set(i18n.table("errors"))


def test_every_setting_of_a_run_has_a_name() -> None:
    """Every one that can be refused: a switch has no range to leave."""
    ranged = [field.name for field in dataclasses.fields(RunSettings) if field.type != "bool"]
    assert "context_limit" in ranged
    assert {f"field_{name}" for name in ranged} <= set(i18n.table("errors"))


def test_whatever_a_look_can_ask_for_in_vain_has_a_name() -> None:
    """Every field that OutOfRange is raised with, as the engine's code says it."""
    fields = set()
    for path in (ROOT / "engine").rglob("*.py"):
        code = path.read_text(encoding="utf-8")
        fields |= set(re.findall(r'(?:OutOfRange\(field=|check_range\()"(\w+)"', code))
    assert {"layer", "query", "until"} <= fields
    words = set(i18n.table("errors"))
    assert not [field for field in fields if not {f"field_{field}", f"out_of_range_{field}"} & words]


CHINESE = [
    (errors.OutOfRange(field="layer", value=40, count=30), "没有编号 40 的层"),
    (errors.InvalidSetting(field="temperature", value="-1", allowed="0 … 2"), "设置项 温度 不能是"),
    (errors.InvalidSetting(field="system_prompt", value="text", allowed="null"), "没有系统提示的位置"),
    (errors.AttentionUnavailable(reason="unrecorded"), "没有留下记录"),
    (errors.LensUnavailable(reason="layers"), "找不到它的各层"),
    (errors.OutOfRange(field="until", value=0, count=12), "画到第 0 个词元为止：一共读过 12 个"),
    (errors.OutOfRange(field="rows", value=0, count=12), "画不出 0 行"),
    (errors.OutOfRange(field="query", value=12, count=12), "没有编号 12 的在看的词元"),
    (errors.OutOfRange(field="key", value=6, count=6), "看不到位置 6"),
    (errors.OutOfRange(field="count", value=0, count=9), "可以要 1 到 9 个"),
    (errors.ModelNotLoaded(model="m"), "模型 ` m ` 现在不在内存里"),
    (errors.InvalidSetting(field="recording_limit_bytes", value="-1", allowed="0"), "“查询”的内存上限"),
    (errors.EngineUnavailable(detail="timeout"), "等了太久没有回音"),
    (errors.OutOfMemory(detail="KV cache: 3145728 B needed, 1048576 B allowed"), "KV 缓存需要 3.00 MiB，只允许 1.00 MiB"),
    (errors.DiskFull(path="/x", needed_bytes=3 << 30, free_bytes=1 << 20), "需要 3.00 GiB，只剩 1.00 MiB"),
    (errors.HashMismatch(file="m.gguf", expected="a" * 64, found="more than 93000000 bytes"), "比应有的长"),
    (errors.HashMismatch(file="m.gguf", expected="a" * 64, found="b" * 64), "指纹是 ` bbbb"),
    (errors.StorageFailed(path="/x", detail="[Errno 30] Read-only file system"), "` [Errno 30] Read-only file system `"),
    (errors.NotFinite(), "没法再抽词元"),
    (errors.Unwatched(), "没人在看"),
    (errors.UnsupportedConfig(field="head_dim", value="0"), "字段 ` head_dim `"),
]


@pytest.mark.parametrize(("failure", "words"), CHINESE, ids=lambda value: getattr(value, "code", ""))
def test_chinese_sentences_hold_chinese_words(monkeypatch: pytest.MonkeyPatch, failure: errors.EngineError, words: str) -> None:
    monkeypatch.setattr(state, "language", lambda: "zh")
    monkeypatch.setattr(state, "may_steer", lambda: True)
    assert words in failures.explain(failure.info)


def test_only_the_owner_is_told_where_things_lie(monkeypatch: pytest.MonkeyPatch) -> None:
    full = errors.DiskFull(path="/home/teacher/cache", needed_bytes=1, free_bytes=0).info
    for mine, place in ((True, "` /home/teacher/cache `"), (False, "` cache `")):
        monkeypatch.setattr(state, "may_steer", lambda mine=mine: mine)
        assert place in failures.explain(full)


def test_missing_text_raises() -> None:
    with pytest.raises(i18n.MissingText):
        i18n.text("en", "home.no_such_text")
    with pytest.raises(i18n.MissingText):
        i18n.text("xx", "home.title")


def test_every_text_that_is_asked_for_exists() -> None:
    for path in [*(ROOT / "pages").glob("*.py"), *(ROOT / "ui").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            asked = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "t" and node.args
            if asked and isinstance(node.args[0], ast.Constant):
                for language in i18n.LANGUAGES:
                    assert i18n.text(language, node.args[0].value), f"{path.name}: {node.args[0].value}"


def test_untrusted_words_stay_inside_their_code_span() -> None:
    for nasty in ("a`b", "``` x ```", "`", HOSTILE, "", "line\nline"):
        span = failures.code_span(nasty)
        fence = span[: len(span) - len(span.lstrip("`"))]
        assert span.endswith(fence)
        assert fence not in span[len(fence) : -len(fence)] or not nasty
