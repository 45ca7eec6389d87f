"""Loading: what is told about a model, what is refused and why, devices by name."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import BertConfig, BertForMaskedLM, T5Config, T5ForConditionalGeneration

from engine import LoadedModel, Run, RunSettings, load_model
from engine.errors import DeviceUnavailable, EngineError, InvalidSetting, LoadFailed, ModelNotFound, NotCausal, UnsafeWeights
from engine.model import device as devices
from engine.model import loader, trial
from tests.fakes import make_checkpoint, make_tokenizer

Tiny = Callable[..., LoadedModel]


def load(folder: Path) -> LoadedModel:
    return load_model(str(folder), device="cpu", dtype="float32")


@pytest.mark.parametrize("kind", ["llama", "qwen2", "qwen3", "gpt2", "gemma3"])
def test_info_tells_the_truth(tiny: Tiny, kind: str) -> None:
    model = tiny(kind)
    info = model.info
    assert info.parameters == sum(one.numel() for one in model.model.parameters())
    assert info.weight_bytes == 4 * info.parameters
    assert (info.device, info.dtype, info.dtype_bytes) == ("cpu", "float32", 4)
    assert (info.context_length, info.eos_ids, info.attention_reason) == (1024, (2,), None)
    assert (info.has_chat_template, info.dtype_trials) == (True, {})
    assert 1 <= info.decode_threads <= info.prefill_threads
    assert info.versions["torch"] == torch.__version__
    assert not any(one.requires_grad for one in model.model.parameters())


def test_tied_weights_count_once(tiny: Tiny) -> None:
    tied, untied = tiny("llama"), tiny("llama", tie_word_embeddings=False)
    assert untied.info.parameters - tied.info.parameters == tied.shape.vocab_size * tied.shape.hidden_size


def test_every_eos_is_found(tiny_dir: Callable[..., Path], tmp_path: Path) -> None:
    folder = make_checkpoint("llama", tmp_path)
    written = json.loads((folder / "generation_config.json").read_text())
    (folder / "generation_config.json").write_text(json.dumps(written | {"eos_token_id": [7, 9]}))
    assert load(folder).info.eos_ids == (2, 7, 9)


def test_loading_and_running_say_nothing_on_the_side(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = make_checkpoint("gemma3", tmp_path)
    capfd.readouterr()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        list(Run(load(folder), "the cat", RunSettings(max_new_tokens=3)).decode())
    assert capfd.readouterr() == ("", "")


def test_dtype_is_chosen_by_a_trial_that_is_shown(tiny_dir: Callable[..., Path]) -> None:
    model = load_model(str(tiny_dir("llama")), device="cpu")
    trials = model.info.dtype_trials
    assert set(trials) == {"float32", "bfloat16"}
    assert all(0 < seconds < 1 for seconds in trials.values())
    assert model.info.dtype == ("bfloat16" if trials["bfloat16"] <= trial.NEARLY * trials["float32"] else "float32")
    assert model.dtype == model.model.dtype


def test_a_machine_is_tried_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second load reads what the first one measured, so a near tie does not fall differently from day to day."""
    measured = iter([{"float32": 1.0, "bfloat16": 2.0}, {"float32": 2.0, "bfloat16": 1.0}, {"float32": 3.0, "bfloat16": 1.0}])
    monkeypatch.setattr(trial, "dtype_trials", lambda hidden, intermediate: next(measured))
    first = trial.remembered_trials(tmp_path / "home", 8, 16)
    assert trial.remembered_trials(tmp_path / "home", 8, 16) == first == {"float32": 1.0, "bfloat16": 2.0}
    assert trial.remembered_trials(tmp_path / "home", 8, 32) == {"float32": 2.0, "bfloat16": 1.0}, "another size is another trial"
    (tmp_path / "home" / "trials.json").write_text('{"8x16": {"float32": "fast"}}')
    assert trial.remembered_trials(tmp_path / "home", 8, 16)["float32"] == 3.0, "what cannot be read is measured anew"


def test_a_home_that_cannot_be_written_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    assert set(trial.remembered_trials(tmp_path / "file", 8, 16)) == {"float32", "bfloat16"}


@pytest.mark.parametrize(("bfloat16_s", "chosen"), [(0.5, torch.bfloat16), (1.05, torch.bfloat16), (1.2, torch.float32)])
def test_a_near_tie_goes_to_the_smaller_one(bfloat16_s: float, chosen: torch.dtype) -> None:
    assert loader._fitting_dtype(torch.device("cpu"), {"float32": 1.0, "bfloat16": bfloat16_s}) is chosen


@pytest.mark.parametrize(("seconds", "chosen"), [({1: 1.0, 2: 0.95, 4: 0.94}, 1), ({1: 2.0, 2: 1.05, 4: 1.0}, 2), ({1: 4, 2: 2, 4: 1}, 4)])
def test_the_fewest_threads_within_ten_per_cent(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch, seconds: dict[int, float], chosen: int
) -> None:
    warm_up = trial.WarmUp(tiny().model, 100, None)
    monkeypatch.setattr(warm_up, "_steps_s", seconds.__getitem__)
    assert warm_up.decode_threads(4) == chosen
    assert warm_up.decode_threads(1) == 1, "what is spared is not even tried"


def test_progress_goes_from_loading_to_warming_up(tiny_dir: Callable[..., Path]) -> None:
    seen: list[str] = []
    load_model(str(tiny_dir("llama")), device="cpu", dtype="float32", progress=lambda stage, done, total: seen.append(stage))
    assert seen == ["load", "warm_up"]


@pytest.mark.parametrize("name", ["no-such-model", "/no/such/folder", "", "../../etc", "<script>", "a" * 5000])
def test_unknown_names(name: str) -> None:
    with pytest.raises(ModelNotFound):
        load_model(name, device="cpu")


def test_pickled_weights_are_not_read(tmp_path: Path) -> None:
    folder = make_checkpoint("llama", tmp_path)
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    with pytest.raises(UnsafeWeights):
        load(folder)


def test_a_checkpoint_with_its_own_code_is_refused(tmp_path: Path) -> None:
    folder = make_checkpoint("llama", tmp_path)
    _change_config(folder, model_type="mine", architectures=["MineForCausalLM"], auto_map={"AutoModelForCausalLM": "code.MineForCausalLM"})
    (folder / "code.py").write_text("raise SystemExit('foreign code ran')")
    with pytest.raises(UnsafeWeights):
        load(folder)


def test_models_that_do_not_continue_text(tmp_path: Path) -> None:
    small = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32, "vocab_size": 400}
    BertForMaskedLM(BertConfig(**small)).save_pretrained(tmp_path / "bert")
    T5ForConditionalGeneration(T5Config(d_model=32, d_ff=32, num_layers=1, num_heads=2, vocab_size=400)).save_pretrained(tmp_path / "t5")
    for kind in ("bert", "t5"):
        make_tokenizer().save_pretrained(tmp_path / kind)
        with pytest.raises(NotCausal) as caught:
            load(tmp_path / kind)
        assert caught.value.params["model_type"] == kind


def test_half_a_file(tmp_path: Path) -> None:
    folder = make_checkpoint("llama", tmp_path)
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[: weights.stat().st_size // 2])
    with pytest.raises(LoadFailed):
        load(folder)


def test_a_missing_tensor_is_not_filled_with_random_numbers(tmp_path: Path) -> None:
    folder = make_checkpoint("llama", tmp_path)
    tensors = load_file(folder / "model.safetensors")
    tensors.pop("model.layers.1.mlp.up_proj.weight")
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(LoadFailed) as caught:
        load(folder)
    assert "up_proj" in str(caught.value.params["detail"])


def test_a_tensor_of_another_size(tmp_path: Path) -> None:
    folder = make_checkpoint("llama", tmp_path)
    _change_config(folder, intermediate_size=48)
    with pytest.raises(LoadFailed):
        load(folder)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"model_type": "llama", "hidden_size": "many"}'])
def test_broken_configs_end_in_a_typed_error(tmp_path: Path, text: str) -> None:
    folder = make_checkpoint("llama", tmp_path)
    (folder / "config.json").write_text(text)
    with pytest.raises(EngineError):
        load(folder)


def test_no_tokenizer(tmp_path: Path) -> None:
    folder = make_checkpoint("llama", tmp_path)
    for path in folder.glob("tokenizer*"):
        path.unlink()
    with pytest.raises(LoadFailed):
        load(folder)


def _change_config(folder: Path, **changes: object) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_an_unknown_dtype_is_named(tiny_dir: Callable[..., Path]) -> None:
    with pytest.raises(InvalidSetting) as caught:
        load_model(str(tiny_dir("llama")), dtype="int3")
    assert caught.value.params["field"] == "dtype"


@pytest.mark.parametrize("name", ["tpu", "", "cuda:x", "cuda:-1", "cpu:1", "mps:0", "CUDA"])
def test_devices_that_do_not_exist(name: str) -> None:
    with pytest.raises(DeviceUnavailable):
        devices.device_named(name)


def test_devices_that_are_not_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    for name in ("cuda", "cuda:0", "mps"):
        with pytest.raises(DeviceUnavailable):
            load_model("smollm2-135m", device=name)
    assert devices.device_named("auto") == torch.device("cpu")


def test_auto_takes_the_best_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert devices.device_named("auto") == torch.device("mps")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert devices.device_named("auto") == torch.device("cuda")
    assert devices.device_named("cuda:1") == torch.device("cuda:1")
    with pytest.raises(DeviceUnavailable):
        devices.device_named("cuda:2")


@pytest.mark.parametrize(("supported", "dtype"), [(True, torch.bfloat16), (False, torch.float16)])
def test_dtype_of_a_cuda_device(monkeypatch: pytest.MonkeyPatch, supported: bool, dtype: torch.dtype) -> None:
    from contextlib import nullcontext

    monkeypatch.setattr(torch.cuda, "device", lambda device: nullcontext())
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: supported)
    assert devices.accelerator_dtype(torch.device("cuda")) is dtype


def test_an_mps_device_without_bfloat16_takes_float16(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*size: int, **options: object) -> None:
        raise TypeError("BFloat16 is not supported on MPS")

    monkeypatch.setattr(torch, "ones", refuse)
    assert devices.accelerator_dtype(torch.device("mps")) is torch.float16


def test_memory_failures_are_told_from_others() -> None:
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**60, dtype=torch.uint8)
    assert devices.is_memory_full(caught.value)
    assert devices.is_memory_full(MemoryError())
    assert devices.is_memory_full(torch.OutOfMemoryError("CUDA out of memory"))
    assert not devices.is_memory_full(RuntimeError("shapes do not match"))


def test_loaded_models_are_values_by_identity(tiny: Tiny) -> None:
    model = tiny()
    assert model != replace(model)
