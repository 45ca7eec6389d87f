"""The graphics card's own memory, with the driver's library faked: two cards, and everything that can be missing. No crash, the right
card, an honest reason."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from engine.measure.nvml import Card, CardReading, SoughtCard
from engine.settings import VisibleCards

GIB = 1024**3
ALL_ONES = 2**64 - 1
ME, OTHER = 4711, 99
BIG, SMALL = "GPU-aaaa1111-0000-4000-8000-000000000001", "GPU-bbbb2222-0000-4000-8000-000000000002"
MIG = "MIG-cccc3333-0000-4000-8000-000000000003"


class NVMLError(Exception):
    """As the library's own."""


class NVMLError_NotSupported(NVMLError):  # noqa: N801
    pass


class NVMLError_NotFound(NVMLError):  # noqa: N801
    pass


class NVMLError_DriverNotLoaded(NVMLError):  # noqa: N801
    pass


class NVMLError_GpuIsLost(NVMLError):  # noqa: N801
    pass


class Driver:
    """Two cards, a small one first on the bus; the second one is cut into two slices. Handles are names."""

    def __init__(self) -> None:
        self.cards = {SMALL: ("Small Card", 8 * GIB, 2 * GIB), BIG: ("Big Card", 80 * GIB, 30 * GIB)}
        self.slices = {MIG: (BIG, 7, 0, 10 * GIB, 3 * GIB), "slice": (BIG, 9, 1, 20 * GIB, 5 * GIB)}
        self.processes = {SMALL: [(ME, GIB)], BIG: [(OTHER, GIB), (ME, 2 * GIB), (ME, GIB)], MIG: [(ME, GIB)], "slice": [(ME, GIB)]}
        self.fails: Exception | None = None
        self.read = 0

    def __call__(self) -> Driver:
        return self

    def nvmlInit(self) -> None:  # noqa: N802
        pass

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return len(self.cards)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:  # noqa: N802
        return list(self.cards)[index]

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:  # noqa: N802
        if uuid not in self.cards and uuid != MIG:
            raise NVMLError_NotFound
        return uuid

    def nvmlDeviceGetUUID(self, handle: str) -> bytes:  # noqa: N802
        return handle.encode()

    def nvmlDeviceGetName(self, handle: str) -> str:  # noqa: N802
        return self.cards[handle][0]

    def nvmlDeviceGetMaxMigDeviceCount(self, handle: str) -> int:  # noqa: N802
        return 4

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle: str, index: int) -> str:  # noqa: N802
        if index == 0 or index > len(self.slices):
            raise NVMLError_NotFound
        return list(self.slices)[index - 1]

    def nvmlDeviceGetGpuInstanceId(self, handle: str) -> int:  # noqa: N802
        return self.slices[handle][1]

    def nvmlDeviceGetComputeInstanceId(self, handle: str) -> int:  # noqa: N802
        return self.slices[handle][2]

    def nvmlDeviceGetMemoryInfo(self, handle: str) -> Any:  # noqa: N802
        self.read += 1
        if self.fails is not None:
            raise self.fails
        _, total, used = self.cards[handle] if handle in self.cards else ("", *self.slices[handle][3:])
        return SimpleNamespace(used=used, total=total)

    def nvmlDeviceGetComputeRunningProcesses(self, handle: str) -> list[Any]:  # noqa: N802
        return [SimpleNamespace(pid=pid, usedGpuMemory=size) for pid, size in self.processes[handle]]


SMALL_READ = CardReading(2 * GIB, 8 * GIB, GIB)
BIG_READ = CardReading(30 * GIB, 80 * GIB, 3 * GIB)
MIG_READ = CardReading(3 * GIB, 10 * GIB, GIB)
SLICE_READ = CardReading(5 * GIB, 20 * GIB, GIB)


def read(driver: Driver, sought: SoughtCard) -> CardReading:
    return Card(sought, driver, pid=ME).reading()


def shown(listed: str | None, order: str = "") -> VisibleCards:
    return VisibleCards.from_env({"CUDA_DEVICE_ORDER": order} | ({} if listed is None else {"CUDA_VISIBLE_DEVICES": listed}))


def test_by_uuid_whatever_the_environment_says() -> None:
    for uuid, expected in ((BIG, BIG_READ), (SMALL, SMALL_READ), (MIG, MIG_READ)):
        for listed in (None, "0", "1", "", "-1", SMALL):
            assert read(Driver(), SoughtCard(0, uuid[4:], "Some Card", shown(listed))) == expected
    assert read(Driver(), SoughtCard(0, "nobody")) == CardReading(missing="no_card")


@pytest.mark.parametrize(
    ("listed", "index", "expected"),
    [
        (None, 0, SMALL_READ),
        (None, 1, BIG_READ),
        ("0", 0, SMALL_READ),
        ("1", 0, BIG_READ),
        ("1,0", 0, BIG_READ),
        ("1, 0", 1, SMALL_READ),
        (BIG, 0, BIG_READ),
        (BIG[:9], 0, BIG_READ),
        (f"{SMALL},{BIG}", 1, BIG_READ),
        (MIG, 0, MIG_READ),
        (f"MIG-{BIG}/7/0", 0, MIG_READ),
        (f"MIG-{BIG}/9/1", 0, SLICE_READ),
        (f"MIG-{BIG}/9/0", 0, CardReading(missing="no_card")),
        ("MIG-nobody", 0, CardReading(missing="no_card")),
        ("GPU-nobody", 0, CardReading(missing="no_card")),
        ("2", 0, CardReading(missing="no_card")),
        ("1", 1, CardReading(missing="no_card")),
        ("1,-1,0", 1, CardReading(missing="no_card")),
        ("", 0, CardReading(missing="hidden")),
        ("-1", 0, CardReading(missing="hidden")),
        ("no such card", 0, CardReading(missing="hidden")),
    ],
)
def test_by_what_the_environment_lists(listed: str | None, index: int, expected: CardReading) -> None:
    assert read(Driver(), SoughtCard(index, visible=shown(listed, "PCI_BUS_ID"))) == expected
    assert read(Driver(), SoughtCard(index, visible=shown(listed))) == expected, "without a name nothing speaks against it"


def test_cuda_may_count_the_fastest_card_first() -> None:
    """NVML counts along the bus: index 0 is the small card there, the big one for CUDA."""
    for listed in (None, "0"):
        assert read(Driver(), SoughtCard(0, name="Big Card", visible=shown(listed))) == BIG_READ
        assert read(Driver(), SoughtCard(0, name="Small Card", visible=shown(listed))) == SMALL_READ
        assert read(Driver(), SoughtCard(0, name="Third Card", visible=shown(listed))) == CardReading(missing="no_card")
    twins = Driver()
    twins.cards = {SMALL: ("Twin", 8 * GIB, 2 * GIB), BIG: ("Twin", 80 * GIB, 30 * GIB)}
    assert read(twins, SoughtCard(1, name="Twin")) == BIG_READ
    assert read(twins, SoughtCard(1, name="Other")) == CardReading(missing="no_card"), "better none than the wrong one"


def test_there_may_be_no_library_and_no_driver() -> None:
    def absent() -> Any:
        raise ModuleNotFoundError("No module named 'pynvml'")

    assert Card(SoughtCard(0), absent).reading() == CardReading(missing="no_library")
    asked = []

    class Unloaded(Driver):
        def nvmlInit(self) -> None:  # noqa: N802
            asked.append("init")
            raise NVMLError_DriverNotLoaded

    card = Card(SoughtCard(0), Unloaded())
    assert [card.reading(), card.reading()] == [CardReading(missing="no_driver")] * 2
    assert asked == ["init"], "what is not there is not looked for at every step"


def test_the_real_library_without_a_card_is_no_accident() -> None:
    reading = Card(SoughtCard(99, "there is no such card")).reading()
    assert reading.used_bytes is None
    assert reading.missing in {"no_library", "no_driver", "no_card", "not_supported", "failed"}


def test_a_field_that_is_not_supported_leaves_the_others() -> None:
    class Partly(Driver):
        def nvmlDeviceGetComputeRunningProcesses(self, handle: str) -> list[Any]:  # noqa: N802
            raise NVMLError_NotSupported

    assert read(Partly(), SoughtCard(0, BIG[4:])) == CardReading(30 * GIB, 80 * GIB, None, "not_supported")
    driver = Driver()
    driver.fails = NVMLError_NotSupported()
    assert read(driver, SoughtCard(0, BIG[4:])) == CardReading(None, None, 3 * GIB, "not_supported")


@pytest.mark.parametrize("failure", [NVMLError_GpuIsLost(), OSError("gone"), ValueError("?"), AttributeError("no such symbol")])
def test_a_failure_at_the_fifth_reading_is_a_gap(failure: Exception) -> None:
    driver = Driver()
    card = Card(SoughtCard(0, BIG[4:]), driver, pid=ME)
    readings = []
    for number in range(1, 8):
        driver.fails = failure if number == 5 else None
        readings.append(card.reading())
    assert readings[4] == CardReading(None, None, 3 * GIB, "failed")
    assert readings[:4] + readings[5:] == [BIG_READ] * 6
    assert driver.read == 7


@pytest.mark.parametrize("none", [ALL_ONES, None, 2**63, -1])
def test_all_ones_are_no_size(none: int | None) -> None:
    driver = Driver()
    driver.processes[BIG] = [(ME, GIB), (ME, none)]
    assert read(driver, SoughtCard(0, BIG[4:])) == CardReading(30 * GIB, 80 * GIB, None, "not_told"), "part of a sum is no sum"
    driver.processes[BIG] = [(OTHER, none), (ME, GIB)]
    assert read(driver, SoughtCard(0, BIG[4:])) == CardReading(30 * GIB, 80 * GIB, GIB)
    driver.cards[BIG] = ("Big Card", 80 * GIB, none)
    assert read(driver, SoughtCard(0, BIG[4:])) == CardReading(None, 80 * GIB, GIB, "not_told")


def test_a_process_that_the_driver_does_not_list() -> None:
    driver = Driver()
    driver.processes[BIG] = [(OTHER, GIB)]
    assert read(driver, SoughtCard(0, BIG[4:])) == CardReading(30 * GIB, 80 * GIB, None, "process_hidden")
