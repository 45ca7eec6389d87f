"""A step's chain in a real browser: times add up, what is read is told once and alike, nobody's choice is told as another's."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from engine.measure.reading import step_reads
from tests.browser.chain import chain_data, show
from tests.samples import INFO
from ui import i18n


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1000, "height": 900})
    yield context.new_page()
    context.close()


def segments(root: Locator) -> dict[str, float]:
    """Part → its share of the bar, as drawn."""
    return root.evaluate(
        "root => Object.fromEntries([...root.querySelectorAll('.segment')].filter(node => !node.hidden)"
        ".map(node => [node.className.split(' ')[1], node.getBoundingClientRect().width / node.parentNode.clientWidth]))"
    )


def panel(root: Locator, name: str) -> str:
    return root.locator(f".panel.{name}").inner_text()


def test_the_parts_of_a_step_add_up_to_its_time(page: Page) -> None:
    root = show(page, "step", **chain_data())
    found = segments(root)
    want = {"weights": 30, "read": 4, "head": 5, "sample": 3, "append": 1, "rest": 2}
    assert {name: round(share * 45) for name, share in found.items()} == want
    assert sum(found.values()) == pytest.approx(1, abs=0.01)
    assert "30.0 ms" in panel(root, "read")
    assert "1.0 ms" in panel(root, "append")
    assert "45.0 ms" in root.locator(".heading").inner_text()


def test_unsplit_parts_are_said_to_be(page: Page) -> None:
    root = show(page, "step", **chain_data(parts=None))
    assert {name: round(share * 45) for name, share in segments(root).items()} == {"forward": 40, "sample": 3, "rest": 2}
    assert i18n.text("en", "components.step_unsplit") in root.locator(".why").inner_text()


def test_the_chain_tells_what_went_in_and_what_was_added(page: Page) -> None:
    root = show(page, "step", **chain_data(glance={"index": 1, "weights": [0.6, 0.05, 0.3, 0.05]}))
    assert "·sat" in panel(root, "in")
    assert "4 columns" in panel(root, "read")
    assert "96 B" in panel(root, "read"), "4 tokens in the first layer, a window of 2 in the second, 16 bytes each"
    assert panel(root, "look").splitlines()[1:3] == ["·cat", "30%"]
    assert "0.125" in panel(root, "choose")
    assert "3 → 4 columns" in panel(root, "append")
    assert "+ 32 B" in panel(root, "append")
    assert "“·sat”" in panel(root, "append"), "the column of the token that came in, not of the one chosen"
    looked = root.locator(".looked").inner_text()
    assert "“·on”" in looked
    assert "“·cat” (30%), “·<b>” (5.0%), “·sat” (5.0%)" in looked
    assert "60%" in looked
    assert root.locator("b:not(.value)").count() == 0, "token text is text"


def test_the_first_token_is_read_off_the_prompt(page: Page) -> None:
    root = show(page, "step", cursor=0, **chain_data())
    assert set(segments(root)) == {"prefill", "sample"}
    assert "0 → 3 columns" in panel(root, "append")
    assert i18n.text("en", "components.step_first") in root.locator(".why").inner_text()
    assert root.locator(".looked").inner_text() == ""


@pytest.mark.parametrize(("chosen_by", "label"), [("reader", "step_by_hand"), ("forced", "step_forced"), ("sampler", "")])
@pytest.mark.parametrize("greedy", [True, False])
@pytest.mark.parametrize("index", [0, 1])
def test_a_token_that_was_put_there_is_neither_the_likeliest_nor_drawn(
    page: Page, chosen_by: str, label: str, greedy: bool, index: int
) -> None:
    data = chain_data(greedy=greedy, cursor=index)
    for step in (data["fallback"]["prefill"], *data["fallback"]["steps"]):
        step["chosen_by"] = chosen_by
    own = i18n.text("en", "components.step_greedy") if greedy else "drawn with the number"
    want = i18n.text("en", f"components.{label}") if label else own
    said = panel(show(page, "step", **data), "choose").splitlines()[2]
    assert said.startswith(want)


def reads(page: Page, windows: list[int | None], index: int) -> tuple[str, str, str, str]:
    """(notes, weights) as the chain tells them, and as the picture of the notes does, for the step that wrote token `index`."""
    data = chain_data(windows=windows, cursor=index)
    (first,) = data["fallback"]["steps"]
    data["fallback"]["steps"] = [first | {"index": at, "kv_tokens": 3 + at} for at in range(1, 9)]
    data["fallback"]["model"]["shape"]["layer_windows"] = windows
    chain = show(page, "step", **data)
    notes, weights = (chain.locator(".panel.read .line .number").nth(at).inner_text() for at in (1, 2))
    expect(chain.locator(".panel.read .ob-computed")).to_have_text("computed")
    own = {"opens": True, "unlit": None, "pace_s": 0, "opened": None}
    said = show(page, "notes", **data, **own).locator(".parts").inner_text()
    found = re.fullmatch(r"= weights (.+) \+ notes (.+)", said)
    assert found is not None, said
    return notes, weights, found[2], found[1]


@pytest.mark.parametrize("windows", [[None, None], [None, 6], [5, 7]])
def test_chain_and_notes_tell_the_same_bytes_as_the_engine_defines_them(page: Page, windows: list[int | None]) -> None:
    shape = replace(INFO.shape, layer_windows=tuple(windows))
    info = replace(INFO, shape=shape, body_parameters=100, head_parameters=28)  # 128 numbers of 4 bytes
    each = INFO.dtype_bytes * 2 * shape.num_key_value_heads * shape.head_dim
    for index in (1, 2, 3, 4, 8):
        want = step_reads(info, 3 + index)
        assert want.weights_bytes == 512
        bytes_of_notes = f"{want.notes_bytes * 16 // each} B"  # the made-up run's layers take 16 bytes for a token
        assert reads(page, windows, index) == (bytes_of_notes, "512 B") * 2, index


def test_what_is_not_known_to_be_read_is_not_said(page: Page) -> None:
    data = chain_data(weights_read_bytes=None)
    assert panel(show(page, "step", **data), "read").splitlines()[1] == "4 columns"
    assert "B" not in panel(page.locator(".ob"), "read")
    own = {"opens": True, "unlit": None, "pace_s": 0, "opened": None}
    assert not show(page, "notes", **data, **own).locator(".reads").is_visible()
