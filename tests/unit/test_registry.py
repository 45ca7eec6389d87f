"""What a name may mean as a model, and that nothing else gets through."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import ModelNotFound
from engine.model import registry


def test_default_comes_first_and_keys_are_unique() -> None:
    keys = [spec.key for spec in registry.MODELS]
    assert keys[0] == registry.DEFAULT_MODEL == "smollm2-135m"
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("spec", registry.MODELS, ids=lambda spec: spec.key)
def test_every_model_has_exactly_one_place(spec: registry.ModelSpec) -> None:
    assert [spec.source, spec.hub_id, spec.folder].count(None) == 2
    assert registry.find(spec.key) is spec
    if spec.source:
        assert len(spec.source.requirements) == len(spec.source.members) > 0
        assert all("==" in requirement for requirement in spec.source.requirements)
        assert len(bytes.fromhex(spec.source.sha256)) == 32


def test_only_gemma_asks_for_terms() -> None:
    asking = [spec for spec in registry.MODELS if spec.needs_terms]
    assert [spec.key for spec in asking] == ["gemma3-270m"]
    assert asking[0].source is not None
    assert asking[0].source.terms_member is not None


@pytest.mark.parametrize("model", ["Qwen/Qwen2.5-0.5B-Instruct", "openai-community/gpt2"])
def test_the_hub_id_of_a_known_model_is_that_model(model: str) -> None:
    assert registry.find(model) in registry.MODELS


def test_any_hub_id() -> None:
    spec = registry.find("some-one/a.model_v1.2")
    assert (spec.key, spec.hub_id, spec.name, spec.source, spec.folder) == ("some-one/a.model_v1.2",) * 2 + ("a.model_v1.2", None, None)


def test_a_folder_with_a_config(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    spec = registry.find(str(tmp_path))
    assert (spec.folder, spec.hub_id, spec.source) == (tmp_path.resolve(), None, None)


def test_a_folder_without_a_config_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound):
        registry.find(str(tmp_path))


@pytest.mark.parametrize("slashes", ["//", "\\\\", "/\\", "\\/"])
def test_a_folder_on_another_machine_is_not_even_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slashes: str) -> None:
    """On POSIX "//tmp/model" is a folder of this machine: there it can be shown that nobody looks."""
    (tmp_path / "config.json").write_text("{}")
    monkeypatch.setattr(Path, "is_file", lambda path: pytest.fail(f"looked for {path}"))
    with pytest.raises(ModelNotFound):
        registry.find(slashes + str(tmp_path).lstrip("/"))


@pytest.mark.parametrize(
    "model",
    [
        "",
        " ",
        "../../etc",
        "../../etc/passwd",
        "/etc",
        "/etc/passwd",
        "a/../b",
        "a/b/c",
        "a//b",
        "-a/b",
        "a/.b",
        "a/b\n",
        "a/b?x=1",
        "https://example.org/a",
        "<script>alert(1)</script>",
        "<script>/x",
        "a\0b",
        "\0",
        "~nobody-of-this-name/model",
        "\ud800/x",
        "模型/名字",
        "a/" + "b" * 5000,
        "x" * 100_000,
        "/" * 3000,
        "smollm2-135M",
        "%2e%2e/%2e%2e",
        "\\\\host\\share",
        "\\\\host\\share\\model",
        "//host/share",
        "/\\host/share",
        "\\\\?\\UNC\\host\\share",
    ],
    ids=lambda value: ascii(value)[:24],
)
def test_hostile_names_are_not_found(model: str) -> None:
    with pytest.raises(ModelNotFound) as caught:
        registry.find(model)
    assert len(str(caught.value.params["model"])) <= 120
