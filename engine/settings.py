"""Settings of this installation. The only reader of environment variables; knows no run and no model."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from engine.errors import InvalidSetting

LEASE_S = 7.0
LONGEST_LEASE_S = 86_400.0
HELD_RUNS, KEPT_RUNS, MOST_RUNS = 16, 256, 100_000


@dataclass(frozen=True, slots=True)
class Settings:
    """Where things lie and how long things last.

    home: cache of converted weights (OPENBOOK_HOME, else ~/.cache/openbook). model: what the app loads first (OPENBOOK_MODEL).
    device: auto | cpu | cuda | cuda:N | mps (OPENBOOK_DEVICE). offline: never touch the network (OPENBOOK_OFFLINE=1, or HF_HUB_OFFLINE=1).
    any_model: a visitor may name any hub id or folder, not only models of the registry (OPENBOOK_ANY_MODEL=0 switches it off).
    lease_s: a run that nobody has watched for so long is cancelled (OPENBOOK_LEASE_S).
    spare_threads: cores that decode leaves to others. 0 in a notebook; the app's engine leaves one to the browser, which draws every
    step on the same machine: on two cores it slowed a two-threaded decode by 30 %, a one-threaded one not at all (measured).
    held_runs: runs whose live cache is kept at once (OPENBOOK_HELD_RUNS). kept_runs: records kept in the app's memory (OPENBOOK_KEPT_RUNS).
    """

    home: Path
    model: str = "smollm2-135m"
    device: str = "auto"
    offline: bool = False
    any_model: bool = True
    lease_s: float = LEASE_S
    spare_threads: int = 0
    held_runs: int = HELD_RUNS
    kept_runs: int = KEPT_RUNS

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> Settings:
        """Raises InvalidSetting, whose `field` is the name of the variable."""
        env = os.environ if environ is None else environ
        home = env.get("OPENBOOK_HOME", "").strip()
        return cls(
            home=Path(home).expanduser() if home else Path.home() / ".cache" / "openbook",
            model=env.get("OPENBOOK_MODEL", "").strip() or "smollm2-135m",
            device=env.get("OPENBOOK_DEVICE", "").strip() or "auto",
            offline=_flag(env.get("OPENBOOK_OFFLINE")) or _flag(env.get("HF_HUB_OFFLINE")),
            any_model=_any_model(env.get("OPENBOOK_ANY_MODEL", "").strip()),
            lease_s=_lease_s(env.get("OPENBOOK_LEASE_S", "").strip()),
            held_runs=_count("OPENBOOK_HELD_RUNS", env, HELD_RUNS),
            kept_runs=_count("OPENBOOK_KEPT_RUNS", env, KEPT_RUNS),
        )


@dataclass(frozen=True, slots=True)
class VisibleCards:
    """Which graphics cards CUDA shows to this process, and in which order.

    `names`: what CUDA_VISIBLE_DEVICES lists (an index, a UUID or its beginning, a MIG name), up to the first that is none, as CUDA reads
    it: "" and "-1" show no card. None: all of them. `by_bus`: indices count along the bus, as NVML's do; otherwise CUDA may count the
    fastest first.
    """

    names: tuple[str, ...] | None = None
    by_bus: bool = False

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> VisibleCards:
        env = os.environ if environ is None else environ
        listed = env.get("CUDA_VISIBLE_DEVICES")
        by_bus = env.get("CUDA_DEVICE_ORDER", "").strip() == "PCI_BUS_ID"
        return cls(None if listed is None else tuple(_cards(listed)), by_bus)


def _cards(listed: str) -> Iterator[str]:
    for name in (part.strip() for part in listed.split(",")):
        if not (name.isascii() and name.isdigit()) and not name.startswith(("GPU-", "MIG-")):
            return
        yield name


def _flag(value: str | None) -> bool:
    return (value or "").strip().lower() in {"1", "true", "yes", "on"}


def _any_model(value: str) -> bool:
    """A switch that keeps something out must not be misread: what is neither on nor off is refused."""
    if not value or _flag(value):
        return True
    if value.lower() in {"0", "false", "no", "off"}:
        return False
    raise InvalidSetting(field="OPENBOOK_ANY_MODEL", value=value, allowed="0 | 1")


def _count(field: str, env: Mapping[str, str], default: int) -> int:
    value = env.get(field, "").strip() or str(default)
    count = int(value) if value.isascii() and value.isdigit() and len(value) < 9 else 0
    if not 1 <= count <= MOST_RUNS:
        raise InvalidSetting(field=field, value=value, allowed=f"1 … {MOST_RUNS}")
    return count


def _lease_s(value: str) -> float:
    try:
        lease_s = float(value or LEASE_S)
    except ValueError:
        lease_s = 0.0
    if not 0 < lease_s <= LONGEST_LEASE_S:  # nor is NaN in there
        raise InvalidSetting(field="OPENBOOK_LEASE_S", value=value, allowed=f"0 < … ≤ {LONGEST_LEASE_S:.0f}")
    return lease_s
