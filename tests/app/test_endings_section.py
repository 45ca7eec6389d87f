"""Every way to end, brought about from the page, on a tiny real model behind the real engine process."""

from __future__ import annotations

from dataclasses import replace

import pytest
from streamlit.testing.v1 import AppTest

from engine.trace import RunSettings, RunStatus, RunView, StopReason
from tests.app.visit import ask, go_to, open_app, view_of, wait_for, words_of
from tests.samples import INFO, PREFILL, step, token
from ui import ends, i18n, numbers, resources, state
from ui.sections import endings, outcome

pytestmark = pytest.mark.usefixtures("engine_process")
LIMITS = ("time_limit_s", "kv_limit_bytes", "context_limit", "power_cut_at")
COUNT = 4
REASONS = {
    "eos": StopReason.EOS,
    "length": StopReason.LENGTH,
    "context_full": StopReason.CONTEXT_FULL,
    "stopped": StopReason.STOPPED,
    "timeout": StopReason.TIMEOUT,
    "paper": StopReason.OUT_OF_MEMORY,
    "power": StopReason.OUT_OF_MEMORY,
}


def ended(**changes: object) -> RunView:
    tokens = tuple(token(at) for at in range(3))
    settings = RunSettings()
    made = RunView("r" * 22, "Why?", settings, "m", "2026-01-01T00:00:00+00:00", RunStatus.ENDED, INFO, tokens, PREFILL, (step(1), step(2)))
    return replace(made, **{"stop_reason": StopReason.LENGTH} | changes)


def press(app: AppTest, name: str) -> RunView:
    """Let it happen and wait for the end; gives the run that is current then."""
    app.button(key=f"end_now_{name}").click().run()
    assert not app.exception
    wait_for(lambda: view_of(app).status == RunStatus.ENDED)
    app.run()
    assert not app.exception
    return view_of(app)


def set_number(app: AppTest, key: str, value: float) -> None:
    app.number_input(key=key).set_value(value).run()


def bring_about(app: AppTest, name: str) -> RunView:
    keys = {"length": state.END_LENGTH, "context_full": state.END_ROOM, "paper": state.END_PAPER, "power": state.END_CUT}
    if name in keys:
        set_number(app, keys[name], COUNT)
    if name == "timeout":
        set_number(app, state.END_BELL_S, 0.1)
    if name == "stopped":
        app.session_state[state.SPEED] = "half"
        app.run()
        app.button(key="end_now_stopped").click().run()
        wait_for(lambda: view_of(app).steps)
        app.run()
        app.session_state[state.SPEED] = "real"
    return press(app, name)


@pytest.mark.parametrize("language", i18n.LANGUAGES)
@pytest.mark.parametrize("name", REASONS)
def test_every_end_happens_is_explained_and_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch, name: str, language: str) -> None:
    monkeypatch.setattr(state, "language", lambda: language)  # what is compared with is told outside a session
    app = open_app(language)
    before = ask(app, max_new_tokens=8)
    go_to(app, "decode")
    run = bring_about(app, name)
    told = "eos_hand" if name == "eos" else name  # this end token is the reader's deed, not the model's
    assert (run.stop_reason, ends.name_of(run)) == (REASONS[name], told)
    assert run.run_id != before.run_id
    assert run.generated, "a part of the answer stays"
    written = len(run.generated)
    if name in {"context_full", "paper"}:
        assert written == COUNT + 1, "the token written last is never read and needs no place"
    if name in {"length", "power"}:
        assert written == COUNT
    newest = run.steps[-1] if run.steps else run.prefill
    assert newest is not None
    assert newest.kv_tokens == len(run.tokens) + written - 1
    shared = [token.id for token in before.generated[: min(written, len(before.generated)) - (name == "eos")]]
    assert [token.id for token in run.generated[: len(shared)]] == shared, "one thing changed, and not the answer up to there"
    words = words_of(app)
    assert i18n.text(language, "endings.ended", name=i18n.text(language, f"endings.{told}")) in words
    for part in ("lost", "engineers"):
        assert i18n.text(language, f"endings.{told}_{part}") in words
    assert outcome.reached(run, told) in words
    kept = {"size": numbers.mebibytes(newest.kv_bytes)}
    assert f"- {outcome.counted('endings.stayed_columns', newest.kv_tokens, **kept)}" in words
    mark = f":material/flag: {i18n.text(language, 'endings.happened')}]"
    assert [text.value for text in app.markdown if mark in text.value and f"**{i18n.text(language, f'endings.{name}')}**" in text.value]
    assert sum(mark in text.value for text in app.markdown) == 1
    app.button(key="play").click().run()
    wait_for(lambda: view_of(app).status == RunStatus.ENDED)
    following = view_of(app)
    assert [getattr(following.settings, limit) for limit in LIMITS] == [None] * 4
    assert following.settings.max_new_tokens == 8
    assert [token.id for token in following.generated] == [token.id for token in before.generated]


def test_the_end_token_takes_the_place_of_the_token_on_screen() -> None:
    app = open_app()
    before = ask(app, max_new_tokens=8)
    go_to(app, "decode")
    for _ in range(3):
        app.button(key="back").click().run()
    at = app.session_state["cursor"]
    run = press(app, "eos")
    assert run.origin is not None
    assert (run.origin.run_id, run.origin.index) == (before.run_id, at)
    assert run.model is not None
    assert [token.id for token in run.generated] == [*(token.id for token in before.generated[:at]), run.model.eos_ids[0]]
    assert app.button(key="end_now_eos").disabled, "it is the end token already"
    assert i18n.text("en", "endings.off_is_eos") in words_of(app)


def test_before_there_is_a_token_it_says_what_is_missing() -> None:
    app = open_app()
    app.button(key="step").click().run()
    wait_for(lambda: view_of(app).tokens)
    go_to(app, "decode")
    assert app.button(key="end_now_eos").disabled
    assert i18n.text("en", "endings.off_first") in words_of(app)
    assert not app.button(key="end_now_context_full").disabled, "the question has been cut into tokens"
    assert not [text for text in app.markdown if "**It ended" in text.value]
    app.button(key="stop").click().run()
    wait_for(lambda: view_of(app).status == RunStatus.ENDED)


def test_a_follower_may_look_and_not_bring_about() -> None:
    owner = open_app()
    run = ask(owner)
    follower = go_to(open_app("zh", run=run.run_id), "decode")
    assert not follower.exception
    assert all(follower.button(key=f"end_now_{name}").disabled for name in REASONS)
    assert i18n.text("zh", "endings.follower") in words_of(follower)
    assert i18n.text("zh", "endings.length_engineers") in words_of(follower), "the explanation is for all"


def test_a_small_desk_is_said_with_its_own_size() -> None:
    app = open_app()
    run = ask(app)
    go_to(app, "decode")
    app.session_state[state.SPEED] = "half"
    app.run()
    set_number(app, state.END_ROOM, 30)
    app.number_input(key=state.MAX_NEW).set_value(48).run()
    app.button(key="end_now_context_full").click().run()
    wait_for(lambda: view_of(app).tokens)
    app.run()
    places = {"context": len(run.tokens) + 30, "tokens": len(run.tokens), "left": 31, "wanted": 48}
    assert [warning.value for warning in app.warning] == [i18n.text("en", "endings.little_desk", **places)]
    app.button(key="stop").click().run()
    wait_for(lambda: view_of(app).status == RunStatus.ENDED)


@pytest.mark.parametrize("language", i18n.LANGUAGES)
def test_an_accident_is_explained_too(monkeypatch: pytest.MonkeyPatch, language: str) -> None:
    app = open_app(language)
    monkeypatch.setattr(resources.engine(), "view", lambda run_id: ended(stop_reason=StopReason.ERROR))
    app.session_state["run_id"] = "r" * 22
    go_to(app, "decode")
    assert not app.exception
    assert i18n.text(language, "endings.error_lost") in words_of(app)


@pytest.mark.parametrize("name", REASONS)
def test_what_is_changed_is_one_thing(name: str) -> None:
    view = ended(settings=RunSettings(temperature=0.5, seed=7, power_cut_at=2, max_new_tokens=3))
    changed = RunSettings(**endings.changes(view, name, 5, 20))
    assert (changed.temperature, changed.seed, changed.use_chat_template) == (0.5, 7, True)
    limits = {limit: getattr(changed, limit) for limit in LIMITS if getattr(changed, limit) is not None}
    assert limits == {
        "context_full": {"context_limit": 8},
        "timeout": {"time_limit_s": 5.0},
        "paper": {"kv_limit_bytes": numbers.formula_bytes(INFO, 8)},
        "power": {"power_cut_at": 5},
    }.get(name, {})
    assert changed.max_new_tokens == {"length": 5, "timeout": 1022, "stopped": 1022, "eos": 1022}.get(name, 20)


def test_the_limit_comes_before_the_longest_answer() -> None:
    assert endings.changes(ended(), "power", 30, 20)["max_new_tokens"] > 30
