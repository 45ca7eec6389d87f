"""What the environment may say, and that what it must not say is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import InvalidSetting
from engine.settings import Settings
from engine.trace import RunSettings


def test_an_empty_environment_gives_the_defaults() -> None:
    settings = Settings.from_env({})
    assert settings == Settings(home=Path.home() / ".cache" / "openbook")
    assert (settings.lease_s, settings.any_model, settings.offline) == (7.0, True, False)
    assert Settings.from_env({"OPENBOOK_LEASE_S": " ", "OPENBOOK_ANY_MODEL": ""}) == settings


def test_what_is_set_counts(tmp_path: Path) -> None:
    env = {"OPENBOOK_HOME": str(tmp_path), "OPENBOOK_LEASE_S": "0.5", "OPENBOOK_ANY_MODEL": "0", "HF_HUB_OFFLINE": "1"}
    settings = Settings.from_env(env)
    assert (settings.home, settings.lease_s, settings.any_model, settings.offline) == (tmp_path, 0.5, False, True)
    assert Settings.from_env({"OPENBOOK_ANY_MODEL": "yes"}).any_model
    few = Settings.from_env({"OPENBOOK_HELD_RUNS": "3", "OPENBOOK_KEPT_RUNS": " 8 "})
    assert (few.held_runs, few.kept_runs) == (3, 8)


@pytest.mark.parametrize("value", ["six", "0", "-1", "nan", "inf", "1e9", "7 s"])
def test_a_lease_that_is_none_is_named(value: str) -> None:
    with pytest.raises(InvalidSetting) as caught:
        Settings.from_env({"OPENBOOK_LEASE_S": value})
    assert (caught.value.params["field"], caught.value.params["value"]) == ("OPENBOOK_LEASE_S", value)


@pytest.mark.parametrize("field", ["OPENBOOK_HELD_RUNS", "OPENBOOK_KEPT_RUNS"])
@pytest.mark.parametrize("value", ["0", "-1", "2.5", "many", "٣", "1e3", "9" * 5000])
def test_a_number_of_runs_that_is_none_is_named(field: str, value: str) -> None:
    with pytest.raises(InvalidSetting) as caught:
        Settings.from_env({field: value})
    assert (caught.value.params["field"], caught.value.params["value"]) == (field, value)


def test_a_switch_that_keeps_something_out_is_not_guessed() -> None:
    with pytest.raises(InvalidSetting) as caught:
        Settings.from_env({"OPENBOOK_ANY_MODEL": "nope"})
    assert caught.value.params["field"] == "OPENBOOK_ANY_MODEL"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_new_tokens", 1.5),
        ("max_new_tokens", True),
        ("top_k", 2.5),
        ("seed", "1"),
        ("temperature", "1"),
        ("temperature", True),
        ("top_p", None),
    ],
)
def test_a_run_setting_of_the_wrong_type_is_named(field: str, value: object) -> None:
    with pytest.raises(InvalidSetting) as caught:
        RunSettings(**{field: value})
    assert caught.value.params["field"] == field
