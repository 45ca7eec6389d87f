"""A Python module run as a child process that never outlives us.

Knows processes; does not know what the child does. The child holds one end of a pipe and ends itself when our end closes,
which the system does for us even after kill -9, on every platform.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

POLL_S = 0.2
_CHILD = (
    "import os, runpy, sys, threading\n"
    "threading.Thread(target=lambda: (os.read(0, 1), os._exit(9)), daemon=True).start()\n"
    "del sys.argv[0]\n"
    "runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)\n"
)


@dataclass(frozen=True, slots=True)
class Ended:
    """`lines`: what the child printed (both streams, blank lines left out)."""

    exit_code: int
    lines: tuple[str, ...]

    @property
    def last_line(self) -> str:
        """The last line that names an error, else the last line, else the exit code."""
        errors = [line for line in self.lines if line.startswith("ERROR")]
        return (errors or list(self.lines) or [f"exit code {self.exit_code}"])[-1][:400]


def run_module(module: str, arguments: list[str], *, folder: Path, environment: Mapping[str, str], tick: Callable[[], None]) -> Ended:
    """Run `python -m module arguments` with `folder` as its working and temporary folder; `tick` is called five times a second.

    The child is ended when `tick` raises, when we are interrupted and when we die.
    """
    temporary = folder / "tmp"
    temporary.mkdir(exist_ok=True)
    places = dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(temporary))
    log = folder / f"{module.rpartition('.')[2]}.log"
    with log.open("wb") as out:
        child = subprocess.Popen(
            [sys.executable, "-c", _CHILD, module, *arguments],
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env={**os.environ, "PYTHONUTF8": "1", **environment, **places},
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )
        _watch(child, tick)
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return Ended(child.returncode, tuple(line.strip() for line in lines if line.strip()))


def _watch(child: subprocess.Popen[bytes], tick: Callable[[], None]) -> None:
    try:
        while True:
            try:
                child.wait(POLL_S)
                return
            except subprocess.TimeoutExpired:
                tick()
    finally:
        child.kill()
        child.wait()
        if child.stdin:
            child.stdin.close()
