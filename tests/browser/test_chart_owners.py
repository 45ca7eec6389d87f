"""Memory over time, by itself: who holds how much, by which source, and a gap where one told nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from engine.usage import MemoryReading
from tests.browser.charted import DRAWN, begun, drawn, show, step, told, words
from tests.samples import INFO
from ui.sections.memory import shares

MIB = 1024**2


def reading(**fields: Any) -> MemoryReading:
    return MemoryReading(**{"process_bytes": 900 * MIB, "system_used_bytes": 1500 * MIB, "system_total_bytes": 8000 * MIB} | fields)


MODEL = replace(INFO, weight_bytes=500 * MIB)


def test_memory_split_by_owner_with_gaps_where_a_source_failed(page: Page) -> None:
    steps = [
        step(1, 0.1, at_s=0.6),  # not read at this step: the reading before holds
        step(2, 0.1, at_s=0.7, memory=reading(), kv_bytes=40 * MIB, recorded_bytes=10 * MIB),
        step(3, 0.1, at_s=0.8, memory=reading(system_used_bytes=None, missing={"system": "failed"})),
        step(4, 0.1, at_s=0.9, memory=reading(process_bytes=None, missing={"process": "failed"})),
    ]
    show(page, "owners", told(steps, prefill=begun(memory=reading()), model=MODEL))
    seen = drawn(page)
    assert list(seen) == ["weights", "notes", "queries", "rest", "others"]
    assert seen["weights"]["x"] == [0.5, 0.7, 0.8, 0.9]
    assert seen["weights"]["width"][:2] == pytest.approx([0.2, 0.1])
    assert seen["weights"]["y"] == [500] * 4
    assert seen["rest"]["y"][1] == pytest.approx(900 - 500 - 40 - 10)
    assert seen["rest"]["y"][3] is None
    assert seen["others"]["y"] == [600, 600, None, None]
    assert f"({words('from_process')})" in seen["rest"]["customdata"][0]
    expect(page.locator(".says")).to_contain_text(words("memory_gaps"))
    expect(page.locator(".ob-legend")).to_contain_text(f"{words('others')} · {words('from_system')}")


def test_pages_of_files_are_not_taken_off_what_never_counted_them(page: Page) -> None:
    """As the list beside the chart has it: the same reading, the same bytes."""
    traces = begun(memory=reading()), step(1, 0.1, at_s=0.7, memory=reading(process_shared_bytes=400 * MIB))
    show(page, "owners", told([traces[1]], prefill=traces[0], model=MODEL))
    seen = drawn(page)
    assert seen["others"]["y"] == [1500 - 900, 1500 - (900 - 400)]
    listed = [shares(MODEL, trace, (trace, trace.memory))[4].size_bytes for trace in traces]
    assert listed == [size * MIB for size in seen["others"]["y"]]


CARD = MemoryReading(
    process_bytes=3000 * MIB, system_used_bytes=9000 * MIB, allocated_bytes=600 * MIB, reserved_bytes=700 * MIB,
    device_used_bytes=1000 * MIB, device_total_bytes=16000 * MIB, device_process_bytes=800 * MIB,
)  # fmt: skip


@pytest.mark.parametrize(
    ("card", "device", "rest", "others", "source"),
    [
        (CARD, "cuda", 250, 200, "nvml"),  # the driver's word goes before the allocator's
        (replace(CARD, device_process_bytes=None, missing={"nvml": "not_told"}), "cuda:0", 150, None, "torch"),
        (replace(CARD, device_process_bytes=None, missing={"nvml": "process_hidden"}), "cuda", 150, None, "torch"),
        (replace(CARD, device_used_bytes=None, device_process_bytes=None), "mps", 150, None, "torch"),
    ],
)
def test_memory_on_a_card_comes_from_its_own_sources(
    page: Page, card: MemoryReading, device: str, rest: int, others: int | None, source: str
) -> None:
    info, written = replace(MODEL, device=device), step(1, 0.1, at_s=0.7, memory=card, kv_bytes=40 * MIB, recorded_bytes=10 * MIB)
    show(page, "owners", told([written], model=info))
    seen = drawn(page)
    listed = [share.size_bytes for share in shares(info, written, (written, card))[3:]]
    assert listed == [rest * MIB, None if others is None else others * MIB], "as the list beside the chart has it"
    assert seen["rest"]["y"] == [pytest.approx(rest)]
    assert seen["others"]["y"] == [others if others is None else pytest.approx(others)]
    expect(page.locator(".ob-legend")).to_contain_text(f"{words('rest')} · {words('from_' + source)}")


def test_a_reading_does_not_outlast_a_pause_and_much_of_others_is_hidden_at_first(page: Page) -> None:
    big = reading(system_used_bytes=90_000 * MIB)
    steps = [step(1, 0.1, at_s=0.7), step(2, 0.1, gap_s=60.0, paused_s=60.0, at_s=60.8, memory=big)]
    show(page, "owners", told(steps, prefill=begun(memory=big), model=MODEL))
    seen = drawn(page)
    assert "others" not in seen
    assert seen["weights"]["x"] == [0.5, 60.8]
    assert seen["weights"]["width"][0] < 1
    page.get_by_role("checkbox").check()
    page.wait_for_function(f"() => ({DRAWN})().length === 5")


def test_an_old_record_without_readings_shows_what_the_tensors_tell(page: Page) -> None:
    show(page, "owners", told([step(1, 0.1, at_s=0.7), step(2, 0.1, at_s=0.8)], model=MODEL))
    seen = drawn(page)
    assert seen["weights"]["y"] == [500] * 3
    assert seen["rest"]["y"] == [None] * 3
    expect(page.locator("h4 .ob-tag")).to_have_text(["measured"])  # nothing is worked out from a reading that is not there
    expect(page.locator(".ob-legend")).to_contain_text(f"{words('rest')} · {words('unknown')}")
    expect(page.locator("h4 span").first).to_contain_text("500 MiB")
