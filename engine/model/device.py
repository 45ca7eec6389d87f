"""Devices by name: which one to use, which dtype suits it, how to wait for it, how its allocator says that memory is full.

Knows torch's device interfaces; does not know models or runs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from engine.errors import DeviceUnavailable, OutOfMemory

# How allocators word a failure for which torch has no exception type: the CPU's, and MPS's where a single buffer would be too large.
_MEMORY_FULL = ("DefaultCPUAllocator", "not enough memory", "Invalid buffer size")


def device_named(name: str) -> torch.device:
    """The device for auto | cpu | cuda | cuda:N | mps; auto takes cuda, else mps, else cpu. Raises DeviceUnavailable."""
    if name == "auto":
        return torch.device(next((kind for kind in ("cuda", "mps") if _is_there(kind)), "cpu"))
    kind, _, index = name.partition(":")
    if kind not in ("cpu", "cuda", "mps") or (index and not index.isdecimal()) or (index and kind != "cuda"):
        raise DeviceUnavailable(device=name)
    if not _is_there(kind) or (index and int(index) >= torch.cuda.device_count()):
        raise DeviceUnavailable(device=name)
    return torch.device(name)


def _is_there(kind: str) -> bool:
    if kind == "cuda":
        return torch.cuda.is_available()
    return torch.backends.mps.is_available() if kind == "mps" else True


def accelerator_dtype(device: torch.device) -> torch.dtype:
    """bfloat16 where the accelerator computes in it, else float16."""
    if device.type == "cuda":
        with torch.cuda.device(device):
            return torch.bfloat16 if torch.cuda.is_bf16_supported(including_emulation=False) else torch.float16
    try:
        torch.ones(1, dtype=torch.bfloat16, device=device).add_(1)
    except (TypeError, RuntimeError):  # macOS before 14 has no bfloat16
        return torch.float16
    return torch.bfloat16


def synchronise(device: torch.device) -> None:
    """Wait until the device has done all that was asked of it; nothing to wait for on the CPU."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()


def available_threads() -> int:
    """Threads that may compute at once: torch's own choice (physical cores, or OMP_NUM_THREADS) within the cores this process may use."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(torch.get_num_threads(), cores))


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Compute with `count` threads while inside. Setting the number is cheap, but only done where it differs."""
    before = torch.get_num_threads()
    if count == before:
        yield
        return
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def memory_checked() -> Iterator[None]:
    """While inside, an allocator's refusal leaves as OutOfMemory, with the first line of what it said."""
    try:
        yield
    except Exception as error:
        if is_memory_full(error):
            raise OutOfMemory(cause="device", detail=str(error).partition("\n")[0] or type(error).__name__) from error
        raise


def is_memory_full(error: BaseException) -> bool:
    """Whether `error` is an allocator's refusal, on any device."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error) for words in _MEMORY_FULL)
