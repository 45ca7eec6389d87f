"""The branches of the run: what else could have been written at a step, and all that has been, as a small tree.

Knows a run's family and the words; does not know how a branch is made nor which page it stands on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import streamlit as st

from engine.generate import detokenize
from engine.stem import branch_settings
from engine.trace import RunStatus, RunView, StopReason
from ui import branching, ends, looking, numbers, panels, state
from ui.components.branches import tree
from ui.components.candidates import candidates
from ui.components.pulse import pulse
from ui.state import t

WORDS = 16  # tokens after the fork that are shown, as in the browser
LOOK_AGAIN_S = 2.0  # at an answer that is being written while another one is on the page
MOVING = {RunStatus.RUNNING, RunStatus.QUEUED}


def candidates_card(view: RunView) -> None:
    """What could have come next; another candidate can be chosen."""
    mine = state.may_steer() and state.run_key() is not None and not view.recording
    with panels.card("next", stretch=True):
        panels.card_title(t("decode.next"), looking.vouched(view), t("decode.next_note"))
        candidates(
            **panels.live(view), choosable=mine, on_chosen=_write_instead, labels=state.labels("candidates"), key=state.CANDIDATE_PICKS
        )  # fmt: skip


def show(view: RunView) -> None:
    """Draw the tree, or an invitation to let it grow."""
    family = branching.family(view)
    with panels.card("branches"):
        alone = len(family) < 2
        panels.card_title(t("branches.title"), None if alone else "measured", "" if alone else t("branches.note"), anchor="branches")
        if alone:
            st.markdown(t("branches.recorded" if view.recording else "branches.invite" if state.may_steer() else "branches.none"))
            return
        elsewhere = any(run.status in MOVING for run in family if run.run_id != view.run_id)
        (st.fragment(_tree) if elsewhere else _tree)(view.run_id)
        st.caption(t("branches.gloss"))


def _tree(run_id: str) -> None:
    """The family as it is now, run `run_id` on the page. While another one moves, it is looked at again and again: the channel tells only
    of the run on the page."""
    view = state.current_view()
    if view is None or view.run_id != run_id:  # another one was chosen in the tree: the whole page goes there
        st.rerun()
    family = branching.family(view)
    tree(
        **panels.live(view), branches=rows(family, run_id), labels=state.labels("branches"), key=state.BRANCH_PICKS, on_chosen=_switch
    )  # fmt: skip
    if any(run.status in MOVING for run in family if run.run_id != run_id):
        pulse(key="branches_pulse", every_s=LOOK_AGAIN_S)


def rows(family: Sequence[RunView], shown: str | None) -> list[dict[str, Any]]:
    """The family as the tree draws it: every run after the one it left, the later forks first; `parent` is a place in this list. `shown`:
    the run on the page, whose row the browser keeps up to date.

    A branch whose parent has left the store stands at the edge, like the first answer.
    """
    here = {run.run_id for run in family}
    number = {run.run_id: at for at, run in enumerate(family)}
    children: dict[str | None, list[RunView]] = {}
    for run in family:
        left = run.origin.run_id if run.origin is not None and run.origin.run_id in here else None
        children.setdefault(left, []).append(run)
    found: list[dict[str, Any]] = []

    def add(run: RunView, parent: int | None) -> None:
        place = len(found)
        found.append(_row(run, number[run.run_id], parent, shown))
        for child in sorted(children.get(run.run_id, []), key=_fork, reverse=True):
            add(child, place)

    for run in children.get(None, []):
        add(run, None)
    return found


def _fork(run: RunView) -> int:
    return run.origin.index if run.origin else 0


def _row(run: RunView, number: int, parent: int | None, shown: str | None) -> dict[str, Any]:
    summary, origin = numbers.latency(run), run.origin
    last = run.steps[-1] if run.steps else run.prefill
    written = run.generated
    own = written[origin.index :] if origin else written
    return {
        "run_id": run.run_id,
        "parent": parent,
        "name": t("branches.first") if origin is None else t("branches.branch", n=number),
        "index": origin.index if origin else None,
        "left": msgspec.to_builtins(origin.instead_of) if origin else None,
        "wrote": msgspec.to_builtins(own[0]) if origin and own else None,
        "reread_s": origin.reread_s if origin else None,
        "tokens": len(written),
        "ttft_s": summary.ttft_s if summary else None,
        "tpot_s": own_tpot_s(run),
        "kv_bytes": last.kv_bytes if last else 0,
        "status": str(run.status),
        "stands": t(f"branches.{stand(run, elsewhere=run.run_id != shown)}"),
        "words": detokenize.answer_text(own[:WORDS]) + ("…" if len(own) > WORDS else ""),
    }


def own_tpot_s(run: RunView) -> float | None:
    """Seconds per token that the run wrote itself: TPOT as in engine.measure.latency, counted from the token at the fork, which came from a
    step of the run that was left. None as long as nothing has been written after it."""
    fork = run.origin.index if run.origin else 0
    own = run.steps[fork:]
    if run.prefill is None or not own:
        return None
    begun_s = run.steps[fork - 1].at_s if fork else run.prefill.at_s
    return (own[-1].at_s - begun_s - sum(step.paused_s for step in own)) / len(own)


def stand(run: RunView, *, elsewhere: bool = False) -> str:
    """Where a run stands or how it ended, as the key of its words. `elsewhere`: it is not the one on the page."""
    if run.status == RunStatus.RUNNING and elsewhere:
        return "running_elsewhere"
    if run.status != RunStatus.ENDED:
        return str(run.status)
    if run.error is not None and run.error.code == "unwatched":
        return "unwatched"
    return f"end_{StopReason.ERROR if run.stop_reason is None else ends.sentence(run)}"


def _write_instead() -> None:
    """The reader chose another candidate. What has been written with it already is only looked at again."""
    view, chosen = state.current_view(), state.get(state.CANDIDATE_PICKS).chosen
    if view is None or not isinstance(chosen, dict) or chosen.get("run") != view.run_id:
        return  # about a picture that is gone
    index, token_id = state.whole(chosen.get("index")), state.whole(chosen.get("id"))
    if index is None or token_id is None:
        return
    known = written_already(branching.family(view), view, index, token_id)
    if known is None:
        branching.branch(index, token_id)
    else:
        _look_at(known)


def written_already(family: Sequence[RunView], view: RunView, index: int, token_id: int) -> RunView | None:
    """The run that writes just this: the same tokens up to `index`, and there `token_id`. None where there is none, or it was cut short."""
    asked = branch_settings(view.settings)
    ids = [*(token.id for token in view.generated[:index]), token_id]
    for run in family:
        cut = run.status == RunStatus.ENDED and run.stop_reason not in {StopReason.EOS, StopReason.LENGTH}
        if not cut and branch_settings(run.settings) == asked and [token.id for token in run.generated[: index + 1]] == ids:
            return run
    return None


def _switch() -> None:
    """Another branch was chosen in the tree. Only one of this family may be."""
    view, chosen = state.current_view(), state.get(state.BRANCH_PICKS).chosen
    if view is None or not isinstance(chosen, dict):
        return
    for run in branching.family(view):
        if run.run_id == chosen.get("run") and run.run_id != view.run_id:
            _look_at(run)


def _look_at(run: RunView) -> None:
    """One pen at a time: the run that is left waits, where this session holds the pen."""
    view = state.current_view()
    if view is not None and view.status in MOVING and state.may_steer():
        state.steer("pause")
    branching.switch(run.run_id)
