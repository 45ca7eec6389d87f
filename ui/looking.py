"""Looks into a run's live memory, each kept in the session until another one of its kind is asked for.

Knows which look is asked for; does not know how it is answered (engine.serve.client) or drawn. All raise EngineError.
"""

from __future__ import annotations

import numpy as np

from engine.findings import LensRow, TextCut
from engine.trace import RunView, Token
from ui import resources, state


def tokens_read(view: RunView) -> tuple[Token, ...]:
    """The tokens that have gone through the model: the prompt, and all of the answer but its newest token."""
    return (*view.tokens, *view.generated[: len(view.steps)])


def attention(view: RunView, layer: int | None, head: int | None, rows: int, until: int) -> np.ndarray:
    """float32 [rows, until]: how the last `rows` of the first `until` tokens read. `layer`, `head` None: the mean over all."""
    wanted = (view.run_id, layer, head, rows, until)
    return state.remembered("map", wanted, lambda: resources.engine().attention(view.run_id, layer, head, rows=rows, until=until))


def row(view: RunView, layer: int | None, head: int | None, query: int) -> np.ndarray:
    """float32 [query + 1]: what the token at `query` reads."""
    wanted = (view.run_id, layer, head, query)
    return state.remembered("row", wanted, lambda: resources.engine().attention(view.run_id, layer, head, rows=1, until=query + 1)[0])


def links(view: RunView, query: int, key: int, name: str = "links") -> np.ndarray:
    """float32 [layers, heads]: how strongly the token at `query` reads the one at `key`. `name`: the place that keeps it."""
    return state.remembered(name, (view.run_id, query, key), lambda: resources.engine().links(view.run_id, query, key))


def lens(view: RunView) -> tuple[LensRow, ...]:
    """The first token as each layer would guess it."""
    return state.remembered("lens", view.run_id, lambda: resources.engine().lens(view.run_id))


def cut(view: RunView, text: str, name: str = "cut") -> TextCut:
    """`text` cut by the run's tokenizer. `name`: the place that keeps it."""
    return state.remembered(name, (view.run_id, text), lambda: resources.engine().cut(view.run_id, text))
