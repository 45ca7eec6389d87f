"""How an end is called by its cause, and what is told of it: what stayed, what was lost, what engineers do."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.errors import EngineLost, LoadFailed, OutOfMemory, PromptTooLong, RunFreed
from engine.trace import RunSettings, RunStatus, RunView, StopReason
from tests.app.visit import go_to, open_app, words_of
from tests.samples import INFO, PREFILL, step, token
from ui import ends, i18n, numbers, resources, state
from ui.sections import branches, outcome

pytestmark = pytest.mark.usefixtures("engine_process")


def ended(**changes: object) -> RunView:
    tokens = tuple(token(at) for at in range(3))
    settings = RunSettings()
    made = RunView("r" * 22, "Why?", settings, "m", "2026-01-01T00:00:00+00:00", RunStatus.ENDED, INFO, tokens, PREFILL, (step(1), step(2)))
    return replace(made, **{"stop_reason": StopReason.LENGTH} | changes)


CAPPED = OutOfMemory(cause="cap", detail="KV cache: capped at 10 B").info
NO_MEMORY = OutOfMemory(cause="device", detail="KV cache: so an allocator may begin, too").info
CUT = RunSettings(power_cut_at=3)


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"stop_reason": StopReason.OUT_OF_MEMORY, "error": CAPPED, "settings": CUT}, "paper"),
        ({"stop_reason": StopReason.OUT_OF_MEMORY, "error": NO_MEMORY, "settings": CUT}, "power"),
        ({"stop_reason": StopReason.OUT_OF_MEMORY, "error": NO_MEMORY}, "memory"),
        ({"stop_reason": StopReason.OUT_OF_MEMORY, "error": NO_MEMORY, "settings": RunSettings(power_cut_at=4)}, "memory"),
        ({"stop_reason": StopReason.OUT_OF_MEMORY, "error": NO_MEMORY, "prefill": None, "steps": ()}, "memory"),
        ({"stop_reason": StopReason.EOS}, "eos"),
        ({"stop_reason": StopReason.EOS, "steps": (step(1), replace(step(2), chosen_by="reader"))}, "eos_hand"),
        ({"stop_reason": StopReason.EOS, "steps": (replace(step(1), chosen_by="reader"), step(2))}, "eos"),
        ({"stop_reason": StopReason.EOS, "steps": (), "prefill": replace(PREFILL, chosen_by="reader")}, "eos_hand"),
        ({"stop_reason": StopReason.ERROR, "error": PromptTooLong(tokens=9, context=8).info, "prefill": None, "steps": ()}, "refused"),
        ({"stop_reason": StopReason.ERROR, "error": LoadFailed(model="m", detail="d").info, "prefill": None, "steps": ()}, "refused"),
        ({"stop_reason": StopReason.ERROR, "error": EngineLost(exit_code=-9).info, "prefill": None, "steps": ()}, "error"),
        ({"stop_reason": StopReason.ERROR, "error": EngineLost(exit_code=-9).info}, "error"),
        ({"status": RunStatus.PAUSED, "stop_reason": None}, None),
    ],
)
def test_an_end_is_called_by_its_cause(changes: dict[str, object], name: str | None) -> None:
    view = ended(**changes)
    assert ends.name_of(view) == name
    if name is not None:
        i18n.text("en", f"stops.{ends.sentence(view)}")
        i18n.text("en", f"branches.{branches.stand(view)}")
        assert (branches.stand(view) == "end_eos_hand") is (name == "eos_hand")
        for part in ("", "_lost", "_engineers"):
            i18n.text("en", f"endings.{name}{part}")


@pytest.mark.parametrize("language", i18n.LANGUAGES)
@pytest.mark.parametrize("name", ["memory", "refused"])
def test_what_nobody_asked_for_has_its_own_words(monkeypatch: pytest.MonkeyPatch, name: str, language: str) -> None:
    begun = {} if name == "memory" else {"prefill": None, "steps": ()}
    error = {"memory": NO_MEMORY, "refused": PromptTooLong(tokens=1_030, context=1_024).info}[name]
    reason = {"memory": StopReason.OUT_OF_MEMORY, "refused": StopReason.ERROR}[name]
    words = look_at(monkeypatch, ended(stop_reason=reason, error=error, **begun), language)
    for part in ("exam", "machine", "lost", "engineers"):
        assert i18n.text(language, f"endings.{name}_{part}") in words
    assert i18n.text(language, "endings.error_exam") not in words
    assert i18n.text(language, "endings.ended", name=i18n.text(language, f"endings.{name}")) in words
    assert ("1,030" in words) is (name == "refused")


def test_notes_that_are_gone_are_not_among_what_stayed(monkeypatch: pytest.MonkeyPatch) -> None:
    columns, cleared = i18n.text("en", "endings.stayed_columns", n=4, size="100 B"), i18n.text("en", "endings.stayed_cleared")
    words = look_at(monkeypatch, ended(run_id="h" * 22), freed=False)
    assert columns in words
    assert cleared not in words
    words = look_at(monkeypatch, ended(run_id="f" * 22), freed=True)
    assert columns not in words
    assert cleared in words
    words = look_at(monkeypatch, ended(run_id="l" * 22, stop_reason=StopReason.ERROR, error=EngineLost(exit_code=-9).info), freed=False)
    assert columns not in words
    assert cleared not in words
    assert i18n.text("en", "endings.error_lost") in words


@pytest.mark.parametrize("language", i18n.LANGUAGES)
def test_one_token_is_one(monkeypatch: pytest.MonkeyPatch, language: str) -> None:
    words = look_at(monkeypatch, ended(steps=(), stop_reason=StopReason.STOPPED), language)
    assert i18n.text(language, "endings.reached_after_one", n=1) in words
    assert i18n.text(language, "endings.stayed_tokens_one", n=1) in words
    assert i18n.text(language, "endings.stayed_time", ttft="100 ms") in words
    assert numbers.NOTHING not in "".join(line for line in words.splitlines() if line.startswith("- "))
    words = look_at(monkeypatch, ended(steps=(), prefill=None, stop_reason=StopReason.STOPPED), language)
    assert i18n.text(language, "endings.reached_before") in words


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"status": RunStatus.PAUSED}, "stopped_how_paused"),
        ({"status": RunStatus.QUEUED, "prefill": None, "steps": ()}, "stopped_how_queued"),
        ({"status": RunStatus.RUNNING, "prefill": None, "steps": ()}, "stopped_how_reading"),
        ({"status": RunStatus.RUNNING}, "stopped_how"),
        ({}, "stopped_how_first"),
    ],
)
def test_what_stop_would_do_depends_on_what_happens(monkeypatch: pytest.MonkeyPatch, changes: dict[str, object], key: str) -> None:
    reason = None if "status" in changes else StopReason.LENGTH
    words = look_at(monkeypatch, ended(stop_reason=reason, **changes))
    told = {name for name in (f"stopped_how{end}" for end in ("", "_paused", "_queued", "_reading", "_first"))
            if i18n.text("en", f"endings.{name}") in words}  # fmt: skip
    assert told == {key}


def look_at(monkeypatch: pytest.MonkeyPatch, view: RunView, language: str = "en", *, freed: bool = False) -> str:
    """What the Decode page says of `view`, of which the engine still has the notes, or not."""
    app = open_app(language)
    view = replace(view, model_id=app.session_state[state.MODEL])

    def cell(*args: object) -> None:
        if freed:
            raise RunFreed(run=view.run_id)

    monkeypatch.setattr(state, "language", lambda: language)
    monkeypatch.setattr(resources.engine(), "view", lambda run_id: view)
    monkeypatch.setattr(resources.engine(), "family", lambda run_id: (view,))
    monkeypatch.setattr(resources.engine(), "cell", cell)
    app.session_state["run_id"] = view.run_id
    go_to(app, "decode")
    assert not app.exception
    return words_of(app)


def test_what_came_first_is_said() -> None:
    assert ends.intended(RunSettings()) is None
    assert ends.intended(RunSettings(time_limit_s=2)) == "timeout"
    assert ends.intended(RunSettings(kv_limit_bytes=2)) == "paper"


def test_own_work_is_what_a_time_limit_counts() -> None:
    prefill = replace(PREFILL, queue_s=3.0, template_s=0.5, prefill_s=1.0, sample_s=0.25)
    view = ended(prefill=prefill, stop_reason=StopReason.TIMEOUT, settings=RunSettings(time_limit_s=1.5))
    own_s = 0.5 + 1.0 + 0.25 + 2 * 0.011
    assert outcome.reached(view, "timeout") == i18n.text("en", "endings.timeout_reached", used=numbers.milliseconds(own_s), limit="1.5")
