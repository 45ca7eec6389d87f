"""Sweeps that take as long as a test wants them to. Knows the environment of an engine process; does not know who starts it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True, slots=True)
class Pace:
    """`file` holds the seconds that each part of a layer takes, for engine processes with `env`."""

    file: Path

    def set(self, seconds: float) -> None:
        """From now on, also inside a reading that is under way."""
        new = self.file.with_suffix(".new")
        new.write_text(str(seconds))
        new.replace(self.file)  # nobody reads half of it

    @property
    def env(self) -> dict[str, str]:
        return {"PYTHONPATH": str(HERE), "DAWDLE_FILE": str(self.file)}
