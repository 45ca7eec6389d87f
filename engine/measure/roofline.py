"""What this machine can do, by a short measurement: a matrix product, a read of more than the caches hold, a stamp of the clock.

The roofline model's two roofs (Williams, Waterman, Patterson 2009), measured and not taken from a data sheet. It takes about a second
or two and comes in pieces, so that others may have their turns in between. Knows devices, stamps and the file in which results are
kept; does not know models or runs.
"""

from __future__ import annotations

import logging
import platform
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import msgspec
import psutil
import torch

from engine.calibration import Calibration, Conditions, Measuring
from engine.measure.clock import Clock
from engine.model.device import memory_checked, threads

log = logging.getLogger(__name__)

REPEATS, SEEN = 5, 2  # tries in all, and those of them that say whether a product is long enough
PIECE_S = 0.02  # a product is made larger until it takes so long, or as large as LARGEST
SMALLEST, LARGEST = 512, 8192
READ_BYTES = {"cpu": 256 << 20, "cuda": 2 << 30, "mps": 512 << 20}  # beyond the caches of nearly all of them
LEAST_READ_BYTES = 16 << 20  # where memory is short
STAMPS = 400


@dataclass(frozen=True, slots=True)
class Site:
    """What is measured: one device, computing in one dtype with so many threads."""

    device: torch.device
    dtype: torch.dtype
    threads: int

    @property
    def key(self) -> str:
        dtype = str(self.dtype).removeprefix("torch.")
        return f"{self.device} {dtype} {self.threads} {_machine(self.device)} torch {torch.__version__}"


def calibrated(home: Path, site: Site, measuring: Measuring) -> Generator[None, None, Calibration | None]:
    """Pieces of work, and at their end the result: what is kept in `home`, or what was measured and is kept from now on. None: nothing
    is kept, and nothing was to be measured. Raises OutOfMemory.
    """
    file = home / "calibration.json"
    kept = _read(file).get(site.key)
    if measuring == "never" or (measuring == "once" and kept is not None):
        return kept
    with memory_checked():
        found = yield from measured(site)
    _write(file, {**_read(file), site.key: found})
    return found


def measured(site: Site, repeats: int = REPEATS) -> Generator[None, None, Calibration]:
    """The measurement alone, in pieces. The best of the tries counts: what the machine can do when nothing disturbs it."""
    load = _load()
    clock = Clock(site.device)
    yield None
    size, product = SMALLEST, _product(site, SMALLEST)
    yield None
    while (took_s := min(_timed(clock, site, product) for _ in range(SEEN))) < PIECE_S and size < LARGEST:
        size, product = 2 * size, _product(site, 2 * size)
        yield None
    for _ in range(repeats - SEEN):
        yield None
        took_s = min(took_s, _timed(clock, site, product))
    del product
    reads, read_bytes = _reads(site)
    read_s = float("inf")
    for read in reads:
        read()  # a first call takes longer
        for _ in range(repeats):
            yield None
            read_s = min(read_s, _timed(clock, site, read))
    return Calibration(
        flops_per_s=2 * size**3 / took_s,
        bytes_per_s=read_bytes / read_s,
        timer_overhead_s=_stamp_s(clock),
        device=str(site.device),
        dtype=str(site.dtype).removeprefix("torch."),
        threads=site.threads,
        date=datetime.now().astimezone().isoformat(timespec="seconds"),
        conditions=Conditions(size, read_bytes, repeats, _machine(site.device), str(torch.__version__), load),
    )


def _product(site: Site, size: int) -> Callable[[], object]:
    """size × size by size × size, as a layer multiplies: 2 · size³ operations. Not zeros, which some hardware multiplies faster."""
    left = torch.full((size, size), 0.5, dtype=site.dtype, device=site.device)
    right = torch.full((size, size), 0.25, dtype=site.dtype, device=site.device)
    torch.nn.functional.linear(left, right)  # a first call takes longer
    return lambda: torch.nn.functional.linear(left, right)


def _reads(site: Site) -> tuple[list[Callable[[], object]], int]:
    """Ways to read the same bytes once, and how many these are: as a sum, and as a decode step does it, a matrix by one row."""
    size_bytes = _affordable(site.device)
    width = 4096
    matrix = torch.full((size_bytes // (width * site.dtype.itemsize), width), 0.5, dtype=site.dtype, device=site.device)
    row = torch.ones((1, width), dtype=site.dtype, device=site.device)
    numbers = matrix.view(torch.float32)
    return [lambda: torch.nn.functional.linear(row, matrix), numbers.sum], matrix.nbytes


def _affordable(device: torch.device) -> int:
    """Bytes to read; less where memory is short."""
    free = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else psutil.virtual_memory().available
    return max(min(READ_BYTES[device.type], free // 4), LEAST_READ_BYTES)


def _timed(clock: Clock, site: Site, work: Callable[[], object]) -> float:
    with torch.inference_mode(), threads(site.threads):
        began_at = clock.now()
        work()
        return clock.now() - began_at


def _stamp_s(clock: Clock) -> float:
    """Seconds that one stamp takes; the best of some rounds."""

    def round_s() -> float:
        began_at = time.perf_counter()
        for _ in range(STAMPS):
            clock.now()
        return (time.perf_counter() - began_at) / STAMPS

    return min(round_s() for _ in range(REPEATS))


def _machine(device: torch.device) -> str:
    if device.type == "cuda":
        return str(torch.cuda.get_device_name(device))
    return f"{platform.processor() or platform.machine()} × {psutil.cpu_count() or '?'}"


def _load() -> float | None:
    """Share of all cores that has been busy in the last moments; None where the system does not tell."""
    try:
        return psutil.cpu_percent(interval=0.1) / 100
    except (psutil.Error, OSError, RuntimeError):
        return None


def _read(file: Path) -> dict[str, Calibration]:
    """What is kept; {} where nothing is, or nothing that can be read: then it is measured again."""
    try:
        found = msgspec.json.decode(file.read_bytes(), type=dict[str, Calibration])
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, msgspec.MsgspecError) as error:
        log.warning("%s cannot be read and is measured anew: %s", file, error)
        return {}
    return {key: one for key, one in found.items() if min(one.flops_per_s, one.bytes_per_s, one.timer_overhead_s) > 0}


def _write(file: Path, known: dict[str, Calibration]) -> None:
    """What cannot be kept has to be measured again, and no more."""
    draft = file.with_name(f"{file.name}.{time.perf_counter_ns()}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        draft.write_bytes(msgspec.json.format(msgspec.json.encode(known), indent=1))
        draft.replace(file)
    except OSError as error:
        log.warning("%s cannot be written: %s", file, error)
