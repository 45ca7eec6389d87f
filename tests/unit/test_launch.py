"""launch.py: what it decides, and what it does in small folders of its own (an empty requirements.txt needs no network)."""

from __future__ import annotations

import argparse
import ast
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from string import Formatter
from types import SimpleNamespace

import pytest

import launch

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with launch.py, requirements that are already there, and the .venv that `install` makes of them."""
    folder = tmp_path_factory.mktemp("launch") / "made"
    folder.mkdir()
    shutil.copy(ROOT / "launch.py", folder)
    (folder / "requirements.txt").write_text("# nothing\n")
    (folder / "requirements-dev.txt").write_text("-r requirements.txt\n")
    code = "import launch; launch.install('requirements-dev.txt', False)"
    subprocess.run([sys.executable, "-c", code], cwd=folder, check=True, timeout=300)
    return folder


@pytest.fixture
def project(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """That folder without its .venv; `launch` is pointed at it."""
    folder = tmp_path / "project"
    shutil.copytree(made, folder, ignore=shutil.ignore_patterns(".venv"))
    point_at(folder, monkeypatch)
    return folder


@pytest.fixture
def moved(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """That folder with its .venv, in another place than it was made; `launch` is pointed at it."""
    folder = tmp_path / "moved"
    shutil.copytree(made, folder, symlinks=True)
    point_at(folder, monkeypatch)
    return folder


def point_at(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "ROOT", str(folder))
    monkeypatch.setattr(launch, "VENV", str(folder / ".venv"))
    relative = Path(launch.PYTHON).relative_to(Path(launch.PYTHON).parents[1])
    monkeypatch.setattr(launch, "PYTHON", str(folder / ".venv" / relative))


def test_an_old_python_can_read_the_file_and_is_told() -> None:
    ast.parse((ROOT / "launch.py").read_text(encoding="utf-8"), feature_version=(3, 6))
    assert "3.11" in launch.say("old_python", need="3.11", have="3.8")


def test_only_the_standard_library() -> None:
    tree = ast.parse((ROOT / "launch.py").read_text(encoding="utf-8"))
    names = {alias.name.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {(node.module or "").split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert names <= set(sys.stdlib_module_names)


@pytest.mark.parametrize("key", launch.WORDS)
def test_both_languages_fill_the_same_places(key: str) -> None:
    english, chinese = ({name for _, name, _, _ in Formatter().parse(text) if name} for text in launch.WORDS[key])
    assert english == chinese


def test_the_language_follows_the_locale(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(encoding="utf-8"))
    monkeypatch.delenv("LC_ALL", raising=False)
    monkeypatch.delenv("LC_MESSAGES", raising=False)
    for value, expected in {"zh_CN.UTF-8": True, "en_US.UTF-8": False, "C": False}.items():
        monkeypatch.setenv("LANG", value)
        assert launch.chinese() is expected
    monkeypatch.setenv("LC_ALL", "zh_TW.UTF-8")
    assert launch.chinese()
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(encoding="ascii"))
    assert not launch.chinese()


def test_options() -> None:
    options, extra = launch.read_options([])
    assert (options.command, options.port, options.lan, options.offline, options.no_browser, extra) == (
        "run",
        8501,
        False,
        False,
        False,
        [],
    )
    options, extra = launch.read_options(["test", "--offline", "--", "-k", "name", "--", "x"])
    assert (options.command, options.offline, extra) == ("test", True, ["-k", "name", "--", "x"])


@pytest.mark.parametrize("arguments", [["--port", "0"], ["--port", "65536"], ["--port", "x"], ["dance"], ["--prot", "1"]])
def test_wrong_options_end_with_code_two(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        launch.read_options(arguments)
    assert caught.value.code == 2


@pytest.mark.parametrize("lan", [False, True])
def test_a_taken_port_is_said(lan: bool, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(SystemExit) as caught:
            launch.main(["--port", str(port), *(["--lan"] if lan else [])])
    assert caught.value.code == 1
    assert str(port) in capsys.readouterr().out
    launch.require_port(port, lan)


def test_a_second_start_calls_nothing_even_in_another_place(moved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "Popen", lambda *rest, **more: pytest.fail("started a program"))
    launch.install("requirements-dev.txt", offline=False)
    launch.install("requirements.txt", offline=True)
    (moved / "requirements.txt").write_text("# something else\n")
    assert not launch.installed("requirements.txt")
    assert not launch.installed("requirements-dev.txt")


def test_offline_without_packages_says_so(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        launch.install("requirements.txt", offline=True)
    assert "--offline" in capsys.readouterr().out
    assert not (project / ".venv").exists()


def test_what_cannot_be_installed_is_said_and_not_stamped(
    moved: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (moved / "requirements.txt").write_text("no-such-package-of-ours==1\n")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(SystemExit):
        launch.install("requirements.txt", offline=False)
    assert "no-such-package-of-ours" in capsys.readouterr().out
    assert not launch.installed("requirements.txt")


def test_a_half_made_venv_is_made_anew(moved: Path) -> None:
    assert launch.venv_version() == sys.version_info[:2]
    [pip] = (moved / ".venv").rglob("site-packages/pip")
    shutil.rmtree(pip)
    assert launch.venv_version() is None
    launch.make_venv()
    assert launch.venv_version() == sys.version_info[:2]
    assert not launch.installed("requirements.txt"), "what was installed before is gone"


def test_a_python_that_went_away_counts_as_not_installed(moved: Path) -> None:
    assert launch.installed("requirements.txt")
    Path(launch.PYTHON).unlink()
    assert not launch.installed("requirements.txt")


@pytest.mark.parametrize("module", ["venv", "ensurepip"])
def test_a_python_without_venv_is_told_what_to_install(
    project: Path, module: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == module else object())
    with pytest.raises(SystemExit):
        launch.make_venv()
    assert "python3-venv" in capsys.readouterr().out


def test_two_starts_at_once(moved: Path) -> None:
    (moved / "requirements.txt").write_text("# a new line\n")
    code = "import launch; launch.install('requirements.txt', False)"
    both = [
        subprocess.Popen([sys.executable, "-c", code], cwd=moved, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for _ in range(2)
    ]
    said = [process.communicate(timeout=120)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    assert sum("requirements.txt" in out for out in said) == 1, said


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ({"error": "disk_full", "path": "/x", "needed_bytes": 5_000_000, "free_bytes": 1_000_000}, "5 MB are needed at /x, 1 MB are free"),
        ({"error": "download_failed", "package": "p", "detail": "why"}, "the download failed (why)"),
        ({"error": "something_new", "a": 1}, '"something_new"'),
        ({}, "{}"),
    ],
)
def test_reasons(message: dict, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "chinese", lambda: False)
    assert words in launch.reason(message)


def run_with(codes: dict[str, int], monkeypatch: pytest.MonkeyPatch, extra: list[str]) -> tuple[int, list[list[str]]]:
    ran: list[list[str]] = []

    def run(command: list[str], **_: object) -> SimpleNamespace:
        ran.append(command[2:])
        return SimpleNamespace(returncode=codes.get(command[2], 0))

    monkeypatch.setattr(subprocess, "run", run)
    return launch.run_tests(extra, {}), ran


def test_everything_runs_and_the_first_failure_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    code, ran = run_with({"mypy": 3, "pytest": 1}, monkeypatch, ["-k", "name"])
    assert code == 3
    assert [command[0] for command in ran] == ["ruff", "ruff", "mypy", "pytest"]
    assert ran[-1] == ["pytest", *launch.TIERS, "-k", "name"]
    code, ran = run_with({}, monkeypatch, ["tests/unit/test_launch.py::test_options"])
    assert (code, ran[-1]) == (0, ["pytest", "tests/unit/test_launch.py::test_options"])


def test_every_tier_is_there() -> None:
    assert all((ROOT / tier).exists() for tier in launch.TIERS)


@pytest.mark.parametrize(("lan", "address"), [(False, "127.0.0.1"), (True, "0.0.0.0")])
def test_only_this_computer_unless_asked(lan: bool, address: str, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[list[str]] = []
    monkeypatch.setattr(launch, "WINDOWS", False)
    monkeypatch.setattr(os, "execve", lambda python, command, environment: commands.append(command))
    monkeypatch.setattr(launch, "follow", lambda child: 0)
    monkeypatch.setattr(subprocess, "Popen", lambda *rest, **more: None)
    monkeypatch.chdir(project)
    launch.start_app(argparse.Namespace(lan=lan, no_browser=True, port=8502), {})
    text = " ".join(commands[0])
    assert f"--server.address {address}" in text
    assert "--server.port 8502" in text
    assert "--server.headless true" in text


@pytest.mark.skipif(os.name == "nt", reason="there is no exec on Windows")
@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_launch_ends_the_app(project: Path, sent: signal.Signals) -> None:
    (project / "streamlit.py").write_text("import os, time\nopen('pid', 'w').write(str(os.getpid()))\ntime.sleep(60)\n")
    start = "launch.start_app(launch.read_options(['--no-browser'])[0], launch.child_environment())"
    code = f"import launch, sys; launch.PYTHON = sys.executable; {start}"
    process = subprocess.Popen([sys.executable, "-c", code], cwd=project, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    pid = project / "pid"
    end = time.monotonic() + 20
    while not (pid.exists() and pid.read_text()) and time.monotonic() < end:
        time.sleep(0.05)
    assert int(pid.read_text()) == process.pid
    process.send_signal(sent)
    assert process.wait(10) != 0
