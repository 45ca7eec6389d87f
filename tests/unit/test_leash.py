"""A child process that ends when it should: by itself, when we are interrupted, and when we are killed."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import psutil
import pytest

from engine.model import leash

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def module(tmp_path: Path) -> dict[str, str]:
    """A module `ob_child`: prints, notes its pid in the file given, then ends with 3 or sleeps a minute."""
    (tmp_path / "lib").mkdir()
    code = "import os, sys, tempfile, time\nprint('ERROR: told', tempfile.gettempdir())\nprint('last')\nsys.stdout.flush()\n"
    code += "open(sys.argv[1], 'w').write(str(os.getpid()))\ntime.sleep(float(sys.argv[2]))\nsys.exit(3)\n"
    (tmp_path / "lib" / "ob_child.py").write_text(code)
    (tmp_path / "work").mkdir()
    return {"PYTHONPATH": str(tmp_path / "lib")}


def test_exit_code_and_words(module: dict[str, str], tmp_path: Path) -> None:
    work = tmp_path / "work"
    ended = leash.run_module("ob_child", [str(tmp_path / "pid"), "0"], folder=work, environment=module, tick=lambda: None)
    assert ended.exit_code == 3
    assert ended.lines == (f"ERROR: told {work / 'tmp'}", "last")
    assert ended.last_line.startswith("ERROR: told")


def test_an_interrupt_ends_the_child(module: dict[str, str], tmp_path: Path) -> None:
    pid = tmp_path / "pid"

    def tick() -> None:
        if pid.exists() and pid.read_text():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        leash.run_module("ob_child", [str(pid), "60"], folder=tmp_path / "work", environment=module, tick=tick)
    assert not psutil.pid_exists(int(pid.read_text()))


class _Stalled(BaseHTTPRequestHandler):
    """A package index that takes the question and never answers."""

    asked = threading.Event()

    def do_GET(self) -> None:
        self.asked.set()
        time.sleep(30)

    def log_message(self, format: str, *args: object) -> None:
        return


def test_kill_minus_nine_in_the_middle_of_a_download_takes_pip_along(tmp_path: Path) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Stalled)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    mine = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    index = {"PIP_INDEX_URL": f"http://127.0.0.1:{server.server_port}/simple", "PIP_CONFIG_FILE": os.devnull}
    environment = {**mine, **index, "OB_COUNTER": str(tmp_path / "counter"), "OB_WAIT_S": "0", "no_proxy": "127.0.0.1"}
    command = [sys.executable, "-m", "tests.wheels", str(tmp_path / "home")]
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL)
    try:
        assert _Stalled.asked.wait(30)
        pip = psutil.Process(process.pid).children(recursive=True)
        assert pip
    finally:
        process.kill()
        process.wait()
        server.shutdown()
    _, alive = psutil.wait_procs(pip, timeout=10)
    assert not alive
