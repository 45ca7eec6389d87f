"""What this machine was measured to do, as it is kept and shown. Knows numbers and their conditions; measures nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Measuring = Literal["never", "once", "again"]  # what is asked for: only what is kept; measured unless it is kept; measured now


@dataclass(frozen=True, slots=True)
class Conditions:
    """How it was measured. `matmul_size` n: an n × n by n × n product. `read_bytes`: of what was read, far more than caches hold.
    `repeats`: tries of each, of which the best one counts. `load`: share of all cores that was busy just before, 0 … 1; None: not told.
    """

    matmul_size: int
    read_bytes: int
    repeats: int
    machine: str
    torch: str
    load: float | None = None


@dataclass(frozen=True, slots=True)
class Calibration:
    """Two roofs and the clock's own cost. flops_per_s: floating-point operations in `dtype`, two per multiply-add. bytes_per_s: read
    from memory. timer_overhead_s: one stamp, device synchronised. `threads` as a prefill uses them. `date`: ISO 8601 with offset.
    """

    flops_per_s: float
    bytes_per_s: float
    timer_overhead_s: float
    device: str
    dtype: str
    threads: int
    date: str
    conditions: Conditions
