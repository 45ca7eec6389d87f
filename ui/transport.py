"""The transport bar: back, step back, play or pause, step, stop, speed, share; the run's progress beside it.

Knows what a click means for the run and the cursor; does not know how steps are computed or drawn.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any
from urllib.parse import quote, urlencode, urlsplit, urlunsplit

import streamlit as st

from engine.serve.protocol import Snapshot
from engine.trace import RunStatus, RunView
from ui import asking, channel, choice, panels, resources, sharing, state, theme
from ui.components.progress import progress
from ui.components.pulse import pulse
from ui.navigation import PageSpec
from ui.state import t

FALLBACK_POLL_S = 1.0
FALLBACK_HOLD_S = 3.0  # at rest: only to say that somebody is still looking, well within a lease (engine.settings.LEASE_S)
LINK_LONG, LINK_PX = 600, 160  # characters of a link from which on it is shown through a window, and how high that is
AT_REST = {RunStatus.PAUSED, RunStatus.ENDED}


def bar(page: PageSpec) -> None:
    """Draw the bar of `page`, pinned to the bottom. Every script run counts as a look at the run: the live channel may not be open yet."""
    view = state.current_view()
    if view is not None:
        resources.engine().touch(view.run_id)
    mine = state.may_steer()
    with st.bottom, st.container(key="transport", gap="xsmall"):
        with st.container(horizontal=True, vertical_alignment="center", gap="small", key="transport_row"):
            _buttons(view, mine)
            with st.container(key="transport_progress", width="stretch"):
                _progress(view, _known(view, page.awaits))
            _speed(mine)
            _share(view, page.path)
        if view is not None and not mine:
            st.caption(f":material/visibility: {t('shell.follower')}")


def _buttons(view: RunView | None, mine: bool) -> None:
    """Clicks are callbacks: what they change is there before the page is drawn."""
    n = len(view.generated) if view else 0
    running = view is not None and view.status in {RunStatus.RUNNING, RunStatus.QUEUED}
    ended = view is None or view.status == RunStatus.ENDED
    cursor = state.cursor()
    at = n - 1 if cursor is None else cursor
    first = at <= 0 and not (running and cursor is None)  # while it runs, more has been written than is known here
    _button("begin", "skip_previous", to_begin, off=not mine or first)
    _button("back", "chevron_left", step_back, off=not mine or first, shortcut="Left")
    recording = view is not None and view.recording
    word = t("shell.pause") if running else t("shell.resume") if not ended else t("shell.replay" if recording else "shell.play")
    st.button(
        word,
        key="play",
        type="primary",
        icon=":material/pause:" if running else ":material/play_arrow:",
        on_click=play_or_pause,
        disabled=not mine,
        help=t("shell.replay_help" if recording else "shell.play_help"),
        shortcut="Space",
    )
    _button("step", "chevron_right", step_on, off=not mine or (view is not None and ended and at >= n - 1), shortcut="Right")
    _button("stop", "stop", stop, off=not mine or ended)


def _button(name: str, icon: str, action: Any, *, off: bool, shortcut: str | None = None) -> None:
    st.button(
        t(f"shell.{name}"),
        key=name,
        icon=f":material/{icon}:",
        on_click=action,
        disabled=off,
        help=t(f"shell.{name}_help"),
        shortcut=shortcut,
    )


def play_or_pause() -> None:
    """Pause a moving run, resume a waiting one; without one, or after its end, begin the current question anew. A recording is played in
    the browser (components/progress), which asks nothing here; where that cannot be, it is looked at from its beginning."""
    view = state.current_view()
    state.set_cursor(None)
    if view is not None and view.recording:
        to_begin()
    elif view is None or view.status == RunStatus.ENDED:
        asking.start_run(question())
    else:
        state.steer("play" if view.status == RunStatus.PAUSED else "pause", state.pace_s())


def question() -> str:
    """The question that Play asks: the last one, else the first example."""
    return state.get(state.QUESTION) or t("home.example_1")


def step_on() -> None:
    """One computed step forward; at the end of them, one new step from the engine."""
    view, cursor = state.current_view(), state.cursor()
    if view is None:
        asking.start_run(question(), play=False)
        state.steer("step")
    elif cursor is not None:
        state.set_cursor(cursor + 1 if cursor + 2 < len(view.generated) else None)
    elif view.status != RunStatus.ENDED:
        state.steer("step")


def step_back() -> None:
    """One step back over what was computed: the pictures move, the run waits."""
    _look_at(-1)


def to_begin() -> None:
    """Back to the first answer token."""
    _look_at(None)


def _look_at(move: int | None) -> None:
    view = state.current_view()
    if view is None or not view.generated:
        return
    if view.status == RunStatus.RUNNING:
        state.steer("pause")
    cursor = state.cursor()
    at = len(view.generated) - 1 if cursor is None else cursor
    state.set_cursor(0 if move is None else max(at + move, 0))


def stop() -> None:
    """End the run; what it has written stays."""
    state.set_cursor(None)
    state.steer("stop")


def _speed(mine: bool) -> None:
    look = {"disabled": not mine, "label_visibility": "collapsed", "width": 132}
    choice.select(state.SPEED, t("shell.speed"), list(state.SPEEDS), state.names("shell.speed_"), change_speed, **look)


def change_speed() -> None:
    """The new pace reaches a run that has not ended; it neither starts nor stops it."""
    view = state.current_view()
    if view is not None and view.status != RunStatus.ENDED:
        state.steer("pause" if view.status == RunStatus.PAUSED else "play", state.pace_s())


def _share(view: RunView | None, page: str) -> None:
    """Two links: to the run itself, and to the same exam, which another computer can hold too."""
    with st.popover(t("shell.share"), icon=":material/share:", key="share"):
        parcel = sharing.link_of(state.shared(), any_model=resources.settings().any_model)
        if view is not None:
            _link("watch", share_link(page, state.url_params(with_key=False) | parcel.query))
        _link("again", share_link(page, {"lang": state.language()} | parcel.query))
        for name in parcel.left_out:
            st.caption(f":material/content_cut: {t(f'shell.share_without_{name}')}")


def _link(name: str, link: str) -> None:
    st.markdown(f"**{t(f'shell.share_{name}')}**")
    st.caption(t(f"shell.share_{name}_help"))
    with st.container(height=LINK_PX if len(link) > LINK_LONG else "content", border=False):
        st.code(link, language=None, wrap_lines=True)


def share_link(page: str, query: Mapping[str, str]) -> str:
    """The address of `page` (its url_path) with `query`. None has a key in it: whoever opens it cannot steer this session's run.

    Only the origin is the browser's word: the path that Streamlit tells is wrong where the page left last ends the new one's name
    (from /tokenize to /detokenize it says /de/detokenize).
    """
    parts = urlsplit(st.context.url or "")
    path = f"{channel.base_path()}/{page}"
    return urlunsplit((parts.scheme, parts.netloc, path, urlencode(query, safe="", quote_via=quote), ""))


def _progress(view: RunView | None, drawn: dict[str, object]) -> None:
    """The live part of the bar. Where the live channel cannot be opened, a slow fragment feeds it from here."""
    if view is None or not state.channel_down():
        tape: dict[str, Any] = {"recording": view is not None and view.recording, "pace_s": state.pace_s(), "on_looked": _replayed}
        result = progress(**panels.live(view), known=drawn, fallback=None, labels=state.labels("progress"), key="progress", **tape)
        state.set_channel(result.channel)
        if view is not None and state.channel_down():
            st.rerun()  # one bar, not two
    elif view.status in AT_REST:
        _fed(view, drawn)
        st.fragment(_held)(drawn)
    else:
        st.fragment(_polled)(drawn)


def _replayed() -> None:
    """The replay of a recording came to rest: what Python draws follows. A word about another run is too late."""
    view, looked = state.current_view(), state.get("progress").looked
    if view is not None and isinstance(looked, dict) and looked.get("run") == view.run_id:
        cursor = state.whole(looked.get("cursor"))
        state.set_cursor(cursor if cursor is not None and 0 <= cursor < len(view.generated) else None)


def _polled(drawn: dict[str, object]) -> None:
    """While the run moves: its snapshot, again and again."""
    with st.container(gap=None):
        view = _hold(drawn)
        if view is not None:
            _fed(view, drawn)
        pulse(key="progress_pulse", every_s=FALLBACK_POLL_S)


def _held(drawn: dict[str, object]) -> None:
    """At rest: a look now and then."""
    _hold(drawn)
    pulse(key="progress_pulse", every_s=FALLBACK_HOLD_S)


def _hold(drawn: dict[str, object]) -> RunView | None:
    """Somebody is looking, without a channel. What has moved past the picture asks for a new one."""
    view = state.current_view()
    if view is not None:
        resources.engine().touch(view.run_id)
    if _known(view, drawn) != drawn:
        st.rerun()
    return view


def _fed(view: RunView, drawn: dict[str, object]) -> None:
    """The progress, and with it the snapshot that all components of the page draw from."""
    result = progress(**panels.live(view), known=drawn, fallback=Snapshot.of(view), labels=state.labels("progress"), key="progress_polled")
    if result.channel == "open":
        state.set_channel(result.channel)
        st.rerun()


def _known(view: RunView | None, awaits: Collection[str]) -> dict[str, object]:
    """What this picture already shows; when the run moves past it, the component asks for one more. `awaits`: what is told of what a
    moving run has ready, "tokens" and "prefill"."""
    rests = view is not None and view.status in AT_REST
    ready = {"tokens": view is not None and bool(view.tokens), "prefill": view is not None and view.prefill is not None}
    stands: dict[str, object] = {
        "status": None if view is None else str(view.status),
        "generated": len(view.generated) if view is not None and rests else None,
        "dark": state.palette() is theme.DARK,
    }
    return stands | {name: there for name, there in ready.items() if name in awaits}
