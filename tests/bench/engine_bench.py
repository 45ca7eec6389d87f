"""`Run` held against transformers itself: same process, model, dtype and threads. Knows no app."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import psutil
import torch
from transformers.generation.streamers import BaseStreamer

from engine import Run, RunSettings, load_model
from engine.measure.latency import summarize
from engine.model.attend import ATTENTION_NAME
from engine.model.loader import LoadedModel
from tests.bench.report import Figure, paired

QUESTION = "Tell me a long story about an orange that rolled off a table."
STEPS = 64
PREFILL_ROUNDS = 21  # a pass takes half a second, and single pairs scatter by 10 %


@contextmanager
def plain(loaded: LoadedModel) -> Iterator[Any]:
    """The same weights with transformers' own attention function in place of the recording one."""
    loaded.model.set_attn_implementation("sdpa")
    try:
        with torch.inference_mode():
            yield loaded.model
    finally:
        loaded.model.set_attn_implementation(ATTENTION_NAME)


class Stamps(BaseStreamer):
    """Stamps every id that `generate` gives out; the first call carries the prompt."""

    def __init__(self) -> None:
        self.at_s: list[float] = []

    def put(self, value: torch.Tensor) -> None:
        self.at_s.append(time.perf_counter())

    def end(self) -> None:
        pass


@cache
def model() -> LoadedModel:
    return load_model("smollm2-135m", device="cpu")


def run_tpot_s() -> float:
    run = Run(model(), QUESTION, RunSettings(max_new_tokens=STEPS, ignore_eos=True))
    run.prefill()
    for _ in run.decode():
        pass
    tpot_s = summarize(run.record()).tpot_s
    run.free()
    assert tpot_s is not None
    return tpot_s


def generate_tpot_s() -> float:
    loaded = model()
    run = Run(loaded, QUESTION, RunSettings())
    ids = torch.tensor([[token.id for token in run.tokens]])
    stamps = Stamps()
    torch.set_num_threads(loaded.info.decode_threads)
    with plain(loaded) as network:
        network.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=STEPS, min_new_tokens=STEPS, do_sample=False, streamer=stamps
        )
    at_s = stamps.at_s[1:]
    return (at_s[-1] - at_s[0]) / (len(at_s) - 1)


def tpot() -> Iterator[Figure]:
    """TPOT with attention recording against `generate` without."""
    ours, theirs, ratio = paired(run_tpot_s, generate_tpot_s, 7)
    yield Figure("tpot_recorded", ours * 1e3, "ms", f"transformers generate {theirs * 1e3:.2f} ms", ratio, "<= 1.10")


def words(count: int) -> str:
    """A text of exactly `count` tokens for SmolLM2: one word, repeated."""
    return "cat" + " cat" * (count - 1)


def run_prefill_s(count: int) -> float:
    run = Run(model(), words(count), RunSettings(max_new_tokens=1, use_chat_template=False))
    assert len(run.tokens) == count, f"{len(run.tokens)} tokens instead of {count}"
    prefill_s = run.prefill().prefill_s
    run.free()
    return prefill_s


def bare_prefill_s(count: int) -> float:
    loaded = model()
    ids = torch.tensor([[token.id for token in Run(loaded, words(count), RunSettings(use_chat_template=False)).tokens]])
    torch.set_num_threads(loaded.info.prefill_threads)
    with plain(loaded) as network:
        begin = time.perf_counter()
        network(ids, logits_to_keep=1)
        return time.perf_counter() - begin


def prefill() -> Iterator[Figure]:
    """One pass over the prompt, recorded, against a bare forward call."""
    for count in (256, 1024):
        ours, theirs, ratio = paired(lambda n=count: run_prefill_s(n), lambda n=count: bare_prefill_s(n), PREFILL_ROUNDS)
        yield Figure(f"prefill_{count}", ours * 1e3, "ms", f"bare forward {theirs * 1e3:.1f} ms", ratio, "<= 1.10")


def resident_growth_bytes(capture: bool) -> int:
    """How much the process's resident memory grows over a prefill of 1,024 tokens while its run is kept."""
    gc.collect()
    before = psutil.Process().memory_info().rss
    run = Run(model(), words(1024), RunSettings(max_new_tokens=1, use_chat_template=False, capture_attention=capture))
    run.prefill()
    gc.collect()
    grown = psutil.Process().memory_info().rss - before
    run.free()
    return grown


def recording() -> Iterator[Figure]:
    """Extra memory of the recorded queries at 1,024 tokens, from their storages."""
    loaded = load_model("smollm2-135m", device="cpu", dtype="bfloat16")
    run = Run(loaded, words(1024), RunSettings(max_new_tokens=1, use_chat_template=False))
    recorded = run.prefill().recorded_bytes
    against = f"KV cache {run.kv_bytes() / 1e6:.1f} MB at the same length"
    run.free()
    with_, without = resident_growth_bytes(True), resident_growth_bytes(False)
    against += f"; resident growth of a whole prefill {with_ / 1e6:.0f} MB recorded, {without / 1e6:.0f} MB not"
    yield Figure("recording_1024", recorded / 1e6, "MB", against, None, "<= 45")
