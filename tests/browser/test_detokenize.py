"""Station 4 in Chromium: an answer that grows by any cut of its bytes is shown as far as its characters are whole, no more, no less."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from playwright.sync_api import Browser, Page, expect

from engine.trace import Token
from tests.browser.desk import Desk
from tests.browser.driver import Visitor, settle
from tests.browser.test_parts import show
from tests.fakes import make_tokenizer
from tests.samples import PREFILL, step
from ui import i18n

LOCALES = {"en": "en-US", "zh": "zh-CN"}
TEXT = "你好🤗地來👨‍👩‍👧‍👦é"
RAW = TEXT.encode()
TYPED = "a\ufffdb 你"  # a replacement sign that is really in the answer
# Hands a run's tokens to the page one by one; gives what is shown after each of them.
GROW = """async ([prefill, steps, read]) => {
  const idle = window.__openbook.idle;
  Object.assign(idle, { status: "running", stop_reason: null, prefill: null, epoch: idle.epoch + 1 });
  Object.assign(idle, { steps: [], itl: [], itlSum: [0], waitSum: [0] });
  const frames = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  const seen = [];
  for (const [at, message] of [prefill, ...steps].entries()) {
    if (at === 0) Object.assign(idle, { prefill: message, revision: idle.revision + 1 });
    else idle.steps.push(message);
    window.__openbook.wake();
    await frames();
    seen.push(eval(read)());
  }
  return seen;
}"""
# The text of the answer sheet, and apart from it the bytes that it holds back.
READ_ANSWER = """() => {
  const text = document.querySelector('.answer .text').cloneNode(true);
  const pending = text.querySelector('.pending');
  const held = pending?.textContent ?? '';
  pending?.remove();
  return [text.textContent, held];
}"""
# The text of all rows in order (invisible characters as they are), and the bytes of the rows that wait.
READ_ROWS = """() => {
  const marks = {'·': ' ', 'ZWJ': '\\u200d', '◌': ''};
  const plain = (node) => node.className === 'ob-mark' ? marks[node.textContent] : node.textContent;
  const cells = [...document.querySelectorAll('.rows .row .out')];
  const own = cells.flatMap((cell) => [...cell.childNodes]).filter((node) => !/pass|note/.test(node.className ?? ''));
  const text = own.map(plain).join('');
  return [text, document.querySelectorAll('.rows .row.waiting').length];
}"""


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context()
    yield context.new_page()
    context.close()


def pieces(cuts: range | list[int], raw: bytes = RAW) -> list[bytes]:
    edges = [0, *(cut for cut in cuts if 0 < cut < len(raw)), len(raw)]
    return [raw[start:end] for start, end in pairwise(edges)]


def by_tokenizer(text: str) -> list[bytes]:
    """As a real byte-level tokenizer cuts it; it knows no emoji, so it cuts within characters."""
    tokenizer = make_tokenizer()
    back = {char: byte for byte, char in enumerate(byte_characters())}
    return [bytes(back[char] for char in tokenizer.convert_ids_to_tokens(id)) for id in tokenizer(text)["input_ids"]]


def byte_characters() -> list[str]:
    """GPT-2's stand-in for each of the 256 bytes."""
    own = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(byte) if byte in own else chr(next(others)) for byte in range(256)]


def grow(page: Page, name: str, raws: list[bytes], read: str, special: tuple[int, ...] = (), **data: Any) -> list[list[Any]]:
    tokens = [Token(at, raw, "", "generated", 3 + at, at in special) for at, raw in enumerate(raws)]
    show(page, name, replace(PREFILL, first=tokens[0]), **data)
    steps = [replace(step(at), token=token) for at, token in enumerate(tokens[1:], 1)]
    return page.evaluate(GROW, msgspec.to_builtins([replace(PREFILL, first=tokens[0]), steps, read]))


def whole(raw: bytes) -> str:
    """The longest beginning that is whole characters; all bytes before it are."""
    return raw.decode(errors="ignore")


CUTS = {
    "single bytes": pieces(range(1, len(RAW))),
    **{f"by {size}": pieces(range(size, len(RAW), size)) for size in (2, 3, 4, 5, 7)},
    **{f"by 4 from {start}": pieces(range(start, len(RAW), 4)) for start in (1, 2, 3)},
    "whole": [RAW],
    "characters": [char.encode() for char in TEXT],
    "tokenizer": by_tokenizer(TEXT),
    "typed replacement sign": pieces(range(1, 20), TYPED.encode()),
}


@pytest.mark.parametrize("cut", CUTS)
def test_after_every_token_all_whole_characters_are_shown_and_no_other(page: Page, cut: str) -> None:
    raws = CUTS[cut]
    assert len(raws) > 1 or cut == "whole"
    written = [b"".join(raws[: at + 1]) for at in range(len(raws))]
    sheet = grow(page, "answer", raws, READ_ANSWER)
    rows = grow(page, "bytes_view", raws, READ_ROWS, show_special=False)
    for raw, (text, held), (told, waiting) in zip(written, sheet, rows, strict=True):
        assert text == whole(raw)
        assert told == whole(raw)
        rest = raw[len(whole(raw).encode()) :]
        assert bytes.fromhex(held) == rest, "what is held back is seen, and it is less than a character"
        assert (waiting > 0) is (len(rest) > 0)
    assert sheet[-1][0] == b"".join(raws).decode()


def test_the_row_that_completes_a_character_shows_it_and_says_what_waits(page: Page) -> None:
    grow(page, "bytes_view", pieces([2, 4]), READ_ROWS, show_special=False)
    raws = [RAW[:2], RAW[2:4]]
    grow(page, "bytes_view", raws, READ_ROWS, show_special=False)
    words = i18n.text("en", "components.bytes_view_waiting")
    assert [cell.strip() for cell in page.locator(".rows .row .out").all_inner_texts()] == ["↓", f"你{words}"]
    expect(page.locator(".waits")).to_have_text(i18n.text("en", "components.bytes_view_waits", n=1))


@pytest.mark.parametrize("shown", [True, False])
def test_special_tokens_stand_in_the_text_only_where_they_are_wanted(page: Page, shown: bool) -> None:
    raws = ["你".encode(), b"<|im_end|>", b" ok"]
    seen = grow(page, "answer", raws, READ_ANSWER, special=(1,), show_special=shown, question=None)
    name = "<|im_end|>" if shown else ""
    assert [text for text, _ in seen] == ["你", f"你{name}", f"你{name} ok"]
    assert page.locator(".answer .special").count() == int(shown)
    expect(page.locator(".answer .question")).to_be_hidden()


def test_a_mark_cannot_end_a_character(page: Page) -> None:
    seen = grow(page, "answer", [RAW[:2], b"<|im_end|>"], READ_ANSWER, special=(1,), show_special=True)
    assert seen == [["", "E4 BD"], ["E4 BD<|im_end|>", ""]]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_readers_text_stands_beside_the_raw_one_and_equals_the_tokenizers(open_page: Callable[..., Visitor], language: str) -> None:
    desk = Desk(open_page("/", locale=LOCALES[language]).page, language)
    desk.longest(14)
    desk.ask("Write three emoji and 你好")
    desk.until_status("ended", 120)
    desk.go("detokenize")
    ended = desk.until_status("ended")
    rows = desk.page.locator(".rows .row")
    equal = desk.page.get_by_text(desk.words("detokenize.equal").partition("{")[0].rstrip(), exact=False)
    expect(rows).to_have_count(ended["generated"])
    expect(desk.page.get_by_text(desk.words("detokenize.whole"), exact=True)).to_be_visible()
    expect(equal).to_be_visible()
    assert received(desk) == desk.answer_in_store().replace("\n", "")
    desk.page.get_by_text(desk.words("detokenize.special"), exact=True).click()
    settle(desk.page)
    expect(equal).to_be_visible()
    desk.press("shell.back")
    expect(rows).to_have_count(ended["generated"] - 1)
    assert "\ufffd" not in desk.page.locator("body").inner_text()


def received(desk: Desk) -> str:
    """The text of the answer sheet without what it holds back, lines joined."""
    cleaned = "box => { const text = box.cloneNode(true); text.querySelector('.pending')?.remove(); return text.textContent; }"
    return desk.page.locator(".answer .text").evaluate(cleaned)
