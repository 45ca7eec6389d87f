"""A random user, seeded: clicks, keys, odd texts, pages, reloads, windows, and friends who follow the share link.

Knows kinds of controls by their roles and no page's own widgets: a new page is used like any other. Notes every deed before it is done.
Does not know what the app should answer; of the app it knows only the few things that must never be seen (survey.FAULTS).
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit

from playwright.sync_api import Browser, Dialog, FileChooser, Page
from playwright.sync_api import Error as BrowserError

from tests.browser.driver import Visitor, settle, visit
from tests.browser.pockets import ARROWS, FIGURES, FILES, KEYS, LETTERS, PAPERS, WINDOWS
from tests.browser.survey import AT_BOUNDS, FAULTS, OVER, REACH, STILL, SURVEY, TOLD
from ui import state
from ui.navigation import PAGES

T = TypeVar("T")
STOP = ".st-key-stop"
PATIENCE_S = 60.0  # a page that has not come by then is a fault
OUT_OF_BOUNDS = (state.MODEL, state.DEVICE)  # another model would have to be fetched, or would fill this machine's memory
NATURAL = ("context was destroyed", "interrupted by another navigation", "because of a navigation")  # a page that was left in mid-deed
# What Streamlit's own script says when its key R (draw again) is pressed before a page that was just opened is connected.
HASTY = ("Cannot rerun script when disconnected from server",)


def serious(visitor: Visitor) -> list[str]:
    return [said for said in visitor.complaints if not any(words in said for words in HASTY)]


@dataclass(frozen=True, slots=True)
class Deed:
    """One thing done, at `path` of the app; with `seed` and `number` it will be chosen again where the page offers the same."""

    seed: int
    number: int
    at_s: float
    path: str
    what: str
    on: str = ""


class Monkey:
    """`diary`: a file to which every deed is added. After `live`, `faults` says what must not have been seen."""

    def __init__(self, seed: int, browser: Browser, url: str, diary: Path) -> None:
        self.seed, self.browser, self.url, self._diary = seed, browser, url, diary
        self.deeds: list[Deed] = []
        self.misses: list[str] = []
        self._faults: list[str] = []
        self._began = time.perf_counter()
        self._number, self._random = 0, Random(seed)
        self.visitor = self._come(url)

    def live(self, seconds: float) -> None:
        """Until the time is over or something is wrong."""
        until = time.perf_counter() + seconds
        while time.perf_counter() < until and not self.faults:
            self.act()
        self.look(self.visitor)

    @property
    def faults(self) -> list[str]:
        return self._faults + serious(self.visitor)

    def report(self, last: int = 30) -> str:
        """What went wrong, and the last deeds before it."""
        deeds = [json.dumps(asdict(deed), ensure_ascii=False) for deed in self.deeds[-last:]]
        return "\n".join([f"seed {self.seed}, {len(self.deeds)} deeds, {len(self.misses)} missed", *self.faults, *deeds])

    def act(self) -> None:
        """One deed. Its choices hang on seed and number, whatever came of those before."""
        self._number += 1
        self._random = Random(f"{self.seed}:{self._number}")
        (deed,) = self._random.choices([deed for _, deed in HABITS], [weight for weight, _ in HABITS])
        try:
            deed(self, self.visitor.page)
            self.visitor.page.wait_for_timeout(self._random.choice((0, 0, 60, 150, 400)))
            if self._random.random() < 0.2:
                self.look(self.visitor)
        except BrowserError as miss:  # a control may be gone by the time the hand is there; anything else is a fault
            (self.misses if any(part in str(miss) for part in NATURAL) else self._faults).append(str(miss).splitlines()[0])

    def note(self, what: str, on: str = "") -> None:
        at_s, path = round(time.perf_counter() - self._began, 2), urlsplit(self.visitor.page.url).path
        self.deeds.append(Deed(self.seed, self._number, at_s, path, what, on))
        with self._diary.open("a", encoding="utf-8") as diary:
            diary.write(json.dumps(asdict(self.deeds[-1]), ensure_ascii=False) + "\n")

    def look(self, visitor: Visitor) -> None:
        self._faults += visitor.page.evaluate(FAULTS)
        if not visitor.page.url.startswith(self.url):
            self._faults.append(f"left the site for {visitor.page.url}")

    def _come(self, url: str) -> Visitor:
        visitor = visit(self.browser, url, locale="en-US")
        visitor.page.set_default_timeout(1000 * PATIENCE_S)
        visitor.page.on("filechooser", self._hand_in)
        visitor.page.on("crash", lambda _: self._faults.append("the page crashed"))
        visitor.page.on("popup", lambda popup: popup.close())
        visitor.page.on("dialog", self._dismiss)
        return visitor

    def _dismiss(self, dialog: Dialog) -> None:
        self._faults.append(f"a script ran: {dialog.message}")
        dialog.dismiss()

    def _hand_in(self, chooser: FileChooser) -> None:
        name, content = self._random.choice(FILES)
        with suppress(BrowserError):  # the page, and the chooser with it, may have been left
            chooser.set_files({"name": name, "mimeType": "text/plain", "buffer": content})

    def first_of(self, items: Iterable[T]) -> T:
        """One of them, by lot; an item's lot hangs on itself, so that one more or less on the page seldom changes who is drawn."""
        salt = self._random.random()
        return min(items, key=lambda item: hashlib.blake2b(f"{salt}:{item}".encode()).digest())

    def stand_still(self) -> None:
        """End the run, if one is going on; look; and open the page anew: the server must tell the same run as the page did."""
        page = self.visitor.page
        self.note("stand still")
        try:
            page.keyboard.press("Escape")
            self._settle(page)
            self._stop(page)
            before = self._told(page)
            page.reload()
            self._settle(page)
            after = self._told(page)
        except BrowserError as failure:
            self._faults.append(f"standing still: {failure}; {page.evaluate(TOLD)}; {page.inner_text('body')[:400]!r}")
        else:
            self._faults += [] if before == after else [f"before a reload {before}, after it {after}"]

    def _stop(self, page: Page) -> None:
        stop = page.locator(STOP).get_by_role("button")  # there are two in it, one for narrow screens; one at a time has a role
        box = stop.bounding_box()
        if box and stop.is_enabled():
            self._click(page, [box[side] for side in ("x", "y", "width", "height")])  # it may have ended of itself by now
            page.wait_for_function(OVER, timeout=1000 * PATIENCE_S)

    def _settle(self, page: Page) -> None:
        """At rest, and with one bar: while one page gives way to another, both are there."""
        settle(page, PATIENCE_S)
        page.wait_for_function(f"document.querySelectorAll('{STOP}').length === 1", timeout=1000 * PATIENCE_S)

    def _told(self, page: Page) -> object:
        page.wait_for_function(STILL, timeout=1000 * PATIENCE_S)
        self.look(self.visitor)
        return page.evaluate(TOLD)

    # what a hand does

    def use(self, page: Page, kind: str = "", place: str = "") -> None:
        """Any control, or one of a kind or place: first a kind, then a place on the page, then one of those that are there. Chips by the
        hundred get no more than a button that is alone."""
        offered = page.evaluate(SURVEY, OUT_OF_BOUNDS)
        chosen = [control for control in offered if control[0].startswith(kind) and control[1].startswith(place)]
        for depth in range(3) if chosen else ():
            drawn = self.first_of({control[depth] for control in chosen})
            chosen = [control for control in chosen if control[depth] == drawn]
        if not chosen:
            return
        kind, place, name = chosen[0]
        self.note(kind, f"{place}: {name}")
        box = page.evaluate(REACH, offered.index(chosen[0]))
        if box is not None:
            HANDS.get(kind, Monkey._click)(self, page, box)

    def _click(self, page: Page, box: list[float]) -> None:
        page.mouse.click(box[0] + box[2] / 2, box[1] + box[3] / 2)

    def _spot(self, box: list[float]) -> tuple[float, float]:
        return box[0] + box[2] * self._random.uniform(0.02, 0.98), box[1] + box[3] * self._random.uniform(0.02, 0.98)

    def _touch(self, page: Page, box: list[float]) -> None:
        """A picture or a slider: a click anywhere, perhaps a drag, perhaps some arrows."""
        page.mouse.move(*self._spot(box))
        page.mouse.down()
        if self._random.random() < 0.3:
            page.mouse.move(*self._spot(box), steps=3)
        page.mouse.up()
        if self._random.random() < 0.5:
            self._press(page, self._random.choices(ARROWS, k=4))

    def _write(self, page: Page, box: list[float], papers: tuple[str, ...] = PAPERS) -> None:
        self._click(page, box)
        page.keyboard.press("Control+A")
        page.keyboard.insert_text(self._random.choice(papers))
        page.keyboard.press(self._random.choice(("Control+Enter", "Enter", "Tab")))

    def _count(self, page: Page, box: list[float]) -> None:
        self._write(page, box, FIGURES)

    def _pick(self, page: Page, box: list[float]) -> None:
        self._click(page, box)
        self._press(page, ["ArrowDown"] * self._random.randrange(4) + [self._random.choice(("Enter", "Enter", "Escape"))])

    def _press(self, page: Page, keys: list[str]) -> None:
        """Keys go to whatever has the focus, but for what is out of bounds."""
        for key in keys:
            page.keyboard.press("Tab" if page.evaluate(AT_BOUNDS, OUT_OF_BOUNDS) else key)

    def keys(self, page: Page) -> None:
        keys = self._random.choices(KEYS, k=self._random.randrange(1, 6)) + self._random.choices(LETTERS, k=self._random.randrange(2))
        self.note("keys", " ".join(keys))
        self._press(page, keys)

    def ask(self, page: Page) -> None:
        """Begin a run with one of the first page's ready questions, so that the others have something to show."""
        self.note("ask")
        page.goto(self._address(page, ""))
        settle(page)
        self.use(page, place="example_")

    def play(self, page: Page) -> None:
        """The bar: play, pause, step, look back, stop."""
        self.use(page, place=self._random.choice(("play", "play", "step", "back", "begin", "stop")))

    def turn(self, page: Page) -> None:
        """Another page, by a link or by its address as from a bookmark."""
        if self._random.random() < 0.7:
            self.use(page, "link", self._random.choice(("menu", "menu", "")))
            return
        name = self._random.choice([spec.key for spec in PAGES[1:]] + [""])
        self.note("go", name)
        page.goto(self._address(page, name), wait_until="commit")

    def wander(self, page: Page) -> None:
        ways: dict[str, Callable[..., object]] = {"reload": page.reload, "back": page.go_back, "forward": page.go_forward}
        way = self._random.choice(list(ways))
        self.note(way)
        if page.url.startswith(self.url):
            ways[way](wait_until="commit")
        if page.url == "about:blank":  # before the beginning
            page.goto(self.url)

    def dress(self, page: Page) -> None:
        """Another window, other light."""
        (width, height), dark = self._random.choice(WINDOWS), self._random.random() < 0.5
        self.note("window", f"{width}×{height}{' dark' if dark else ''}")
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(color_scheme="dark" if dark else "light")

    def befriend(self, page: Page) -> None:
        """Somebody opens the address without its key, tries a few things, and leaves."""
        self.note("a friend", urlsplit(page.url).query)
        friend = self._come(self._address(page, urlsplit(page.url).path, keep=("run",)))
        mine, self.visitor = self.visitor, friend
        try:
            for _ in range(self._random.randrange(1, 5)):
                self.use(friend.page)
                friend.page.wait_for_timeout(200)
            self.look(friend)
        finally:
            self.visitor = mine
            self._faults += serious(friend)
            friend.close()

    def rest(self, page: Page) -> None:
        self.note("rest")
        settle(page)
        page.wait_for_timeout(self._random.choice((300, 1500)))

    def _address(self, page: Page, path: str, keep: tuple[str, ...] = ("run", "key", "lang")) -> str:
        query = [(name, value) for name, value in parse_qsl(urlsplit(page.url).query) if name in keep]
        return f"{self.url}/{path.strip('/')}?{urlencode(query)}"


HANDS: dict[str, Callable[[Monkey, Page, list[float]], None]] = {
    **dict.fromkeys(("canvas", "slider", "application", "img", "grid"), Monkey._touch),
    **dict.fromkeys(("textbox", "textarea"), Monkey._write),
    "spinbutton": Monkey._count,
    "combobox": Monkey._pick,
}
HABITS: tuple[tuple[int, Callable[[Monkey, Page], None]], ...] = (
    (60, Monkey.use),
    (20, Monkey.keys),
    (12, Monkey.play),
    (10, Monkey.turn),
    (2, Monkey.ask),
    (3, Monkey.wander),
    (2, Monkey.dress),
    (1, Monkey.befriend),
    (4, Monkey.rest),
)
