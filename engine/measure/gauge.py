"""Memory read now and then beside a run: what the system, torch's allocator and the card's driver say, each as far as it goes.

Knows the sources of one device; does not know runs. A source that fails is a gap in this reading with its reason; nothing is ever
raised, and the next reading asks all sources again.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

import psutil
import torch

from engine.measure.nvml import Card, SoughtCard
from engine.settings import VisibleCards
from engine.usage import MemoryReading, Source

log = logging.getLogger(__name__)

_CARDS: dict[SoughtCard, Card] = {}  # open as long as this process lives: finding one takes far longer than reading it
_CARDS_LOCK = threading.Lock()
LEAST_GAP_S = 0.2  # between two readings: one takes 0.05 ms with the system's sources alone, a few with a graphics card's


class Gauge:
    """The sources of one device. `clock` gives seconds; `card` reads NVML, by default the card that torch means by `device`."""

    def __init__(
        self,
        device: torch.device,
        *,
        least_gap_s: float = LEAST_GAP_S,
        clock: Callable[[], float] = time.perf_counter,
        card: Card | None = None,
    ) -> None:
        self._device, self._least_gap_s, self._clock, self._card = device, least_gap_s, clock, card
        self._read_at: float | None = None
        self._told: dict[str, int | None] = {}
        self._missing: dict[str, str] = {}

    def due(self) -> MemoryReading | None:
        """A reading, or None where the last one is younger than `least_gap_s`. Never raises."""
        now = self._clock()
        if self._read_at is not None and now - self._read_at < self._least_gap_s:
            return None
        self._read_at = now
        return self.reading()

    def reading(self) -> MemoryReading:
        """What there is to be read now. Never raises."""
        self._told, self._missing = {}, {}
        self._ask("process", self._process)
        self._ask("system", self._system)
        if self._device.type in ("cuda", "mps"):
            self._ask("torch", self._allocator)
        if self._device.type == "cuda":
            self._ask("nvml", self._driver)
        return MemoryReading(**self._told, missing=self._missing)

    def _ask(self, source: Source, read: Callable[[], None]) -> None:
        try:
            read()
        except Exception:  # whatever a driver, a system or a container thinks of: a reading must not end a run
            log.debug("no reading of memory from %s", source, exc_info=True)
            self._missing[source] = "failed"

    def _process(self) -> None:
        memory = psutil.Process().memory_info()
        self._told |= {"process_bytes": memory.rss, "process_shared_bytes": getattr(memory, "shared", None)}  # Linux alone tells the second

    def _system(self) -> None:
        """In use: what could not be given to a process that asks for it now."""
        memory = psutil.virtual_memory()
        self._told |= {"system_used_bytes": memory.total - memory.available, "system_total_bytes": memory.total}

    def _allocator(self) -> None:
        if self._device.type == "mps":
            allocated, reserved = torch.mps.current_allocated_memory(), torch.mps.driver_allocated_memory()
        else:
            allocated, reserved = torch.cuda.memory_allocated(self._device), torch.cuda.memory_reserved(self._device)
        self._told |= {"allocated_bytes": allocated, "reserved_bytes": reserved}

    def _driver(self) -> None:
        if self._card is None:
            self._card = card_of(sought(self._device))
        found = self._card.reading()
        self._told |= {
            "device_used_bytes": found.used_bytes,
            "device_total_bytes": found.total_bytes,
            "device_process_bytes": found.process_bytes,
        }
        if found.missing is not None:
            self._missing["nvml"] = found.missing


def card_of(wanted: SoughtCard) -> Card:
    """The one card that all gauges of this process share. Any thread may ask."""
    with _CARDS_LOCK:
        return _CARDS.setdefault(wanted, Card(wanted))


def sought(device: torch.device) -> SoughtCard:
    """The card that torch means by `device`, by its UUID where torch tells it."""
    index = torch.cuda.current_device() if device.index is None else device.index
    told: Any = torch.cuda.get_device_properties(index)
    uuid = getattr(told, "uuid", None)
    return SoughtCard(index, None if uuid is None else _bare(str(uuid)), getattr(told, "name", None), VisibleCards.from_env())


def _bare(uuid: str) -> str:
    return uuid.removeprefix("GPU-").removeprefix("MIG-")
