"""The recordings that come with the app: right, made by the recipes, and without a word about the computer they were made on."""

from __future__ import annotations

import getpass
import re
import socket

import pytest

from engine import codec
from engine.generate.detokenize import answer_text
from engine.measure.latency import summarize
from tests.shipped_records import DIR, RECIPES, Recipe
from ui import shelf


def test_every_example_of_the_pages_is_there() -> None:
    assert {name.replace("_", "-") for name in shelf.EXAMPLES} == {recipe.name for recipe in RECIPES} == {one.stem for one in DIR.iterdir()}


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)
def test_a_recording_is_what_its_recipe_says(recipe: Recipe) -> None:
    data = (DIR / f"{recipe.name}.json").read_bytes()
    record = codec.load_record(data)
    assert record.to_json().encode() == data
    assert (record.prompt, record.settings, record.model.model_id) == (recipe.question, recipe.settings, recipe.model)
    assert len(record.generated) == 48
    assert summarize(record).p95_itl_s is not None
    assert len(answer_text(record.generated)) > 40


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)
def test_nothing_in_it_tells_whose_computer_it_was(recipe: Recipe) -> None:
    text = (DIR / f"{recipe.name}.json").read_text(encoding="utf-8")
    assert not re.search(r"(/home/|/root|/tmp|/work|[A-Z]:\\\\)", text)
    assert socket.gethostname() not in text
    assert len(user := getpass.getuser()) < 4 or f'"{user}' not in text
