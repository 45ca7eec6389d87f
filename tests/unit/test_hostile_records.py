"""Files that are no records, or lie: refused with the kind of fault and a place, and told in both languages."""

from __future__ import annotations

import time

import pytest

from engine import codec
from engine.errors import RecordInvalid
from tests.hostile_files import GOOD, SCRIPT, changed, files
from ui import i18n

FILES = list(files())


def test_the_record_they_are_made_from_is_right() -> None:
    record = codec.load_record(GOOD)
    assert record.to_json().encode() == GOOD
    assert len(record.generated) == 48


@pytest.mark.parametrize(("kind", "data"), [row[1:] for row in FILES], ids=[row[0] for row in FILES])
def test_a_file_is_refused_with_its_fault_and_place(kind: str, data: bytes) -> None:
    with pytest.raises(RecordInvalid) as caught:
        codec.load_record(data)
    told = caught.value.params
    assert told["field"] == kind, told
    assert 0 < len(str(told["detail"])) < 500
    assert str(told["place"])
    for language in i18n.LANGUAGES:
        assert i18n.text(language, f"errors.record_invalid_{kind}")


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
