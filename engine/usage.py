"""Memory as the machine's own sources tell it at one moment. Knows bytes and sources; does not know who read them (engine.measure.gauge)
nor what a run holds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Source = Literal["process", "system", "torch", "nvml"]


@dataclass(frozen=True, slots=True)
class MemoryReading:
    """Bytes, each None where its source told nothing.

    process_bytes: the engine process's resident set ("process"). process_shared_bytes: what of it are pages of files and shared memory,
    which the system may count as free ("process"; None also where it does not tell, as in older records). system_*: the computer's memory
    in use and in all ("system").
    allocated_bytes, reserved_bytes: torch's allocator on the run's device, CUDA or MPS ("torch"). device_*: the graphics card as NVML sees
    it: in use by all, in all, and by this process ("nvml").
    `missing`: source → why it told nothing or not all, as a stable word that names a text; a source that has nothing to do with this
    device is not in it.
    """

    process_bytes: int | None = None
    system_used_bytes: int | None = None
    system_total_bytes: int | None = None
    allocated_bytes: int | None = None
    reserved_bytes: int | None = None
    device_used_bytes: int | None = None
    device_total_bytes: int | None = None
    device_process_bytes: int | None = None
    process_shared_bytes: int | None = None
    missing: dict[str, str] = field(default_factory=dict)
