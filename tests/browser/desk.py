"""A visitor's hands and eyes: pressing the bar's buttons, changing page and language, reading the run from the page. Knows the texts."""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import Locator, Page

from engine.generate.detokenize import answer_text
from engine.trace import Token
from tests.browser.driver import settle
from ui import i18n

# All that the page's own store knows of the run in the URL; None before the channel has brought anything.
READ_RUN = """() => {
  const id = new URLSearchParams(location.search).get('run');
  const store = window.__openbook?.runs[id];
  if (!store) return null;
  return {id, status: store.status, stop_reason: store.stop_reason, error: store.error, channel: store.channel,
          tokens: store.tokens.length, prefilled: store.prefill !== null, steps: store.steps.length,
          generated: store.generated, kv_tokens: store.steps.at(-1)?.kv_tokens ?? store.prefill?.kv_tokens ?? 0,
          ids: store.prefill ? [store.prefill.first.id, ...store.steps.map(s => s.token.id)] : [],
          at_s: store.prefill ? [store.prefill.at_s, ...store.steps.map(s => s.at_s)] : [],
          pictures: store.pictures};
}"""
READ_ANSWER = """() => {
  const store = window.__openbook.runs[new URLSearchParams(location.search).get('run')];
  return [store.prefill.first, ...store.steps.map(step => step.token)].map(token => [token.raw, token.special]);
}"""


class Desk:
    """One visitor's page, in one language."""

    def __init__(self, page: Page, language: str = "en") -> None:
        self.page, self.language = page, language

    def words(self, key: str) -> str:
        return i18n.text(self.language, key)

    def button(self, key: str) -> Locator:
        """A button by the key of its text, such as shell.play. Its accessible name may go on with its shortcut ("Play Space")."""
        words = re.escape(self.words(key))
        return self.page.get_by_role("button", name=re.compile(rf"(^|\s){words}(\s|$)")).first

    def press(self, key: str) -> None:
        self.button(key).click()

    def go(self, page: str) -> None:
        """Change the page by the menu, as a reader does."""
        self.page.get_by_role("link", name=self.words(f"shell.nav_{page}"), exact=True).click()
        self.page.wait_for_url(lambda url: urlsplit(url).path.strip("/") == ("" if page == "home" else page))
        settle(self.page)

    def speak(self, language: str) -> None:
        """Switch the language in the sidebar."""
        self.page.get_by_role("radio", name=i18n.LANGUAGE_NAMES[language]).click()
        self.language = language
        self.page.get_by_role("link", name=self.words("shell.nav_home"), exact=True).wait_for()
        settle(self.page)

    def choose(self, key: str, option: str) -> None:
        """Pick an option in a select box, both by the keys of their texts."""
        self.page.get_by_role("combobox", name=self.words(key)).click()
        self.page.get_by_role("option", name=self.words(option), exact=True).click()
        settle(self.page)

    def longest(self, tokens: int) -> None:
        """Set the longest answer in the sidebar."""
        box = self.page.get_by_role("spinbutton", name=self.words("shell.max_new"))
        if not box.is_visible():
            self.page.get_by_text(self.words("shell.settings"), exact=True).click()
        box.fill(str(tokens))
        box.press("Enter")
        settle(self.page)

    def ask(self, question: str) -> None:
        """Write a question of one's own on the home page and begin."""
        self.write(question)
        self.press("home.ask")

    def write(self, question: str) -> None:
        """Write a question on the home page without beginning."""
        box = self.page.get_by_role("textbox", name=self.words("home.own"))
        box.fill(question)
        box.press("Control+Enter")
        settle(self.page)

    def run(self) -> dict[str, Any] | None:
        return self.page.evaluate(READ_RUN)

    def answer_in_store(self) -> str:
        """The answer as the page's store has it: the bytes of all tokens that are not special, as text."""
        tokens = self.page.evaluate(READ_ANSWER)
        return answer_text(Token(0, base64.b64decode(raw), "", "generated", 0, special) for raw, special in tokens)

    def run_id(self) -> str:
        return parse_qs(urlsplit(self.page.url).query)["run"][0]

    def wait(self, what: Callable[[dict[str, Any]], bool], timeout_s: float = 60.0) -> dict[str, Any]:
        """Until the run, as the page knows it, is as wanted; gives it."""
        deadline = time.perf_counter() + timeout_s
        run = None
        while time.perf_counter() < deadline:
            run = self.run()
            if run is not None and what(run):
                return run
            self.page.wait_for_timeout(50)
        raise AssertionError(f"the run did not come to that within {timeout_s} s: {run}")

    def until_steps(self, count: int) -> dict[str, Any]:
        return self.wait(lambda run: run["steps"] >= count)

    def until_status(self, status: str, timeout_s: float = 60.0) -> dict[str, Any]:
        return self.wait(lambda run: run["status"] == status, timeout_s)
