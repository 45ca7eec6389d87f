"""What a look into attention costs, in seconds and in memory, with the model as the app runs it. Knows no app."""

from __future__ import annotations

import gc
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import psutil

from engine import Run, RunSettings
from engine.run_settings import RECORDING_LIMIT_BYTES
from tests.bench.engine_bench import model, words
from tests.bench.report import Figure

ROUNDS = 5
MEMORY_ROUNDS = 3
REDRAWN_ROWS = 256  # what a page asks for at most
LONG = 4096


def read(count: int, *, capture: bool = True, limit_bytes: int = RECORDING_LIMIT_BYTES) -> Run:
    settings = RunSettings(max_new_tokens=1, use_chat_template=False, capture_attention=capture, recording_limit_bytes=limit_bytes)
    run = Run(model(), words(count), settings)
    assert run.prefill().prompt_tokens == count
    return run


def median_s(look: Callable[[int], object]) -> float:
    """`look` gets the round's number, so that it can ask for something else each time."""
    times = []
    for number in range(ROUNDS):
        begin = time.perf_counter()
        look(number)
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def looks() -> Iterator[Figure]:
    """At 1,024 tokens: the newest 256 rows of another layer and head, and of the means."""
    run = read(1024)
    wanted: dict[str, Callable[[int], object]] = {
        "look_head_1024": lambda number: run.attention(number + 3, number, rows=REDRAWN_ROWS),
        "look_mean_of_heads_1024": lambda number: run.attention(number + 3, None, rows=REDRAWN_ROWS),
        "look_mean_of_layers_1024": lambda number: run.attention(None, number, rows=REDRAWN_ROWS),
        "look_mean_of_all_1024": lambda number: run.attention(None, None, rows=REDRAWN_ROWS - number),
        "look_links_1024": lambda number: run.links(1023, number),
    }
    for name, look in wanted.items():
        yield Figure(name, median_s(look), "s", f"prefill {run.prefill().prefill_s:.2f} s", None, "<= 1.5")
    run.free()


def reread() -> Iterator[Figure]:
    """Where nothing was kept, a look makes the pass once more, up to its layer: here one of the last two. No promise is made."""
    last = model().shape.num_hidden_layers - 1
    for count in (1024, LONG):
        run = read(count, limit_bytes=0)
        seconds = median_s(lambda number, run=run: run.attention(last - number % 2, 0, rows=REDRAWN_ROWS))
        yield Figure(f"look_reread_{count}", seconds, "s", f"prefill {run.prefill().prefill_s:.2f} s", None, ">= 0")
        run.free()


def growth_bytes(capture: bool) -> int:
    """Of this process, which should be a fresh one: resident memory over a prefill of LONG tokens and, if recorded, one whole map."""
    model()
    gc.collect()
    before = psutil.Process().memory_info().rss
    run = read(LONG, capture=capture)
    seen = run.attention(15, 4) if capture else None
    grown = psutil.Process().memory_info().rss - before
    assert seen is None or seen.shape == (LONG, LONG)
    return grown


def growth_elsewhere_bytes(capture: bool) -> int:
    program = f"import json; from tests.bench import attention_bench; print(json.dumps(attention_bench.growth_bytes({capture})))"
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, check=True, text=True)
    grown: int = json.loads(done.stdout.splitlines()[-1])
    return grown


def memory() -> Iterator[Figure]:
    """Growth of a process that records and looks over that of a bare prefill, in fresh processes, turn by turn."""
    pairs = [(growth_elsewhere_bytes(True), growth_elsewhere_bytes(False)) for _ in range(MEMORY_ROUNDS)]
    extra = statistics.median(with_ - without for with_, without in pairs)
    bare = statistics.median(without for _, without in pairs)
    yield Figure(f"look_memory_{LONG}", extra / 1e6, "MB", f"bare prefill grows by {bare / 1e6:.0f} MB", None, "<= 400")


def attention() -> Iterator[Figure]:
    yield from looks()
    yield from memory()
    yield from reread()
