"""The graphics card's memory as the driver's own library (NVML) tells it: in use by all, in all, and by this process.

Every number is optional: no library, no driver, a card that cannot be told for certain, a field that this card does not know, a reading
that fails; each has a stable word for its reason, and none is ever raised. Knows NVML; does not know torch, runs or who asks.
"""

from __future__ import annotations

import importlib
import logging
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from engine.settings import VisibleCards

log = logging.getLogger(__name__)

T = TypeVar("T")

NOT_LIMIT = 2**63  # from here on a number is one of the codes for "not available" (all ones), never a size
REASONS = {"no_driver": ("LibraryNotFound", "DriverNotLoaded"), "not_supported": ("NotSupported", "FunctionNotFound")}


@dataclass(frozen=True, slots=True)
class SoughtCard:
    """The card that is meant, as CUDA counts and names it; `uuid` without a prefix, None where it is not told. `visible`: what the
    environment shows to CUDA, asked only where there is no UUID."""

    index: int
    uuid: str | None = None
    name: str | None = None
    visible: VisibleCards = field(default_factory=VisibleCards)


@dataclass(frozen=True, slots=True)
class CardReading:
    """Bytes, None where not told. `missing`: why not all of them were; None: they all were."""

    used_bytes: int | None = None
    total_bytes: int | None = None
    process_bytes: int | None = None
    missing: str | None = None


class Untold(Exception):
    """NVML tells nothing. `reason`: no_library | no_driver | no_card | hidden | not_supported | not_told | process_hidden | failed."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def _pynvml() -> Any:
    return importlib.import_module("pynvml")


class Card:
    """One card, found when it is first read. What cannot be found is not looked for again; a reading that fails is a gap, and the next
    one is tried as if nothing had happened. `library`: gives the module pynvml, or raises ImportError. Any thread may read."""

    def __init__(self, sought: SoughtCard, library: Callable[[], Any] = _pynvml, pid: int | None = None) -> None:
        self._sought, self._import, self._pid = sought, library, os.getpid() if pid is None else pid
        self._library: Any = None
        self._handle: Any = None
        self._finding = threading.Lock()
        self._lost: str | None = None  # why there is no handle, and will be none

    def reading(self) -> CardReading:
        """Never raises."""
        with self._finding:
            if self._handle is None and self._lost is None:
                self._handle, self._lost = _answer(self._find)
        if self._lost is not None:
            return CardReading(missing=self._lost)
        memory, no_memory = _answer(lambda: self._library.nvmlDeviceGetMemoryInfo(self._handle))
        used, total = (None, None) if memory is None else (_told(memory.used), _told(memory.total))
        own, not_own = _answer(self._process_bytes)
        not_whole = "not_told" if memory is not None and None in (used, total) else None
        return CardReading(used, total, own, no_memory or not_whole or not_own)

    def _find(self) -> Any:
        self._library = self._import()
        self._library.nvmlInit()
        return Finder(self._library, self._sought).find()

    def _process_bytes(self) -> int:
        """Of this process, on this card. In a container the driver may list the processes under other numbers, or not at all."""
        listed = self._library.nvmlDeviceGetComputeRunningProcesses(self._handle)
        own = [_told(one.usedGpuMemory) for one in listed if one.pid == self._pid]
        if not own:
            raise Untold("process_hidden")
        told = [size for size in own if size is not None]
        if len(told) < len(own):
            raise Untold("not_told")
        return sum(told)


class Finder:
    """Which of NVML's cards is the one that CUDA means: by UUID; else by what the environment lists."""

    def __init__(self, library: Any, sought: SoughtCard) -> None:
        self._library, self._sought = library, sought

    def find(self) -> Any:
        """The card's handle. Raises Untold where no card, or more than one, answers the description."""
        if self._sought.uuid is not None:
            return self._one_of([self._by_uuid(prefix + self._sought.uuid) for prefix in ("GPU-", "MIG-")])
        names, index = self._sought.visible.names, self._sought.index
        if names is None:
            return self._by_index(index)
        if not names:
            raise Untold("hidden")
        if index >= len(names):
            raise Untold("no_card")
        name = names[index]
        return self._by_index(int(name)) if name.isdigit() else self._by_name(name)

    def _by_name(self, name: str) -> Any:
        if name.startswith("MIG-GPU-"):  # the older form: MIG-GPU-<UUID>/<GPU instance>/<compute instance>
            card, _, slices = name.removeprefix("MIG-").partition("/")
            return self._slice(self._one_of([self._by_uuid(card)]), slices)
        return self._one_of([self._by_uuid(name), *([] if name.startswith("MIG-") else self._beginning(name))])

    def _by_uuid(self, uuid: str) -> Any:
        """None: there is no such card."""
        try:
            return self._library.nvmlDeviceGetHandleByUUID(uuid)
        except Exception as failure:
            if _named(failure, "NotFound", "InvalidArgument"):
                return None
            raise

    def _beginning(self, name: str) -> list[Any]:
        """The cards whose UUID begins so: CUDA takes an abbreviation that fits a single card."""
        return [card for card in self._cards() if _text(self._library.nvmlDeviceGetUUID(card)).startswith(name)]

    def _by_index(self, index: int) -> Any:
        """CUDA may count the fastest card first where NVML counts along the bus: a card by another name is not the one that is meant."""
        cards = list(self._cards())
        wanted, by_bus = self._sought.name, self._sought.visible.by_bus
        at = cards[index] if index < len(cards) else None
        if by_bus or wanted is None or (at is not None and self._name(at) == wanted):
            return self._one_of([at])
        alike = [card for card in cards if self._name(card) == wanted]
        return self._one_of(alike if len(alike) == 1 else [])

    def _slice(self, card: Any, slices: str) -> Any:
        for number in range(self._library.nvmlDeviceGetMaxMigDeviceCount(card)):
            part = self._slice_at(card, number)
            if part is not None and slices == "/".join(
                str(tell(part)) for tell in (self._library.nvmlDeviceGetGpuInstanceId, self._library.nvmlDeviceGetComputeInstanceId)
            ):
                return part
        raise Untold("no_card")

    def _slice_at(self, card: Any, number: int) -> Any:
        try:
            return self._library.nvmlDeviceGetMigDeviceHandleByIndex(card, number)
        except Exception as failure:
            if _named(failure, "NotFound", "InvalidArgument"):  # a place that is not taken
                return None
            raise

    def _cards(self) -> Iterator[Any]:
        for number in range(self._library.nvmlDeviceGetCount()):
            yield self._library.nvmlDeviceGetHandleByIndex(number)

    def _name(self, card: Any) -> str:
        return _text(self._library.nvmlDeviceGetName(card))

    def _one_of(self, found: list[Any]) -> Any:
        card = next((card for card in found if card is not None), None)
        if card is None:
            raise Untold("no_card")
        return card


def _answer(ask: Callable[[], T]) -> tuple[T | None, str | None]:
    """What the library says, or why it says nothing: a driver may fail with anything."""
    try:
        return ask(), None
    except Untold as untold:
        return None, untold.reason
    except ImportError:
        return None, "no_library"
    except Exception as failure:
        log.debug("NVML told nothing", exc_info=True)
        return None, next((reason for reason, kinds in REASONS.items() if _named(failure, *kinds)), "failed")


def _told(value: object) -> int | None:
    """A size; None for what is none: nothing, or all ones."""
    return value if isinstance(value, int) and 0 <= value < NOT_LIMIT else None


def _text(value: str | bytes) -> str:
    """Older libraries give bytes."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _named(failure: Exception, *kinds: str) -> bool:
    """Whether it is one of NVML's errors of these kinds: the library makes their types as it is imported, so they go by name."""
    return type(failure).__name__ in {f"NVMLError_{kind}" for kind in kinds}
