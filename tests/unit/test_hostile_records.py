"""Files that are no records, or lie: refused with the kind of fault and a place, and told in both languages."""

from __future__ import annotations

import time
from string import Formatter

import pytest

from engine import codec
from engine.errors import RecordInvalid
from tests.hostile_files import GOOD, SCRIPT, changed, files, many_names, shortest
from ui import i18n

FILES = list(files())


def test_the_record_they_are_made_from_is_right() -> None:
    record = codec.load_record(GOOD)
    assert codec.load_record(record.to_json()) == record
    assert len(record.generated) == 48


@pytest.mark.parametrize(("kind", "data"), [row[1:] for row in FILES], ids=[row[0] for row in FILES])
def test_a_file_is_refused_with_its_fault_and_place(kind: str, data: bytes) -> None:
    with pytest.raises(RecordInvalid) as caught:
        codec.load_record(data)
    told = caught.value.params
    assert told["field"] == kind, told
    assert 0 < len(str(told["detail"])) < 500
    assert str(told["place"])
    assert " - at " not in str(told["detail"]), "the place is told once"
    for language in i18n.LANGUAGES:
        words = i18n.text(language, f"errors.record_invalid_{kind}")
        places = {name for _, name, _, _ in Formatter().parse(words) if name}
        assert places <= set(told), "every place of the sentence is filled"
        assert "detail" not in places or kind == "kind", "only the types, in the parser's words, are told as they are"


def test_a_name_among_very_many_is_found_in_one_pass() -> None:
    """A count of every name would take 10^11 comparisons here: hours."""
    data = many_names(400_000)
    assert len(data) < codec.RECORD_LIMIT_BYTES
    began = time.perf_counter()
    with pytest.raises(RecordInvalid) as caught:
        codec.load_record(data)
    assert (caught.value.params["field"], caught.value.params["place"]) == ("twice", "k399999")
    assert time.perf_counter() - began < 5


def test_bounds_are_told_as_numbers() -> None:
    with pytest.raises(RecordInvalid) as caught:
        codec.load_record(changed("steps", 2, "gap_s", value=-0.5))
    assert {name: caught.value.params[name] for name in ("place", "low", "high")} == {"place": "steps[2].gap_s", "low": 0, "high": 10**8}
    codec.load_record(shortest())


def test_fifty_megabytes_are_refused_before_they_are_read() -> None:
    began = time.perf_counter()
    with pytest.raises(RecordInvalid) as caught:
        codec.load_record(b"[" * 50_000_000)
    assert caught.value.params["field"] == "size"
    assert caught.value.params["size"] == 50_000_000
    assert time.perf_counter() - began < 0.5


def test_a_hostile_prompt_is_text_like_any_other() -> None:
    record = codec.load_record(changed("prompt", value=f"=1+1 {SCRIPT} :red[x] $y$"))
    assert SCRIPT in record.prompt


def test_an_error_of_another_version_can_be_read() -> None:
    record = codec.load_record(changed("error", value={"code": "of_tomorrow", "params": {"detail": "9" * 9_000, "wanted": -3}}))
    assert record.error is not None
    assert record.error.code == "of_tomorrow"
