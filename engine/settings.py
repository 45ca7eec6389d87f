"""Settings of this installation. The only reader of environment variables; knows no run and no model."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Settings:
    """Where things lie and how long things last.

    home: cache of converted weights (OPENBOOK_HOME, else ~/.cache/openbook). model: what the app loads first (OPENBOOK_MODEL).
    device: auto | cpu | cuda | cuda:N | mps (OPENBOOK_DEVICE). offline: never touch the network (OPENBOOK_OFFLINE=1, or HF_HUB_OFFLINE=1).
    lease_s: a run that nobody has watched for so long is cancelled (OPENBOOK_LEASE_S).
    spare_threads: cores that decode leaves to others. 0 in a notebook; the app's engine leaves one to the browser, which draws every
    step on the same machine: on two cores it slowed a two-threaded decode by 30 %, a one-threaded one not at all (measured).
    held_runs: runs whose live cache is kept at once. kept_runs: records kept in the app's memory.
    """

    home: Path
    model: str = "smollm2-135m"
    device: str = "auto"
    offline: bool = False
    lease_s: float = 6.0
    spare_threads: int = 0
    held_runs: int = 16
    kept_runs: int = 256

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> Settings:
        env = os.environ if environ is None else environ
        home = env.get("OPENBOOK_HOME", "").strip()
        return cls(
            home=Path(home).expanduser() if home else Path.home() / ".cache" / "openbook",
            model=env.get("OPENBOOK_MODEL", "").strip() or "smollm2-135m",
            device=env.get("OPENBOOK_DEVICE", "").strip() or "auto",
            offline=_flag(env.get("OPENBOOK_OFFLINE")) or _flag(env.get("HF_HUB_OFFLINE")),
            lease_s=float(env.get("OPENBOOK_LEASE_S", "").strip() or 6.0),
        )


def _flag(value: str | None) -> bool:
    return (value or "").strip().lower() in {"1", "true", "yes", "on"}
