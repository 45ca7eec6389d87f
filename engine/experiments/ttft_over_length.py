"""How does the first-token wait grow with the prompt? Each length is read from empty notes, as a run reads its question.

What is timed: cutting the text, the forward pass, the choice of the first token. There is no queue and no template here. Knows the
stepper; does not know who watches or whose turn it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from engine.experiments.paper import Paper, SweepTurn, fresh
from engine.model.brake import brake
from engine.model.device import memory_checked
from engine.model.loader import LoadedModel
from engine.sweep import Measuring, SweepSample

REPEATS = 3
ENOUGH_S = 4.0  # what took so long in all is not measured again
WARM_UP = 64  # tokens of the reading that is not counted


def ttft_over_length(model: LoadedModel, lengths: Sequence[int], halted: Callable[[], bool]) -> Iterator[SweepTurn]:
    """One measurement for each `next()`, after a first one that only warms up. `lengths` rise.

    Raises engine.model.brake.Halted soon after `halted` says so, also from inside a pass, whose notes are then gone; OutOfMemory.
    """
    paper = Paper(model, lengths[-1])
    first_token_s(model, paper, min(WARM_UP, lengths[-1]), halted)
    then: Measuring | None = Measuring(lengths[0], 1, REPEATS)
    yield SweepTurn(None, then)
    spent_s = 0.0
    while then is not None:
        sample = first_token_s(model, paper, then.length, halted)
        spent_s += sample.seconds
        then = following(then, lengths, spent_s)
        spent_s = spent_s if then is not None and then.number > 1 else 0.0
        yield SweepTurn(sample, then)


def first_token_s(model: LoadedModel, paper: Paper, length: int, halted: Callable[[], bool]) -> SweepSample:
    """The first-token wait for the first `length` tokens of the paper."""
    tokenize_s = paper.tokenize_s(length)
    with brake(model.model, halted), memory_checked():
        advance = fresh(model).read(paper.ids[:length], model.info.prefill_threads)
    return SweepSample(length, tokenize_s + advance.forward_s + advance.sample_s, advance.forward_s)


def following(now: Measuring, lengths: Sequence[int], spent_s: float) -> Measuring | None:
    """The same length once more, or the next one, or nothing."""
    if now.number < REPEATS and spent_s < ENOUGH_S:
        return Measuring(now.length, now.number + 1, REPEATS)
    longer = [length for length in lengths if length > now.length]
    return Measuring(longer[0], 1, REPEATS) if longer else None
