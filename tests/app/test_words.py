"""The words of the app: every failure and ending has some, none is missing, untrusted ones stay literal."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from engine import errors
from engine.trace import StopReason
from ui import i18n, panels

ROOT = Path(__file__).resolve().parents[2]
HOSTILE = "</span><script>alert(1)</script> $5 and $6 _a_ :red[x] **b** `c` ``` :material/home:"


@pytest.mark.parametrize("language", i18n.LANGUAGES)
def test_every_failure_and_every_ending_has_words(language: str) -> None:
    codes = {kind.code for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.EngineError)}
    assert codes == set(i18n.table("errors"))
    assert {str(reason) for reason in StopReason} == set(i18n.table("stops"))
    assert all(i18n.text(language, f"errors.{code}") for code in codes)


def test_missing_text_raises() -> None:
    with pytest.raises(i18n.MissingText):
        i18n.text("en", "home.no_such_text")
    with pytest.raises(i18n.MissingText):
        i18n.text("xx", "home.title")


def test_every_text_that_is_asked_for_exists() -> None:
    for path in [*(ROOT / "pages").glob("*.py"), *(ROOT / "ui").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            asked = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "t" and node.args
            if asked and isinstance(node.args[0], ast.Constant):
                for language in i18n.LANGUAGES:
                    assert i18n.text(language, node.args[0].value), f"{path.name}: {node.args[0].value}"


def test_untrusted_words_stay_inside_their_code_span() -> None:
    for nasty in ("a`b", "``` x ```", "`", HOSTILE, "", "line\nline"):
        span = panels.code_span(nasty)
        fence = span[: len(span) - len(span.lstrip("`"))]
        assert span.endswith(fence)
        assert fence not in span[len(fence) : -len(fence)] or not nasty
