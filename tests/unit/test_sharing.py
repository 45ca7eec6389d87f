"""Share links both ways: what is put in comes out again, and whatever else stands in a link does no harm."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qs, quote, urlencode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from engine.model import registry
from engine.trace import RunSettings, RunStatus, RunView
from ui import sharing
from ui.sharing import Shared

NAMES = (
    "q",
    "model",
    "device",
    "max_new",
    "temp",
    "top_k",
    "top_p",
    "seed",
    "template",
    "system",
    "layer",
    "head",
    "prompt",
    "run",
    "lang",
)
KEYS = [spec.key for spec in registry.MODELS]
TEXT = some.text(some.characters(exclude_categories=["Cs"]), max_size=400)
SHARED = some.builds(
    Shared,
    question=TEXT,
    model=some.none() | some.sampled_from([*KEYS, "owner/name", "a.b-c_d/E.1"]),
    device=some.none() | some.sampled_from(sharing.DEVICES),
    max_new_tokens=some.integers(1, sharing.MAX_NEW_LIMIT),
    temperature=some.floats(0, sharing.TEMPERATURE_LIMIT),
    top_k=some.integers(0, sharing.TOP_K_LIMIT),
    top_p=some.floats(0, 1),
    seed=some.integers(0, sharing.SEED_LIMIT),
    use_chat_template=some.booleans(),
    system_prompt=some.none() | some.just("") | TEXT,
    layer=some.none() | some.integers(0, sharing.PLACE_LIMIT),
    head=some.none() | some.integers(0, sharing.PLACE_LIMIT),
)
HOSTILE = [
    "-1",
    "1e9",
    "nan",
    "inf",
    "-inf",
    "1e999",
    "",
    " ",
    "\x00",
    "<script>alert(1)</script>",
    "../../etc",
    "9" * 60,
    "9" * 70,
    "٣",
    "1_0",
    "0x10",
]


def through_a_browser(query: dict[str, str]) -> dict[str, str]:
    """As the app's server reads the address again."""
    address = urlencode(query, safe="", quote_via=quote)
    return {name: values[-1] for name, values in parse_qs(address, keep_blank_values=True).items()}


@given(SHARED)
@settings(max_examples=300, deadline=None)
def test_what_is_shared_comes_back(shared: Shared) -> None:
    parcel = sharing.link_of(shared, any_model=True)
    expected = shared
    if "question" in parcel.left_out:
        expected = replace(expected, question="")
    if "system" in parcel.left_out:
        expected = replace(expected, system_prompt=None)
    assert sharing.parse(through_a_browser(parcel.query), any_model=True) == expected
    texts = sum(len(quote(parcel.query.get(name, ""), safe="")) for name in ("q", "system"))
    assert texts <= sharing.TEXT_MOST
    whole = len(quote(shared.question, safe="")) + len(quote(shared.system_prompt or "", safe=""))
    assert (not parcel.left_out) == (whole <= sharing.TEXT_MOST)


@given(some.dictionaries(some.sampled_from(NAMES), some.text(max_size=80) | some.sampled_from(HOSTILE) | some.floats().map(str)))
@settings(max_examples=500, deadline=None)
def test_any_query_gives_values_in_their_ranges(query: dict[str, str]) -> None:
    found = sharing.parse(query, any_model=False)
    assert isinstance(found.max_new_tokens, int)
    assert 1 <= found.max_new_tokens <= sharing.MAX_NEW_LIMIT
    assert 0 <= found.temperature <= sharing.TEMPERATURE_LIMIT
    assert 0 <= found.top_k <= sharing.TOP_K_LIMIT
    assert 0 <= found.top_p <= 1
    assert 0 <= found.seed <= sharing.SEED_LIMIT
    assert {type(found.max_new_tokens), type(found.top_k), type(found.seed)} == {int}
    assert {type(found.temperature), type(found.top_p)} == {float}, "a slider takes no whole number for a fraction"
    for place in (found.layer, found.head):
        assert place is None or (type(place) is int and 0 <= place <= sharing.PLACE_LIMIT)
    assert found.model in {None, *KEYS}
    assert found.device in {None, *sharing.DEVICES}
    assert found.question == query.get("q", "")
    asked = RunSettings(found.max_new_tokens, found.temperature, found.top_k, found.top_p, found.seed)  # raises on what no run may have
    assert asked.seed == found.seed


@pytest.mark.parametrize(
    ("name", "value", "field", "read"),
    [
        ("temp", "-1", "temperature", 0.0),
        ("temp", "1e9", "temperature", 2.0),
        ("temp", "inf", "temperature", 2.0),
        ("temp", "nan", "temperature", 0.0),
        ("temp", "-0", "temperature", 0.0),
        ("temp", "warm", "temperature", 0.0),
        ("max_new", "1e9", "max_new_tokens", 2048),
        ("max_new", "0", "max_new_tokens", 1),
        ("max_new", "-7", "max_new_tokens", 1),
        ("max_new", "12.9", "max_new_tokens", 12),
        ("max_new", "9" * 60, "max_new_tokens", 2048),
        ("max_new", "9" * 70, "max_new_tokens", 48),
        ("top_k", "-1", "top_k", 0),
        ("top_k", "99999", "top_k", 1000),
        ("top_p", "1.5", "top_p", 1.0),
        ("top_p", "-0.5", "top_p", 0.0),
        ("seed", "-1", "seed", 0),
        ("seed", "1e30", "seed", 2**31 - 1),
        ("layer", "-3", "layer", 0),
        ("layer", "1e9", "layer", 1023),
        ("head", "nan", "head", None),
        ("head", "first", "head", None),
        ("device", "tpu", "device", None),
        ("device", "cuda", "device", "cuda"),
        ("template", "0", "use_chat_template", False),
        ("template", "<b>", "use_chat_template", True),
        ("system", "", "system_prompt", ""),
        ("system", "x" * 4001, "system_prompt", None),
        ("q", "x" * 4001, "question", ""),
        ("q", "<script>alert(1)</script>", "question", "<script>alert(1)</script>"),
    ],
)
def test_every_value_is_clamped_or_ignored(name: str, value: str, field: str, read: object) -> None:
    found = sharing.parse({name: value}, any_model=True)
    assert getattr(found, field) == read
    assert math.copysign(1, found.temperature) == 1
    assert replace(found, **{field: getattr(Shared(), field)}) == Shared(), "and nothing else moved"


def test_the_mean_over_layers_is_a_place_too() -> None:
    parcel = sharing.link_of(Shared(layer=7, layer_mean=True), any_model=True)
    assert parcel.query == {"layer": "mean"}
    found = sharing.parse(parcel.query, any_model=True)
    assert (found.layer, found.layer_mean) == (None, True)


@pytest.mark.parametrize(
    "name", ["../../etc", "/etc", "~/models", "C:\\models", "\\\\host\\share", "//host/share", "a/../b", "a--b/c", "./m", ""]
)
def test_no_path_is_a_model_on_either_side(name: str) -> None:
    assert sharing.parse({"model": name}, any_model=True).model is None
    parcel = sharing.link_of(Shared(model=name), any_model=True)
    assert parcel.query == {}
    assert parcel.left_out == ("model",)


def test_a_folder_that_is_spelt_like_a_hub_id_is_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "owner" / "name").mkdir(parents=True)
    (tmp_path / "owner" / "name" / "config.json").write_text("{}")
    assert sharing.known_model("owner/name", any_model=True) == "owner/name"
    monkeypatch.chdir(tmp_path)
    assert sharing.known_model("owner/name", any_model=True) is None


def test_hub_ids_only_where_visitors_may_name_any_model() -> None:
    for any_model, expected in ((True, "owner/name"), (False, None)):
        assert sharing.parse({"model": "owner/name"}, any_model=any_model).model == expected
        assert sharing.parse({"model": KEYS[1]}, any_model=any_model).model == KEYS[1]


def test_a_question_too_long_for_a_link_is_left_out_and_said_to_be() -> None:
    fits = "学" * (sharing.TEXT_MOST // 9)
    assert sharing.link_of(Shared(fits), any_model=True).left_out == ()
    parcel = sharing.link_of(Shared(fits + "学", temperature=0.5), any_model=True)
    assert (dict(parcel.query), parcel.left_out) == ({"temp": "0.5"}, ("question",))
    assert sharing.link_of(Shared("x", system_prompt="y" * sharing.TEXT_MOST), any_model=True).left_out == ("system",)
    assert sharing.link_of(Shared("half a character: \ud83d"), any_model=True).left_out == ("question",)
    assert sharing.link_of(Shared("x" * 1_000_000), any_model=True).left_out == ("question",)


def test_a_run_is_shared_as_far_as_the_sidebar_can_say_it() -> None:
    asked = RunSettings(5000, 9.0, 5000, 0.5, 2**40, False, "")
    view = RunView("r", "why?", asked, "gpt2", "2026-01-01T00:00:00+00:00", RunStatus.ENDED, device="cpu")
    shared = sharing.of_run(view)
    assert shared == Shared("why?", "gpt2", "cpu", 2048, 2.0, 1000, 0.5, 2**31 - 1, False, "")
    assert sharing.parse(sharing.link_of(shared, any_model=False).query, any_model=False) == shared


def test_values_that_are_no_numbers_at_all_are_the_defaults() -> None:
    """What a browser has put under a widget's key is not checked by anybody."""
    odd = Shared(max_new_tokens=None, temperature="x", top_k=True, top_p=math.nan, seed=[1], layer="1e400x", head={})  # type: ignore[arg-type]
    assert sharing.link_of(odd, any_model=True).query == {}
