"""The tree of branches and the slider seen from Python: what is sent to the browser, what a choice does, and whose word counts."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from engine.errors import Unwatched
from engine.trace import Origin, RunSettings, RunStatus, RunView, StopReason, Token
from tests.app.visit import ask, go_to, open_app, view_of, wait_for, words_of
from tests.samples import PREFILL, step
from ui import branching, i18n, resources, state
from ui.sections import branches, timeline

TOKENS = 6


def sent(app: AppTest, name: str) -> dict[str, Any] | None:
    """What the page sends to a component; None where it is not drawn."""
    found = [json.loads(part.proto.json) for part in app.get("bidi_component") if part.proto.component_name == f"openbook_{name}"]
    return found[0] if found else None


def run(name: str, count: int = TOKENS, left: RunView | None = None, index: int = 0, own: int = 90) -> RunView:
    """A run of `count` tokens; a branch of `left` writes token `own` from `index` on."""
    ids = [token.id for token in left.generated[:index]] + [own] * (count - index) if left else list(range(40, 40 + count))
    tokens = [Token(id_, bytes([id_]), chr(id_), "generated", 3 + at) for at, id_ in enumerate(ids)]
    steps = tuple(replace(step(at), token=token) for at, token in enumerate(tokens[1:], 1))
    origin = Origin(left.run_id, index, left.generated[index]) if left else None
    made = RunView(name, "?", RunSettings(), "m", "2026-01-01T00:00:00+00:00", RunStatus.ENDED, None, (), replace(PREFILL, first=tokens[0]))
    return replace(made, steps=steps, stop_reason=StopReason.LENGTH, origin=origin)


ROOT = run("root")
EARLY = run("early", left=ROOT, index=1)
LATE = run("late", left=ROOT, index=4)
DEEP = run("deep", left=EARLY, index=3, own=91)
FAMILY = (ROOT, EARLY, LATE, DEEP)


@pytest.fixture
def in_english(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(branches, "t", lambda key, /, **places: i18n.text("en", key, **places))


@pytest.mark.usefixtures("in_english")
def test_children_follow_their_parents_and_later_forks_come_first() -> None:
    rows = branches.rows(FAMILY, "root")
    assert [row["run_id"] for row in rows] == ["root", "late", "early", "deep"]
    assert [row["parent"] for row in rows] == [None, 0, 0, 2]
    assert [row["index"] for row in rows] == [None, 4, 1, 3]
    assert [row["name"] for row in rows] == ["The first answer", "Branch 2", "Branch 1", "Branch 3"], "numbered as they were made"
    assert rows[2]["left"]["id"] == ROOT.generated[1].id
    assert rows[2]["wrote"]["id"] == 90
    assert rows[2]["words"] == "Z" * (TOKENS - 1), "only what the branch wrote itself"


@pytest.mark.usefixtures("in_english")
@pytest.mark.parametrize(("tokens", "more"), [(branches.WORDS, False), (branches.WORDS + 1, True)])
def test_words_that_break_off_say_so(tokens: int, more: bool) -> None:
    row = branches.rows((replace(ROOT, steps=tuple(step(at) for at in range(1, tokens))),), "root")[0]
    assert row["tokens"] == tokens
    assert row["words"].endswith("…") is more


@pytest.mark.usefixtures("in_english")
def test_figures_are_those_of_the_latency_summary() -> None:
    row = branches.rows((ROOT,), "root")[0]
    assert row["tokens"] == TOKENS
    assert row["ttft_s"] == pytest.approx(ROOT.prefill.ttft_s if ROOT.prefill else -1)
    assert row["tpot_s"] == pytest.approx((ROOT.steps[-1].at_s - PREFILL.at_s) / (TOKENS - 1))
    assert row["kv_bytes"] == ROOT.steps[-1].kv_bytes
    alone = branches.rows((replace(ROOT, steps=()),), "root")[0]
    assert alone["tpot_s"] is None, "one token has no time per token"
    assert alone["kv_bytes"] == PREFILL.kv_bytes


@pytest.mark.usefixtures("in_english")
def test_a_branch_counts_its_own_tokens_from_the_fork_on() -> None:
    """By hand: the fork's own step took 0.4 s, then the reader thought for 10 s; the two steps after it took 0.2 s and 0.4 s."""
    times = {1: (0.5, 0.0), 2: (0.9, 0.0), 3: (11.1, 10.0), 4: (11.5, 0.0)}
    steps = tuple(replace(one, at_s=times[one.index][0], paused_s=times[one.index][1]) for one in run("?", 5, ROOT, 2).steps)
    branch = replace(run("branch", 5, ROOT, 2), steps=steps)
    row = branches.rows((ROOT, branch), "branch")[1]
    assert row["tpot_s"] == pytest.approx((0.2 + 0.4) / 2)
    assert (row["index"], row["tokens"]) == (2, 5), "the browser writes 3 of its own, 5 in all"
    whole = branches.rows((replace(branch, origin=None),), "branch")[0]
    assert whole["tpot_s"] == pytest.approx((0.4 + 0.4 + 0.2 + 0.4) / 4), "the prompt was read at 0.1 s"
    assert branches.rows((ROOT, replace(branch, steps=steps[:2])), "branch")[1]["tpot_s"] is None, "nothing after the fork yet"
    at_once = replace(branch, origin=replace(branch.origin, index=0)) if branch.origin else branch
    assert branches.rows((ROOT, at_once), "branch")[1]["tpot_s"] == whole["tpot_s"], "a branch from the first token on"


@pytest.mark.usefixtures("in_english")
def test_an_answer_that_is_written_elsewhere_says_how_old_the_look_is() -> None:
    moving = replace(LATE, status=RunStatus.RUNNING, stop_reason=None)
    assert branches.rows((ROOT, moving), "root")[1]["stands"] == i18n.text("en", "branches.running_elsewhere")
    assert branches.rows((ROOT, moving), "late")[1]["stands"] == i18n.text("en", "branches.running")


@pytest.mark.usefixtures("in_english")
def test_a_branch_whose_parent_has_left_the_store_stands_at_the_edge() -> None:
    rows = branches.rows((DEEP, LATE), None)
    assert [row["parent"] for row in rows] == [None, None]
    assert [row["index"] for row in rows] == [3, 4]


STANDS = [
    *((replace(ROOT, status=status, stop_reason=None), str(status)) for status in RunStatus if status != RunStatus.ENDED),
    *((replace(ROOT, stop_reason=reason), f"end_{reason}") for reason in StopReason),
    (replace(ROOT, stop_reason=StopReason.STOPPED, error=Unwatched().info), "unwatched"),
]


@pytest.mark.parametrize(("view", "key"), STANDS, ids=[key for _, key in STANDS])
def test_every_standing_has_words(view: RunView, key: str) -> None:
    assert branches.stand(view) == key
    assert all(i18n.text(language, f"branches.{key}") for language in i18n.LANGUAGES)


def test_what_is_written_already_is_found_and_a_cut_run_is_not() -> None:
    assert branches.written_already(FAMILY, EARLY, 1, ROOT.generated[1].id) is ROOT
    assert branches.written_already(FAMILY, ROOT, 4, 90) is LATE
    assert branches.written_already(FAMILY, ROOT, 3, 90) is None, "there is a run with this token, but not after these"
    cut = tuple(replace(one, stop_reason=StopReason.STOPPED) for one in FAMILY)
    assert branches.written_already(cut, ROOT, 4, 90) is None
    warmer = tuple(replace(one, settings=RunSettings(temperature=1.0)) for one in FAMILY)
    assert branches.written_already(warmer, ROOT, 4, 90) is None


def test_forks_are_those_that_left_this_run() -> None:
    again = replace(run("again", left=ROOT, index=4, own=92))
    assert timeline.forks((*FAMILY, again), "root") == [1, 4]
    assert timeline.forks(FAMILY, "early") == [3]
    assert timeline.forks(FAMILY, "late") == []


@pytest.mark.usefixtures("engine_process")
@pytest.mark.parametrize("language", i18n.LANGUAGES)
def test_one_answer_invites_and_two_make_a_tree(language: str) -> None:
    app = open_app(language)
    first = ask(app, max_new_tokens=TOKENS)
    go_to(app, "decode")
    assert i18n.text(language, "branches.invite") in words_of(app)
    assert sent(app, "branches") is None
    assert (sent(app, "candidates") or {})["choosable"] is True
    branch = made_branch(app, first)
    app.run()
    assert not app.exception
    tree = sent(app, "branches")
    assert tree is not None
    assert [row["run_id"] for row in tree["branches"]] == [first.run_id, branch.run_id]
    assert tree["branches"][1]["tokens"] == len(branch.generated)
    assert app.query_params["run"] == branch.run_id


@pytest.mark.usefixtures("engine_process")
def test_a_follower_sees_the_tree_and_no_buttons() -> None:
    owner = open_app()
    first = ask(owner, max_new_tokens=TOKENS)
    branch = made_branch(owner, first)
    follower = go_to(open_app(run=branch.run_id), "decode")
    assert not follower.exception
    assert (sent(follower, "candidates") or {})["choosable"] is False
    assert len((sent(follower, "branches") or {})["branches"]) == 2


def made_branch(app: AppTest, left: RunView, index: int = 2) -> RunView:
    """A branch of the session's run, made by the app's client; it becomes the session's run, and has ended."""
    other = next(one.id for one in left.steps[index - 1].candidates if one.id != left.generated[index].id)
    key = app.session_state["run_key"]
    ticket = resources.engine().branch(left.run_id, key, index, other, session="test")
    app.session_state["run_id"] = ticket.run_id
    wait_for(lambda: view_of(app).status == RunStatus.ENDED)
    assert view_of(app).generated[index].id == other
    return view_of(app)


class Session:
    """What callbacks see of a session: a run, its key, and what a component has said."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, view: RunView, said: str, **what: Any) -> None:
        self.done: list[Any] = []
        monkeypatch.setattr(state, "current_view", lambda: view)
        monkeypatch.setattr(state, "may_steer", lambda: True)
        monkeypatch.setattr(state, "get", lambda key: type("Said", (), {said: what})())
        monkeypatch.setattr(state, "set_cursor", lambda index: self.done.append(("cursor", index)))
        monkeypatch.setattr(state, "steer", lambda action, pace_s=None: self.done.append((action,)))
        monkeypatch.setattr(branching, "family", lambda view: FAMILY)
        monkeypatch.setattr(branching, "branch", lambda index, id_: self.done.append(("branch", index, id_)))
        monkeypatch.setattr(branching, "switch", lambda run_id: self.done.append(("switch", run_id)))


@pytest.mark.parametrize(
    ("what", "done"),
    [
        ({"run": "root", "cursor": 3}, [("cursor", 3)]),
        ({"run": "root", "cursor": None}, [("cursor", None)]),
        ({"run": "root", "cursor": 99}, [("cursor", None)]),
        ({"run": "root", "cursor": "3"}, [("cursor", None)]),
        ({"run": "early", "cursor": 3}, []),
    ],
)
def test_the_slider_sets_the_cursor_and_steers_nothing(monkeypatch: pytest.MonkeyPatch, what: dict[str, Any], done: list[Any]) -> None:
    session = Session(monkeypatch, ROOT, "looked", **what)
    timeline._looked()
    assert session.done == done


@pytest.mark.parametrize(
    ("what", "done"),
    [
        ({"run": "root", "index": 2, "id": 77}, [("branch", 2, 77)]),
        ({"run": "root", "index": 4, "id": 90}, [("switch", "late")]),
        ({"run": "early", "index": 2, "id": 77}, []),
        ({"run": "root", "index": "2", "id": None}, []),
    ],
)
def test_a_choice_makes_a_branch_once(monkeypatch: pytest.MonkeyPatch, what: dict[str, Any], done: list[Any]) -> None:
    session = Session(monkeypatch, ROOT, "chosen", **what)
    branches._write_instead()
    assert session.done == done


def test_whoever_switches_lets_the_run_that_is_left_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    moving = replace(ROOT, status=RunStatus.RUNNING, stop_reason=None)
    session = Session(monkeypatch, moving, "chosen", run="late")
    branches._switch()
    assert session.done == [("pause",), ("switch", "late")]
    session = Session(monkeypatch, moving, "chosen", run="late")
    monkeypatch.setattr(state, "may_steer", lambda: False)
    branches._switch()
    assert session.done == [("switch", "late")], "who only watches pauses nothing"
    session = Session(monkeypatch, moving, "chosen", run="somebody else's")
    branches._switch()
    assert session.done == []
