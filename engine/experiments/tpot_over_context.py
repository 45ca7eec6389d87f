"""How does the time per token grow with what has been read? The notes grow from length to length; at each, a few tokens are written.

What is timed: a decode step, forward pass and choice. Knows the stepper; does not know who watches or whose turn it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from engine.experiments.paper import Paper, SweepTurn, fresh
from engine.generate.stepper import Stepper
from engine.model.brake import brake
from engine.model.device import memory_checked
from engine.model.loader import LoadedModel
from engine.sweep import Measuring, SweepSample

STEPS = 8
WARM_UP = 1  # step at each length that is not counted: the reading before it has emptied the processor's own caches


def tpot_over_context(model: LoadedModel, lengths: Sequence[int], halted: Callable[[], bool]) -> Iterator[SweepTurn]:
    """One decode step for each `next()`; between two lengths one that reads on. The last step at a length has that many tokens before it,
    its own included, the first one STEPS − 1 fewer. `lengths` rise; one that does not leave room for its steps is left out.

    Raises engine.model.brake.Halted soon after `halted` says so, also from inside a pass; OutOfMemory.
    """
    paper, stepper = Paper(model, lengths[-1]), fresh(model)
    plan = reachable(lengths)
    yield SweepTurn(None, Measuring(plan[0], 0, STEPS))
    for length, later in zip(plan, (*plan[1:], None), strict=True):
        newest = _read_on(model, stepper, paper, length - STEPS - WARM_UP, halted)
        yield SweepTurn(None, Measuring(length, 1, STEPS))
        for number in range(1, STEPS + 1):
            newest, sample = _write(model, stepper, newest, length)
            yield SweepTurn(sample, _following(length, number, later))


def _following(length: int, number: int, later: int | None) -> Measuring | None:
    if number < STEPS:
        return Measuring(length, number + 1, STEPS)
    return None if later is None else Measuring(later, 0, STEPS)


def reachable(lengths: Sequence[int]) -> tuple[int, ...]:
    """The lengths whose steps begin behind those of the length before."""
    found: list[int] = []
    for length in lengths:
        if length - STEPS - WARM_UP > (found[-1] if found else 0):
            found.append(length)
    return tuple(found)


def _read_on(model: LoadedModel, stepper: Stepper, paper: Paper, until: int, halted: Callable[[], bool]) -> int:
    """Read the paper on until the notes hold `until` tokens, and take the uncounted steps; the newest id."""
    known = stepper.cache.tokens()
    with brake(model.model, halted), memory_checked():
        newest = stepper.advance(paper.ids[known:until], model.info.prefill_threads).picked.id
    for _ in range(WARM_UP):
        newest, _sample = _write(model, stepper, newest, until)
    return newest


def _write(model: LoadedModel, stepper: Stepper, newest: int, length: int) -> tuple[int, SweepSample]:
    with memory_checked():
        advance = stepper.advance([newest], model.info.decode_threads)
    return advance.picked.id, SweepSample(length, advance.forward_s + advance.sample_s, advance.forward_s)
