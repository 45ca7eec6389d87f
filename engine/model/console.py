"""The shell's way to the weights: `python -m engine.model.weights KEY`. Knows how to print; does not know how weights are made.

Plain lines for people, `--json` for a program (launch.py puts them into the reader's language).
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Sequence

from engine.errors import EngineError
from engine.model import registry, weights
from engine.settings import Settings
from engine.trace import LoadStage

MB = 1e6


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0 when the weights are ready (or what was asked for is done), 1 with one line that says why not."""
    options = _options(arguments)
    try:
        settings = Settings.from_env()
        spec = registry.find(options.model)
        if options.terms:
            print(weights.terms_text(spec, settings))
            return 0
        if options.accept_terms:
            weights.accept_terms(spec, settings)
        folder = weights.ensure(spec, settings, _json_lines if options.json else Line(spec.key).show)
    except EngineError as error:
        print(json.dumps({"error": error.code, **error.params}) if options.json else f"\n{error}", flush=True)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # nobody reads any more; nor may the interpreter try to flush on its way out
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    print(json.dumps({"ready": str(folder)}) if options.json else f"\n{folder}", flush=True)
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m engine.model.weights", description="Fetch, check and convert the weights of a model.")
    parser.add_argument("model", nargs="?", default=registry.DEFAULT_MODEL, help="key, hub id or folder")
    parser.add_argument("--terms", action="store_true", help="print the terms of the model and end")
    parser.add_argument("--accept-terms", action="store_true", help="record that you accept them, then fetch")
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    return parser.parse_args(arguments)


def _json_lines(stage: LoadStage, done: int, total: int) -> None:
    print(json.dumps({"stage": stage, "done": done, "total": total}), flush=True)


class Line:
    """One line that is written over on a terminal; elsewhere a new line per stage and every `every_s` seconds."""

    def __init__(self, name: str, every_s: float = 10.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._name, self._clock, self._terminal = name, clock, sys.stdout.isatty()
        self._every_s = 0.2 if self._terminal else every_s
        self._last: tuple[str, int, float] = ("", 0, 0.0)

    def show(self, stage: LoadStage, done: int, total: int) -> None:
        now = self._clock()
        same_stage, finished = self._last[0] == stage, 0 < total == done != self._last[1]
        if same_stage and not finished and now - self._last[2] < self._every_s:
            return
        amount = f"{done / MB:.1f} / {total / MB:.1f} MB" if total else "…"
        print(f"{self._name}: {stage} {amount}".ljust(60), end="\r" if self._terminal else "\n", flush=True)
        self._last = (stage, done, now)
