"""Looks into a run's live memory, each kept in the session until another one of its kind is asked for, and which link they are about.

Knows which look is asked for; does not know how it is answered (engine.serve.client) or drawn. All looks raise EngineError.
"""

from __future__ import annotations

import numpy as np

from engine.findings import LensRow, Stages, TextCut
from engine.serve.asks import PATIENCE_S
from engine.trace import RunStatus, RunView, Token
from ui import resources, state
from ui import weights as map_rows
from ui.numbers import Evidence

READINGS_WAITED = 4  # for a look that reads the text once more, in readings of it: others may read meanwhile


def tokens_read(view: RunView) -> tuple[Token, ...]:
    """The tokens that have gone through the model: the prompt, and all of the answer but its newest token."""
    return (*view.tokens, *view.generated[: len(view.steps)])


def reads_again(view: RunView) -> bool:
    """Whether the queries were too many to be kept: every look at attention then costs another reading of the text."""
    newest = view.steps[-1] if view.steps else view.prefill
    able = view.model is not None and view.model.attention_reason is None and view.settings.capture_attention
    return able and newest is not None and newest.recorded_bytes == 0


def patience_s(view: RunView) -> float:
    """How long a look at attention is waited for."""
    if view.prefill is None or not reads_again(view):
        return PATIENCE_S
    return max(PATIENCE_S, READINGS_WAITED * view.prefill.prefill_s)


def pick(query: int, key: int | None) -> None:
    """Strip, map and list show this link from now on. Its row comes into the map: the window moves there, and a token of the answer
    brings the answer's rows, up to itself where the pictures stand still before it. For callbacks, or before anything is drawn."""
    state.put(state.QUERY_AT, query)
    state.put(state.KEY_AT, key)
    view = state.current_view()
    if view is None:
        return
    prompt, cursor = len(view.tokens), state.cursor()
    if query >= prompt:
        state.put(state.ANSWER_ROWS, True)
        read_at = query - prompt + 1  # the step in which the token at `query` is read
        if cursor is not None and cursor < read_at:
            state.set_cursor(read_at if read_at + 1 < len(view.generated) else None)
    count = len(tokens_read(view)) if state.get(state.ANSWER_ROWS) else prompt
    state.put(state.MAP_END, map_rows.end_showing(count, state.get(state.MAP_END), query, key))


def attention(view: RunView, layer: int | None, head: int | None, rows: int, until: int) -> np.ndarray:
    """float32 [rows, until]: how the last `rows` of the first `until` tokens read. `layer`, `head` None: the mean over all."""
    wanted = (view.run_id, layer, head, rows, until)
    asked = resources.engine().attention
    return state.remembered(state.MAP_SEEN, wanted, lambda: asked(view.run_id, layer, head, patience_s(view), rows=rows, until=until))


def row(view: RunView, layer: int | None, head: int | None, query: int) -> np.ndarray:
    """float32 [query + 1]: what the token at `query` reads."""
    wanted = (view.run_id, layer, head, query)
    asked = resources.engine().attention
    return state.remembered(state.ROW_SEEN, wanted, lambda: asked(view.run_id, layer, head, patience_s(view), rows=1, until=query + 1)[0])


def links(view: RunView, query: int, key: int, name: str = state.LINKS_SEEN) -> np.ndarray:
    """float32 [layers, heads]: how strongly the token at `query` reads the one at `key`. `name`: the place that keeps it."""
    return state.remembered(name, (view.run_id, query, key), lambda: resources.engine().links(view.run_id, query, key, patience_s(view)))


def moving(view: RunView) -> bool:
    """Whether the pen moves, or is about to: then nothing is asked of the engine for a picture that stands still."""
    return view.status in {RunStatus.QUEUED, RunStatus.RUNNING}


def vouched(view: RunView) -> Evidence | None:
    """The tag of pictures that the browser fills with a run's measurements: none for a run that stands still and has measured nothing.
    A run that moves is about to: a page drawn when it begins then stays as it is while the pen writes."""
    return "measured" if view.prefill is not None or moving(view) else None


def index_shown(view: RunView) -> int | None:
    """The generated token that the pictures of this script run stand at; None: none has been written yet."""
    count, cursor = len(view.generated), state.cursor()
    return None if count == 0 else count - 1 if cursor is None else min(cursor, count - 1)


def glance(view: RunView, index: int) -> np.ndarray:
    """float32 [tokens]: how the step that wrote generated token `index` read the notes, the mean over all layers and heads."""
    query = len(view.tokens) + index - 1  # the token whose reading gave this one
    asked = resources.engine().attention
    return state.remembered(
        state.GLANCE_SEEN, (view.run_id, query), lambda: asked(view.run_id, None, None, patience_s(view), rows=1, until=query + 1)[0]
    )


def cell(view: RunView, layer: int, position: int) -> np.ndarray:
    """float32 [2, kv_heads, head_dim]: key and value of one token in one layer."""
    return state.remembered(state.CELL_SEEN, (view.run_id, layer, position), lambda: resources.engine().cell(view.run_id, layer, position))


def stages(view: RunView, index: int, temperature: float | None, top_k: int | None, top_p: float | None) -> Stages:
    """How generated token `index` would be chosen with these settings (None: the run's own)."""
    wanted = (view.run_id, index, temperature, top_k, top_p)
    return state.remembered(state.STAGES_SEEN, wanted, lambda: resources.engine().stages(*wanted))


def decoded(view: RunView, skip_special: bool) -> str:
    """The whole answer so far as the model's tokenizer decodes it, while the model is in memory."""
    ids = tuple(token.id for token in view.generated)
    wanted = (view.model_id, view.device, ids, skip_special)
    return state.remembered(state.DECODED_SEEN, wanted, lambda: resources.engine().decoded(*wanted))


def lens(view: RunView) -> tuple[LensRow, ...]:
    """The first token as each layer would guess it."""
    return state.remembered(state.LENS_SEEN, view.run_id, lambda: resources.engine().lens(view.run_id))


def cut(view: RunView, text: str, name: str) -> TextCut:
    """`text` cut by the run's tokenizer, while its model is in memory. `name`: the place that keeps it."""
    wanted = (view.model_id, view.device, text)
    return state.remembered(name, wanted, lambda: resources.engine().cut(*wanted))
