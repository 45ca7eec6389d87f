"""The answer sheet: the question, the answer as it grows, how it ended. Knows its labels; the picture is drawn in the browser."""

from __future__ import annotations

from collections.abc import Mapping

from ui.components.mount import SHARED_LABELS, live_data, register
from ui.ends import ACCIDENTS

LABELS = (
    *SHARED_LABELS,
    "answer_end_context_full",
    "answer_end_eos",
    "answer_end_eos_hand",
    "answer_end_error",
    "answer_end_length",
    "answer_end_out_of_memory",
    "answer_end_refused",
    "answer_end_stopped",
    "answer_end_timeout",
    "answer_end_unwatched",
    "answer_name",
    "answer_none",
    "answer_pending",
    "answer_question",
)

QUESTION_SHOWN = 2_000  # characters: the tokens, once known, bring the rest

_render = register("answer")


def answer(
    *,
    run_id: str | None,
    path: str,
    key: str,
    labels: Mapping[str, str],
    cursor: int | None = None,
    question: str | None = "",
    show_special: bool = False,
) -> None:
    """Mount it. `cursor` k shows the state after generated token k; None follows the run.

    `question`: what stands on the paper until the run's own tokens are known; None: the answer alone. `show_special`: special tokens
    stand in the answer by their names.
    """
    asked = None if question is None else question[:QUESTION_SHOWN]
    own = {"question": asked, "show_special": show_special, "accidents": list(ACCIDENTS)}
    _render(key=key, data=live_data(run_id, path, cursor, LABELS, labels, **own))
