"""`python -m engine.model.weights`: one line while it works, an exit code and one clear line at the end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine.errors import Offline
from engine.model import console, weights
from engine.model.registry import ModelSpec
from engine.settings import Settings

ROOT = Path(__file__).resolve().parents[2]


def test_a_failure_is_exit_code_one_and_one_line(tmp_path: Path) -> None:
    env = {**os.environ, "OPENBOOK_HOME": str(tmp_path), "OPENBOOK_OFFLINE": "1"}
    command = [sys.executable, "-m", "engine.model.weights", "smollm2-135m"]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stdout.split("\n") == ["", "offline: model='smollm2-135m'", ""]
    assert done.stderr == ""


def test_a_wrong_setting_is_one_line_too(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("OPENBOOK_LEASE_S", "six")
    assert console.main(["--json", "smollm2-135m"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert (told["error"], told["field"], told["value"]) == ("invalid_setting", "OPENBOOK_LEASE_S", "six")


def test_json_lines_for_a_program(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    def ensure(spec: ModelSpec, settings: Settings, progress: weights.Progress) -> Path:
        progress("download", 1, 2)
        if spec.key == "gpt2":
            raise Offline(model=spec.key)
        return tmp_path

    monkeypatch.setattr(weights, "ensure", ensure)
    assert console.main(["--json", "smollm2-135m"]) == 0
    assert console.main(["--json", "gpt2"]) == 1
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    step = {"stage": "download", "done": 1, "total": 2}
    assert lines == [step, {"ready": str(tmp_path)}, step, {"error": "offline", "model": "gpt2"}]


def test_lines_are_not_a_flood(capsys: pytest.CaptureFixture[str]) -> None:
    now = iter(range(1000))
    line = console.Line("m", every_s=10.0, clock=lambda: float(next(now)))
    for done in range(100):
        line.show("download", done * 1_000_000, 99_000_000)
    line.show("convert", 0, 0)
    printed = [text.strip() for text in capsys.readouterr().out.splitlines()]
    assert printed[0] == "m: download 0.0 / 99.0 MB"
    assert printed[-2:] == ["m: download 99.0 / 99.0 MB", "m: convert …"]
    assert len(printed) == 12
