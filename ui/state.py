"""What one browser session remembers, and what of it stands in the URL. The only file that names session keys.

Knows the current run, the cursor, the language and the settings' widget keys; does not know how a run is made or drawn.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar, cast

import streamlit as st

from engine.errors import EngineError, ErrorInfo, RunUnknown
from engine.serve.protocol import SteerAction
from engine.sweep import KINDS
from engine.trace import RunView
from ui import i18n, resources, sharing, theme
from ui.sharing import Shared

# Widget keys, shared by the widgets in inputs, transport and the pages.
LANGUAGE, QUESTION, MODEL, DEVICE, SPEED = "language", "question", "model", "device", "speed"
MAX_NEW, TEMPERATURE, TOP_K, TOP_P, SEED = "max_new_tokens", "temperature", "top_k", "top_p", "seed"
TEMPLATE, SYSTEM_ON, SYSTEM_TEXT = "use_chat_template", "system_on", "system_text"
LAYER, HEAD, SHOW_SPECIAL = "layer", "head", "show_special"
FILES_READ, WHOLE = "files_read", "whole_question"  # files put on the desk; whether a long question stands in its field in full
LAYER_MEAN, SINK, ANSWER_ROWS, MAP_END = "layer_mean", "sink", "answer_rows", "map_end"  # of the attention map
GUESS = "guess_"  # begins the key of every guess about the current run
QUERY_AT, KEY_AT = "query_at", "key_at"  # positions of the token that reads and of the one that is read
CUT_TEXT, CUT_WORD, PAIR_EN, PAIR_ZH = "cut_text", "cut_word", "pair_en", "pair_zh"  # what the Tokenize page cuts
PRESET_RUN, LINK_ASKED, PAIR_RUNS, PAIR_GUESS = "preset_run", "link_asked", "pair_runs", "pair_guess"
MAP_PICKS, STRIP_PICKS, MAP_END_BOX, HEAD_NUMBER = "attention_map", "attention_strip", "map_end_box", "head_number"
LINK_QUERY, LINK_KEY = "link_query_box", "link_key_box"
NOTES_PICKS, CELL_LAYER, CELL_POSITION = "decode_notes", "cell_layer", "cell_position"  # the cell of the notes that is opened; None: none
CANDIDATE_PICKS, BRANCH_PICKS, TIMELINE_PICKS, ROOFS_WANTED = "decode_candidates", "decode_branches", "decode_timeline", "roofs_wanted"
LOOK_ASKED = "look_asked"  # run and generated token whose look may cost another reading
WHAT_IF, WHAT_TEMPERATURE, WHAT_TOP_K, WHAT_TOP_P = "what_if", "what_temperature", "what_top_k", "what_top_p"
END_LENGTH, END_ROOM, END_PAPER, END_BELL_S, END_CUT = "end_length", "end_room", "end_paper", "end_bell_s", "end_cut"
FEEL_TTFT, FEEL_TPOT, SWEEP_KIND, SWEEP_UNTIL, PICKED_RECORDS = "feel_ttft", "feel_tpot", "sweep_kind", "sweep_until", "picked_records"
CHOSEN_RECORD, RECORD_FILES = "chosen_record", "record_files"  # the one that is handed out; files that were taken in

# Names of what is `remembered`.
CUT_SEEN, WORD_SEEN, COUNT_SEEN = "cutting", "cutting_word", "counting"
MAP_SEEN, ROW_SEEN, LENS_SEEN, PAIR_FOUND = "map", "row", "lens", "pair"
LINKS_SEEN, FIRST_SEEN, STRONGEST_PAIR, STRONGEST_KEY = "links", "links_first", "link_pair", "link_key"
CELL_SEEN, STAGES_SEEN, DECODED_SEEN, GLANCE_SEEN, HELD_SEEN, ROOFS_SEEN = "cell", "stages", "decoded", "glance", "held", "roofs"

_SESSION, _RUN, _KEY, _CURSOR = "session_id", "run_id", "run_key", "cursor"
_NOTICE, _CHANNEL, _FOUND, _TERMS, SWEEPS, _SHELF = "notice", "channel", "found_", "terms", "sweeps", "shelf"
_RUN_ID = re.compile(r"[A-Za-z0-9_-]{16,64}")
MAX_NEW_LIMIT, TOP_K_LIMIT, SEED_LIMIT = sharing.MAX_NEW_LIMIT, sharing.TOP_K_LIMIT, sharing.SEED_LIMIT
TEMPERATURE_LIMIT, QUESTION_LIMIT = sharing.TEMPERATURE_LIMIT, 1_000_000
T = TypeVar("T")
SPEEDS: Mapping[str, float] = {"slow": 0.667, "half": 0.1, "real": 0.0}


def begin() -> None:
    """First thing of every script run: defaults of a new session, and the run its URL names."""
    if _SESSION not in st.session_state:
        st.session_state[_SESSION] = secrets.token_urlsafe(12)
        _set_defaults()
        _find_run(st.query_params.get("run"), st.query_params.get("key"))
    elif run_id() is not None and current_view() is None:  # its record has left the store
        notify(RunUnknown(run=str(run_id())).info)
        st.session_state.update({_RUN: None, _KEY: None, _CURSOR: None})


def _set_defaults() -> None:
    """What the link of a new session asks for, and the defaults for all that it does not say."""
    asked = st.query_params.get("lang")
    st.session_state[LANGUAGE] = asked if asked in i18n.LANGUAGES else i18n.language_of(st.context.locale)
    linked = sharing.parse(st.query_params.to_dict(), any_model=resources.settings().any_model)
    _put_settings(linked)
    st.session_state[SWEEPS] = {kind: found for kind in KINDS if _RUN_ID.fullmatch(found := st.query_params.get(kind) or "")}
    st.session_state.update({SPEED: "real", SHOW_SPECIAL: False, LAYER: linked.layer, HEAD: linked.head, LAYER_MEAN: linked.layer_mean})
    st.session_state.update({SINK: "show", ANSWER_ROWS: False, MAP_END: None, QUERY_AT: None, KEY_AT: None})


def _put_settings(asked: Shared) -> None:
    """The sidebar and the question field show what is asked."""
    own, system = resources.settings(), asked.system_prompt
    st.session_state.update({MODEL: asked.model or own.model, DEVICE: asked.device or own.device})
    st.session_state.update({QUESTION: asked.question[:QUESTION_LIMIT], MAX_NEW: asked.max_new_tokens, TEMPERATURE: asked.temperature})
    st.session_state.update({TOP_K: asked.top_k, TOP_P: asked.top_p, SEED: asked.seed, TEMPLATE: asked.use_chat_template})
    st.session_state.update({SYSTEM_ON: system != "", SYSTEM_TEXT: system or ""})


def shared() -> Shared:
    """What a link of this session carries: what its run was asked, or what stands in the sidebar before there is one, and where one looks.
    A device that is this installation's own is no wish of the reader's."""
    view = current_view()
    asked = _of_sidebar() if view is None else sharing.of_run(view)
    device = None if asked.device == resources.settings().device else asked.device
    return replace(asked, device=device, layer=get(LAYER), head=get(HEAD), layer_mean=bool(get(LAYER_MEAN)))


def _of_sidebar() -> Shared:
    return Shared(
        question=str(get(QUESTION) or ""), model=get(MODEL), device=get(DEVICE), max_new_tokens=get(MAX_NEW), temperature=get(TEMPERATURE),
        top_k=get(TOP_K), top_p=get(TOP_P), seed=get(SEED), use_chat_template=bool(get(TEMPLATE)),
        system_prompt=(get(SYSTEM_TEXT) or None) if get(SYSTEM_ON) else "",
    )  # fmt: skip


def _find_run(run: str | None, key: str | None) -> None:
    """Follow the run of the URL, if there is one; anything that is not a run id is ignored."""
    if not run or not _RUN_ID.fullmatch(run):
        return
    view = resources.engine().view(run)
    if view is None:
        notify(RunUnknown(run=run).info)
        return
    st.session_state[_RUN] = run
    if key and _RUN_ID.fullmatch(key) and resources.engine().can_steer(run, key):
        st.session_state[_KEY] = key
    _take_settings(view)


def _take_settings(view: RunView) -> None:
    """The sidebar shows what the found run was asked to do."""
    st.session_state[SPEED] = min(SPEEDS, key=lambda name: abs(SPEEDS[name] - view.pace_s))
    asked = sharing.of_run(view)
    _put_settings(replace(asked, model=None, device=None) if view.recording else asked)  # its model may be on no list here


def url_params(with_key: bool = True) -> dict[str, str]:
    """What belongs into a link: the run; for this session's own pages also its language, its sweeps and its steering key.

    Without the key it is a link for others, whose browsers choose the language.
    """
    run, key = st.session_state.get(_RUN), st.session_state.get(_KEY)
    own = {"lang": language(), **(get(SWEEPS) or {})} if with_key else {}
    return own | ({"run": run} if run else {}) | ({"key": key} if run and key and with_key else {})


def write_url() -> None:
    """Put the run back into the URL: a page switch clears the query."""
    if st.query_params.to_dict() != url_params():
        st.query_params.from_dict(url_params())


def language() -> str:
    chosen = st.session_state.get(LANGUAGE)
    return chosen if chosen in i18n.LANGUAGES else i18n.LANGUAGES[0]


def t(key: str, /, **params: object) -> str:
    """The text of `page.key` in this session's language. Raises i18n.MissingText."""
    return i18n.text(language(), key, **params)


def names(prefix: str) -> Callable[[str], str]:
    """Option → its words, bound to the language of this script run: what `format_func` needs (it is also called between runs)."""
    return partial(_name, language(), prefix)


def _name(spoken: str, prefix: str, option: str) -> str:
    return i18n.text(spoken, prefix + option)


def labels(component: str) -> dict[str, str]:
    """The words of one component in this session's language; the answer sheet also says how a run ended."""
    words = i18n.labels(language(), component)
    if component == "answer":
        words |= {f"answer_end_{name}": t(f"stops.{name}") for name in i18n.table("stops")}
        words["answer_end_unwatched"] = t("errors.unwatched")
    return words


def palette() -> theme.Palette:
    return theme.palette(st.context.theme.type)


def session_id() -> str:
    return str(st.session_state[_SESSION])


def run_id() -> str | None:
    return st.session_state.get(_RUN)


def current_view() -> RunView | None:
    """A frozen snapshot of this session's run; None before the first run, or once its record has left the store."""
    run = run_id()
    return resources.engine().view(run) if run else None


def may_steer() -> bool:
    """Whether the bar is this session's: of its own run, or without any (a record that has left the store counts as none)."""
    view = current_view()
    return view is None or resources.engine().can_steer(view.run_id, st.session_state.get(_KEY))


def steer(action: SteerAction, pace_s: float | None = None) -> None:
    """Steer this session's run; a refusal becomes the notice of the next picture."""
    run = run_id()
    if run is not None:
        try:
            resources.engine().steer(run, st.session_state.get(_KEY) or "", action, pace_s)
        except EngineError as error:
            notify(error.info)


def pace_s() -> float:
    return SPEEDS.get(st.session_state.get(SPEED, "real"), 0.0)


def cursor() -> int | None:
    """The generated token after which the pictures stand still; None: they follow the run."""
    return st.session_state.get(_CURSOR)


def set_cursor(index: int | None) -> None:
    st.session_state[_CURSOR] = index


def whole(value: object) -> int | None:
    """A whole number as a browser reported it; None for anything else: its messages may hold whatever somebody has put there."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def get(key: str) -> Any:
    """The value of a widget, for callbacks."""
    return st.session_state.get(key)


def put(key: str, value: Any) -> None:
    """Set a widget's value: only before it is drawn, or in a callback."""
    st.session_state[key] = value


def choose_head(number: int | None) -> None:
    st.session_state[HEAD] = number


def notify(info: ErrorInfo) -> None:
    st.session_state[_NOTICE] = info


def take_notice() -> ErrorInfo | None:
    """What went wrong since the last picture; told once."""
    return st.session_state.pop(_NOTICE, None)


def open_terms() -> None:
    """The reader asked for the terms of the chosen model."""
    st.session_state[_TERMS] = True


def take_terms() -> bool:
    return bool(st.session_state.pop(_TERMS, False))


def channel_down() -> bool:
    """Whether this browser cannot open the live channel of the current run."""
    return st.session_state.get(_CHANNEL) in {(run_id(), "down"), (run_id(), "refused")}


def set_channel(condition: str | None) -> None:
    if condition is not None:
        st.session_state[_CHANNEL] = (run_id(), condition)


def remembered(name: str, key: Hashable, find: Callable[[], T]) -> T:
    """What `find` gives, kept under `name` until it is asked for with another `key`. What `find` raises is not kept."""
    kept = st.session_state.get(_FOUND + name)
    if kept is None or kept[0] != key:
        kept = (key, find())
        st.session_state[_FOUND + name] = kept
    return kept[1]


def adopt(run: str, key: str, question: str) -> None:
    """A new run becomes this session's current one; what was guessed about the last one is no guess about this one."""
    st.session_state.update({guess: None for guess in st.session_state if str(guess).startswith(GUESS)})
    shelf()["open"][run] = key
    st.session_state.update({_RUN: run, _KEY: key, _CURSOR: None, QUESTION: question})
    st.session_state.update({QUERY_AT: None, KEY_AT: None, MAP_END: None, CELL_LAYER: None, CELL_POSITION: None})


def switch(run: str, key: str | None) -> None:
    """Another branch of this session's run becomes the current one: what was asked and guessed stays."""
    shelf()["open"][run] = key
    st.session_state.update({_RUN: run, _KEY: key, _CURSOR: None})
    st.session_state.update({QUERY_AT: None, KEY_AT: None, MAP_END: None, CELL_LAYER: None, CELL_POSITION: None})


def run_key() -> str | None:
    """The key with which this session steers its run and all its branches; None: it only watches."""
    return st.session_state.get(_KEY)


def shelf() -> dict[str, Any]:
    """What ui.shelf keeps: "open", the runs of this session that have not been filed yet (id → key), and whatever it adds."""
    return cast(dict[str, Any], st.session_state.setdefault(_SHELF, {"open": {}}))
