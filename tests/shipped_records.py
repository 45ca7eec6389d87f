"""Makes the recordings that come with the app (assets/records), with the real models. Knows which questions; knows no page.

    python -m tests.shipped_records smollm2-en
    OPENBOOK_HOME=… python -m tests.shipped_records gemma-zh

Nothing of the computer but what it measured goes in: the date is in UTC, and no path or name of it is in a record
(tests/unit/test_shipped_records.py).
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from engine import load_model
from engine.model.loader import LoadedModel
from engine.run import Run
from engine.trace import RunRecord, RunSettings

DIR = Path(__file__).resolve().parents[1] / "assets" / "records"


@dataclass(frozen=True, slots=True)
class Recipe:
    """A file's name without its ending, the model, the question and the settings."""

    name: str
    model: str
    question: str
    settings: RunSettings


CONTINUED = RunSettings(max_new_tokens=48, use_chat_template=False)
RECIPES = (
    Recipe("smollm2-en", "smollm2-135m", "Why is the sky blue?", RunSettings(max_new_tokens=48)),
    Recipe("gemma-zh", "gemma3-270m", "小猫把橘子放在桌子上，但是它滚下去了。滚下去的是", CONTINUED),
)


def record(model: LoadedModel, recipe: Recipe) -> RunRecord:
    """The second of two runs: the first one warms the machine up."""
    run = Run(model, recipe.question, recipe.settings)
    for _ in range(2):
        run = Run(model, recipe.question, recipe.settings)
        run.prefill()
        list(run.decode())
    return replace(run.record(), created=datetime.now(UTC).isoformat(timespec="milliseconds"))


def make(name: str) -> None:
    """Write one file."""
    recipe = next(one for one in RECIPES if one.name == name)
    made = record(load_model(recipe.model), recipe)
    DIR.mkdir(exist_ok=True)
    (DIR / f"{name}.json").write_text(made.to_json(), encoding="utf-8")


if __name__ == "__main__":
    for asked in sys.argv[1:]:
        make(asked)
