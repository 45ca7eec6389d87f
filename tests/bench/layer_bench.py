"""The watched reading of a prompt: do the layers' times add up to the pass, and what does watching cost? Knows no app."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator

import torch

from engine import Run, RunSettings
from engine.generate.stepper import Stepper
from engine.measure.clock import Clock
from tests.bench.engine_bench import PREFILL_ROUNDS, model, words
from tests.bench.report import Figure, paired

LENGTHS = (256, 1024)


def stepper_and_ids(count: int) -> tuple[Stepper, list[int]]:
    settings = RunSettings(use_chat_template=False)
    ids = [token.id for token in Run(model(), words(count), settings).tokens]
    return Stepper(model(), settings, Clock(torch.device("cpu"))), ids


def watched_s(count: int, shares: list[float]) -> float:
    """Seconds of a move that is watched, hooks and sampling thread included; what share of its pass the layers make up goes to `shares`."""
    stepper, ids = stepper_and_ids(count)
    begin = time.perf_counter()
    advance = stepper.read(ids, model().info.prefill_threads)
    taken_s = time.perf_counter() - begin
    shares.append(sum(advance.layer_s) / advance.forward_s)
    return taken_s


def unwatched_s(count: int) -> float:
    """The same move of the same engine without the watches on layers and memory."""
    stepper, ids = stepper_and_ids(count)
    begin = time.perf_counter()
    stepper.advance(ids, model().info.prefill_threads)
    return time.perf_counter() - begin


def layers() -> Iterator[Figure]:
    """Σ of the layers' times against the forward time; the watched pass against the same pass unwatched."""
    for count in LENGTHS:
        shares: list[float] = []
        ours, theirs, ratio = paired(lambda n=count, seen=shares: watched_s(n, seen), lambda n=count: unwatched_s(n), PREFILL_ROUNDS)
        share = statistics.median(shares)
        rest = "its own forward time, pass by pass; the rest is embedding, masks and output head"
        yield Figure(f"layers_sum_{count}", 100 * share, "%", rest, share, ">= 0.90")
        yield Figure(f"layers_sum_{count}_most", 100 * max(shares), "%", "its own forward time, at most", max(shares), "<= 1.10")
        yield Figure(f"layers_cost_{count}", ours * 1e3, "ms", f"the same move unwatched {theirs * 1e3:.1f} ms", ratio, "<= 1.05")
