"""What a branch shares with the run it leaves. Pure: knows traces; does not know live memory (engine.generate.forking) or who asks."""

from __future__ import annotations

from dataclasses import dataclass, replace

from engine.errors import OutOfRange
from engine.trace import DecodeStep, PrefillTrace, RunRecord, RunSettings, RunView, Token


@dataclass(frozen=True, slots=True)
class Stem:
    """All that was written up to generated token `index`, that token's own step included, as the run that is left wrote it.

    The branch writes `token_id` in its place; prompt, earlier tokens and the step's own times and candidates are the same for both.
    `run_id`: of the run that is left. `index` 0: the first token, which prefill gave; there are no steps then.
    """

    run_id: str
    index: int
    token_id: int
    tokens: tuple[Token, ...]
    prefill: PrefillTrace
    steps: tuple[DecodeStep, ...]

    @property
    def instead_of(self) -> Token:
        return self.steps[-1].token if self.steps else self.prefill.first

    @property
    def newest(self) -> PrefillTrace | DecodeStep:
        """The trace of token `index`."""
        return self.steps[-1] if self.steps else self.prefill

    @property
    def read_ids(self) -> list[int]:
        """All that has been read when the branch begins: the prompt and every generated token before `index`."""
        written = (self.prefill.first, *(step.token for step in self.steps))
        return [token.id for token in (*self.tokens, *written[:-1])]


def branch_settings(settings: RunSettings) -> RunSettings:
    """Those of the run that is left, but the power is back."""
    return replace(settings, power_cut_at=None)


def stem_of(run: RunView | RunRecord, index: int, token_id: int, run_id: str) -> Stem:
    """Raises OutOfRange for a token that has not been written."""
    if run.prefill is None or not 0 <= index < len(run.generated):
        raise OutOfRange(field="index", value=index, count=len(run.generated))
    return Stem(run_id, index, token_id, run.tokens, run.prefill, run.steps[:index])
