"""Starting the real app and a real Chromium, for browser tests and benchmarks. Knows processes and ports, not pages."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Literal

import psutil
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Playwright

ROOT = Path(__file__).resolve().parents[2]
CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
CHROMIUM_ARGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync"]
# Chromium's own reports that are no fault of a page: a channel dropped while the server is being stopped, and the two questions
# with which Streamlit's front end finds out under which path a deep link's server lives.
HARMLESS = (
    "net::ERR_CONNECTION_REFUSED",
    "net::ERR_ABORTED",
    "WebSocket is closed before the connection is established",
    "/_stcore/health)",
    "/_stcore/host-config)",
)


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


@dataclass
class AppServer:
    """`streamlit run app.py` in its own process; `log` is the file that holds all it printed."""

    log: Path
    env: dict[str, str] = field(default_factory=dict)
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None
    _out: IO[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self, timeout_s: float = 60.0) -> AppServer:
        command = [sys.executable, "-m", "streamlit", "run", "app.py", "--server.port", str(self.port)]
        command += ["--server.address", "127.0.0.1", "--server.headless", "true"]
        self._out = self.log.open("ab")
        self.process = subprocess.Popen(command, cwd=ROOT, stdout=self._out, stderr=self._out, env=os.environ | self.env)
        deadline = time.perf_counter() + timeout_s
        while time.perf_counter() < deadline:
            assert self.process.poll() is None, f"the app ended at once:\n{self.text()}"
            try:
                with urllib.request.urlopen(f"{self.url}/_stcore/health", timeout=2):
                    return self
            except OSError:
                time.sleep(0.1)
        raise TimeoutError(f"the app did not answer within {timeout_s} s:\n{self.text()}")

    def engines(self) -> list[psutil.Process]:
        """The engine processes below the app."""
        assert self.process is not None
        children = psutil.Process(self.process.pid).children(recursive=True)
        return [child for child in children if "engine.serve.server" in " ".join(child.cmdline())]

    def stop(self, timeout_s: float = 15.0) -> list[psutil.Process]:
        """SIGTERM; gives the processes that were still alive after `timeout_s` (and kills them)."""
        assert self.process is not None
        family = [psutil.Process(self.process.pid)] if self.process.poll() is None else []
        family += family[0].children(recursive=True) if family else []
        if self.process.poll() is None:
            self.process.terminate()
        _, alive = psutil.wait_procs(family, timeout=timeout_s)
        for process in alive:
            process.kill()
        self.process.wait(10)
        if self._out:
            self._out.close()
        return alive

    def text(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")


@dataclass
class Visitor:
    """One browser session: a context of its own, its page, and every complaint its console made."""

    context: BrowserContext
    page: Page
    complaints: list[str] = field(default_factory=list)

    def hear(self, message: ConsoleMessage) -> None:
        said = f"{message.text} ({message.location.get('url')})"
        if message.type == "error" and not any(word in said for word in HARMLESS):
            self.complaints.append(said)

    def close(self) -> None:
        self.context.close()


def find_chromium() -> str | None:
    """Path of an installed Chromium or Chrome; None lets Playwright use the browser it fetched itself."""
    named = os.environ.get("OPENBOOK_CHROMIUM")
    return named or next((path for path in map(shutil.which, CHROMIUM_NAMES) if path), None)


def launch(playwright: Playwright) -> Browser:
    return playwright.chromium.launch(executable_path=find_chromium(), args=CHROMIUM_ARGS)


def visit(
    browser: Browser, url: str, *, locale: str = "en-US", scheme: Literal["light", "dark"] = "light", width: int = 1440, height: int = 900
) -> Visitor:
    """A new session that opens `url`; waits until the page's script has run once."""
    context = browser.new_context(locale=locale, color_scheme=scheme, viewport={"width": width, "height": height})
    visitor = Visitor(context, context.new_page())
    visitor.page.on("console", visitor.hear)
    visitor.page.on("pageerror", lambda error: visitor.complaints.append(f"pageerror: {error}"))
    visitor.page.goto(url)
    settle(visitor.page)
    return visitor


def settle(page: Page, timeout_s: float = 30.0) -> None:
    """Wait until Streamlit has run the page's script and is at rest."""
    page.wait_for_selector('[data-testid="stApp"][data-test-script-state="notRunning"]', timeout=timeout_s * 1000)
