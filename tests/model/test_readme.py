"""The README's Python example runs as it is printed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from engine.trace import RunRecord

README = Path(__file__).resolve().parents[2] / "README.md"


def test_the_example_runs(smollm2_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    [example] = re.findall(r"^```python\n(.*?)^```", README.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    names: dict[str, object] = {}
    exec(compile(example, "README.md", "exec"), names)
    out = capsys.readouterr().out
    assert "bytes in the KV cache" in out
    record = names["record"]
    assert isinstance(record, RunRecord)
    assert len(record.steps) == 15, "the first of 16 tokens belongs to prefill"
