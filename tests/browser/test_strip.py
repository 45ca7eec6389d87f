"""The token strip in a real browser: every byte accounted for, nothing interpreted, links drawn, keys obeyed, 8,000 tokens bearable."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from engine.trace import Token, TokenKind
from tests.browser.desk import Desk
from tests.browser.driver import Visitor
from ui import i18n
from ui.components import mount

FAMILY = "👨‍👩‍👧‍👦"
TEXT = f"你好🤗地來{FAMILY} the cat the cat <b>&amp;</b> $5 _a_"
MOUNT = """async ({html, css, script, data}) => {
  document.body.innerHTML = `<style>${css}</style><div id="host">${html}</div>`;
  window.strip = await import(URL.createObjectURL(new Blob([script], { type: "text/javascript" })));
  window.picked = [];
  window.given = {
    parentElement: document.getElementById("host"), data, setStateValue() {},
    setTriggerValue: (name, value) => window.picked.push([name, value]),
  };
  window.strip.default(window.given);
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
}"""
AGAIN = """async (change) => {
  window.given = { ...window.given, data: { ...window.given.data, ...change } };
  window.strip.default(window.given);
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
}"""
# Walks along the whole strip by the arrow keys and reads the card of every chip: kind, bytes, and the bytes of the whole character.
WALK = """strip => {
  const chips = [...strip.querySelectorAll(".chip")];
  const bytes = (line) => [...(strip.querySelector(`.card .${line} .cells`)?.children ?? [])].map((cell) => cell.textContent).join("");
  chips[0].focus();
  return chips.map((chip) => {
    const at = strip.getRootNode().activeElement;
    const read = [at === chip, chip.classList.contains("prompt"), bytes("line"), bytes("whole")];
    at.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true }));
    return read;
  });
}"""


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1000, "height": 800})
    yield context.new_page()
    context.close()


def tokens_of(*raw: bytes, kind: TokenKind = "prompt") -> list[dict[str, Any]]:
    tokens = [Token(100 + at, part, "", kind, at) for at, part in enumerate(raw)]
    return msgspec.to_builtins(tokens)


def show(page: Page, tokens: list[dict[str, Any]], **data: Any) -> Locator:
    words = {key: entry["en"] for key, entry in i18n.table("components").items()}
    html = (mount.ASSETS / "token_strip" / "token_strip.html").read_text(encoding="utf-8")
    given = {"run_id": None, "path": "", "cursor": None, "labels": words, "show": "prompt", "tokens": tokens, **data}
    page.evaluate(MOUNT, {"html": html, "css": mount.style("token_strip"), "script": mount.script("token_strip"), "data": given})
    return page.locator(".strip")


def words_of_five() -> list[dict[str, Any]]:
    return tokens_of(b"the", b" cat", b" sat", b" on", b" it")


def test_every_byte_of_the_readers_text_is_on_the_strip(open_page: Callable[..., Visitor]) -> None:
    desk = Desk(open_page().page)
    desk.ask(TEXT)
    desk.wait(lambda run: run["tokens"] > 0)
    desk.go("tokenize")
    strip = desk.page.locator(".strip").first
    expect(strip.locator(".chip").first).to_be_visible()
    read = strip.evaluate(WALK)
    assert all(reached for reached, *_ in read), "an arrow key did not lead to the next chip"
    assert bytes.fromhex("".join(own for _, typed, own, _ in read if typed)) == TEXT.encode()
    for caption in ("你", "好", "🤗", "地", "來", FAMILY):
        box = strip.locator(".group").filter(has=desk.page.locator(".caption", has_text=caption))
        assert box.count() == 1, f"{caption} stands under one brace"
        tokens = [at for at, (*_, whole) in enumerate(read) if whole == caption.encode().hex().upper()]
        assert len(tokens) == box.locator(".chip").count() >= 2
        assert bytes.fromhex("".join(read[at][2] for at in tokens)) == caption.encode()
    assert strip.locator("b").count() == 0
    assert strip.locator(".chip.prompt", has_text="amp").inner_text() == "amp"
    source = strip.evaluate("strip => strip.outerHTML")
    assert "\ufffd" not in source
    assert "&lt;" in source


def test_ids_stand_on_the_chips_while_the_page_lives(open_page: Callable[..., Visitor]) -> None:
    desk = Desk(open_page().page)
    desk.ask("the cat")
    desk.until_status("ended")
    desk.go("tokenize")
    shown = "chip => getComputedStyle(chip, '::after').content"
    chip = desk.page.locator(".strip .chip.prompt").first
    assert chip.evaluate(shown) == "none"
    desk.page.get_by_role("button", name=desk.words("components.token_strip_ids")).first.click()
    expect(desk.page.locator(".strip.with-ids").first).to_be_visible()
    assert chip.evaluate(shown) == f'"{chip.get_attribute("data-id")}"'
    desk.go("decode")
    expect(desk.page.locator(".strip.with-ids .chip.generated").first).to_be_visible()
    desk.speak("zh")
    expect(desk.page.get_by_role("button", name=desk.words("components.token_strip_ids"), pressed=True).first).to_be_visible()


def test_what_one_token_reads_is_drawn_to_its_weight(page: Page) -> None:
    strip = show(page, words_of_five(), weights=[0.6, 0.04, 0.2, 0.16], reader=3, target=1)
    chips = strip.locator(".chip")
    thick = chips.evaluate_all("chips => chips.map((chip) => parseFloat(chip.style.getPropertyValue('--thick')) || 0)")
    assert thick[0] > thick[2] > thick[3] > thick[1] > thick[4] == 0
    assert [chip.get_attribute("data-weight") for chip in chips.all()] == ["0.60", None, "0.20", "0.16", None], "the strongest three"
    assert strip.locator(".chip.reader").inner_text() == "·on"
    assert strip.locator(".chip.target").inner_text() == "·cat"
    assert strip.locator(".chip.later").inner_text() == "·it", "what comes after the reading token cannot be read"
    marks = "chip => [getComputedStyle(chip, '::before').content, getComputedStyle(chip).borderStyle]"
    looks = [tuple(chips.nth(at).evaluate(marks)) for at in (0, 1, 3)]
    assert len(set(looks)) == 3, "told apart without colour"
    chips.nth(2).hover()
    assert "weight 0.200" in strip.locator(".card").inner_text()


def spoken(strip: Locator) -> list[str]:
    """What a screen reader says of every chip."""
    return [chip.get_attribute("aria-label") or "" for chip in strip.locator(".chip").all()]


def test_what_is_spoken_of_a_chip_is_what_is_drawn_now(page: Page) -> None:
    words = {key: entry["en"] for key, entry in i18n.table("components").items()}

    def told(reader: str, at: int, weight: str) -> str:
        return words["token_strip_weight"].format(reader=f"\u2068{reader}\u2069", n=at, weight=weight)

    strip = show(page, words_of_five(), weights=[0.6, 0.04, 0.2, 0.16], reader=3, target=1)
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")  # past the switch, to the first chip
    assert strip.locator(".chip:focus").get_attribute("data-id") == "100"
    assert told(" on", 3, "0.600") in spoken(strip)[0], "reached by Tab"
    for _ in range(4):
        page.keyboard.press("ArrowRight")
    assert [told(" on", 3, weight) in said for weight, said in zip(("0.600", "0.040", "0.200", "0.160"), spoken(strip), strict=False)] == [
        True
    ] * 4
    assert words["token_strip_target"] in spoken(strip)[1]
    assert words["token_strip_later"] in spoken(strip)[4]
    page.evaluate(AGAIN, {"weights": [0.5, 0.3, 0.2], "reader": 2, "target": None})
    said = spoken(strip)
    assert [told(" sat", 2, weight) in now for weight, now in zip(("0.500", "0.300", "0.200"), said, strict=False)] == [True] * 3
    assert not [now for now in said if told(" on", 3, "0.600")[:8] in now or words["token_strip_target"] in now], "nothing old is left"
    page.evaluate(AGAIN, {"weights": None, "reader": None})
    assert not [now for now in spoken(strip) if "weight" in now or words["token_strip_later"] in now]


def test_the_card_takes_one_line_and_moves_nothing_below_it(page: Page) -> None:
    strip = show(page, words_of_five(), weights=[0.6, 0.04, 0.2, 0.16], reader=3)
    chips, line_px = strip.locator(".chip"), 28
    height = strip.evaluate("strip => strip.getBoundingClientRect().height")
    room = strip.locator(".card").evaluate("card => card.getBoundingClientRect().height")
    assert room < 2 * line_px, "one line while no chip is pointed at"
    for at in range(5):
        chips.nth(at).hover()
        assert strip.locator(".card .line").count() == 1
        assert strip.evaluate("strip => strip.getBoundingClientRect().height") == height


@pytest.mark.parametrize("width", [1000, 700, 420])
def test_once_a_chip_has_spoken_the_card_keeps_its_room(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    strip = show(page, tokens_of(b"the", b"\xf0\x9f", b"\xa4\x97", b" sat"), weights=[0.6, 0.3, 0.1], reader=2)
    heights = []
    for at in range(4):
        strip.locator(".chip").nth(at).hover()
        heights.append(strip.evaluate("strip => strip.getBoundingClientRect().height"))
    page.mouse.move(0, 700)
    expect(strip.locator(".card .hint")).to_be_visible()
    heights.append(strip.evaluate("strip => strip.getBoundingClientRect().height"))
    assert len(set(heights)) == 1, heights


def test_another_reading_token_keeps_chips_and_focus(page: Page) -> None:
    strip = show(page, words_of_five(), weights=[0.9, 0.1], reader=1, pick=True)
    strip.locator(".chip").nth(2).click()
    strip.evaluate("strip => { strip.querySelectorAll('.chip').forEach((chip) => { chip.kept = true; }); }")
    page.evaluate(AGAIN, {"tokens": words_of_five(), "weights": [0.5, 0.3, 0.2], "reader": 2})
    assert strip.locator(".chip").evaluate_all("chips => chips.every((chip) => chip.kept)")
    assert strip.locator(".chip.reader").get_attribute("aria-selected") == "true"
    assert strip.locator(".chip:focus").get_attribute("data-id") == "102"
    page.evaluate(AGAIN, {"tokens": tokens_of(b"a", b"b"), "weights": None, "reader": None})
    assert strip.locator(".chip").all_inner_texts() == ["a", "b"]
    assert strip.locator(".reader, .linked, .later").count() == 0


def test_a_chip_is_picked_by_click_enter_and_space(page: Page) -> None:
    strip = show(page, words_of_five(), pick=True)
    strip.locator(".chip").nth(1).click()
    for key in ("ArrowRight", "Enter", "End", " ", "x"):
        page.keyboard.press(key)
    assert page.evaluate("window.picked") == [["picked", 1], ["picked", 2], ["picked", 4]]


def test_without_picking_the_pages_own_keys_pass(page: Page) -> None:
    strip = show(page, words_of_five())
    page.evaluate("() => { window.heard = []; document.onkeydown = (event) => window.heard.push(event.key); }")
    strip.locator(".chip").first.click()
    for key in (" ", "Enter", "a", "ArrowRight", "End"):
        page.keyboard.press(key)
    assert page.evaluate("window.heard") == [" ", "Enter", "a"], "of the keys, only those that walk are the strip's own"
    assert page.evaluate("window.picked") == []


def test_eight_thousand_tokens_are_walked_by_the_keyboard(page: Page) -> None:
    count = 8000
    strip = show(page, tokens_of(*(f" w{at}".encode() for at in range(count))))
    assert strip.locator(".chip").count() == count
    assert strip.locator('[tabindex="0"]').count() == 1
    far = strip.locator(".slice").last
    assert far.evaluate("slice => slice.checkVisibility({ contentVisibilityAuto: true })") is True
    assert far.locator(".chip").last.evaluate("chip => chip.checkVisibility({ contentVisibilityAuto: true })") is False, "not laid out"
    strip.locator(".chip").first.click()

    def at() -> int:
        return int(strip.locator(".chip:focus").get_attribute("aria-posinset") or 0)

    assert at() == 1
    places = []
    for key in ("ArrowDown", "PageDown", "PageDown", "PageUp", "End", "ArrowUp", "Home"):
        page.keyboard.press(key)
        places.append(at())
    down, first, second, back, end, above, home = places
    assert 1 < down < first < second
    assert down <= back < second
    assert (end, home) == (count, 1)
    assert above < end
    assert strip.locator(".chip:focus").evaluate("chip => chip.checkVisibility({ contentVisibilityAuto: true })")


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ((b"e", "\u0301".encode(), b"x"), "e\u0301"),
        ((b"\r", b"\n"), "\r\n"),
        (("🇩".encode(), "🇪".encode(), b"!"), "🇩🇪"),
        (("👩".encode(), "\u200d".encode(), "🔬".encode()), "👩\u200d🔬"),
        ((b"\xf0\x9f", b"\xa4\x97", b"a"), "🤗"),
    ],
)
def test_a_brace_stands_over_what_a_reader_sees_as_one(page: Page, raw: tuple[bytes, ...], text: str) -> None:
    strip = show(page, tokens_of(*raw))
    assert strip.locator(".group").count() == 1
    assert strip.locator(".group").get_attribute("aria-label") == text
    strip.locator(".group .chip").last.hover()
    cells = strip.locator(".card .whole .byte").all_inner_texts()
    assert bytes.fromhex("".join(cells)) == text.encode()
    brought = strip.locator(".card .whole .byte.own").all_inner_texts()
    assert text.encode().endswith(bytes.fromhex("".join(brought)))


def test_a_border_between_plain_characters_is_no_brace(page: Page) -> None:
    strip = show(page, tokens_of(b"a", b"b", b"\n", b"\r", "é".encode(), "\u00ad".encode(), "©".encode(), b" "))
    assert strip.locator(".group").count() == 0
    assert strip.locator(".chip").count() == 8


@pytest.mark.parametrize(("writing", "ids"), [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("width", [1000, 420])
def test_a_strip_that_hangs_from_its_newest_line_cuts_no_row(page: Page, writing: bool, ids: bool, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    strip = show(page, tokens_of(*[b" token"] * 200))
    fallback = {"run_id": None, "tokens": tokens_of(*[b" word"] * 200), "steps": [], "prefill": None, "status": "paused", "model": None}
    fallback |= {"stop_reason": None, "error": None, "max_new_tokens": 5}
    page.evaluate(AGAIN, {"show": "all", "tokens": None, "fallback": fallback, "writing": writing, "ids": ids, "weights": None})
    frame = strip.locator(".frame.newest")
    assert frame.evaluate("frame => frame.scrollHeight > 1.5 * frame.clientHeight"), "a strip that tests nothing"
    cut = """frame => {
      const top = frame.getBoundingClientRect().top;
      const rects = [...frame.querySelectorAll('.chip')].map((chip) => chip.getBoundingClientRect());
      return rects.filter((rect) => rect.top < top - 0.5 && rect.bottom > top + 0.5).length;
    }"""
    assert frame.evaluate(cut) == 0
