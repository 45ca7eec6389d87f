"""What the transport bar tells the browser of a run: a page is drawn anew for what it awaits, and for nothing else that moves."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.trace import RunSettings, RunStatus, RunView
from tests.samples import INFO, PREFILL, step, token
from ui import navigation, state, theme, transport


@pytest.fixture(autouse=True)
def _light(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "palette", lambda: theme.LIGHT)


BEGUN = RunView("r", "smollm2-135m", "cpu", "hello", RunSettings(), RunStatus.RUNNING, INFO, (token(0),))
READ = replace(BEGUN, prefill=PREFILL)
WRITTEN = replace(READ, steps=(step(1),))


def known(view: RunView | None, page: str) -> dict[str, object]:
    return transport._known(view, next(spec.awaits for spec in navigation.PAGES if spec.key == page))


def test_the_decode_page_does_not_wait_for_the_pen() -> None:
    """Drawn once its tokens are known, it stays as it is until the run rests."""
    assert known(BEGUN, "decode") == known(READ, "decode") == known(WRITTEN, "decode")
    assert known(replace(BEGUN, tokens=()), "decode") != known(BEGUN, "decode")
    assert known(replace(WRITTEN, status=RunStatus.PAUSED), "decode")["generated"] == 2


@pytest.mark.parametrize("page", ["home", "tokenize", "prefill", "detokenize", "records"])
def test_other_pages_are_drawn_when_the_paper_is_read(page: str) -> None:
    assert known(BEGUN, page) != known(READ, page) == known(WRITTEN, page)


def test_the_mark_sheet_is_drawn_in_the_browser() -> None:
    assert known(BEGUN, "marks") == known(READ, "marks") == known(WRITTEN, "marks")


def test_nothing_is_known_without_a_run() -> None:
    assert known(None, "home") == {"status": None, "tokens": False, "prefill": False, "generated": None, "dark": False}
