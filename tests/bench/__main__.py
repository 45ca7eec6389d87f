"""`python -m tests.bench [name …]`: runs the benchmarks and prints one JSON object per line. Exit code 1 if a target is missed."""

from __future__ import annotations

import sys

from tests.bench import (
    attention_bench,
    browser_bench,
    channel_bench,
    engine_bench,
    layer_bench,
    map_bench,
    marks_bench,
    parts_bench,
    soak_bench,
    start_bench,
)
from tests.bench.report import Benchmark

BENCHMARKS: dict[str, Benchmark] = {
    "tpot": engine_bench.tpot,
    "prefill": engine_bench.prefill,
    "recording": engine_bench.recording,
    "layers": layer_bench.layers,
    "parts": parts_bench.parts,
    "attention": attention_bench.attention,
    "channel": channel_bench.channel,
    "browser": browser_bench.browser,
    "soak": soak_bench.soak,
    "map": map_bench.attention_map,
    "marks": marks_bench.marks,
    "start": start_bench.start,
}


def main(names: list[str]) -> int:
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        print(f"no such benchmark: {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}", file=sys.stderr)
        return 2
    met = True
    for name in names or BENCHMARKS:
        for figure in BENCHMARKS[name]():
            print(figure.line(), flush=True)
            met = met and figure.met
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
