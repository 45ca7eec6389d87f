"""Attention of the real SmolLM2 in float32, every layer and head, against eager attention; the links of the lesson on "it"."""

from __future__ import annotations

import numpy as np
import pytest

from engine import LoadedModel, Run, RunSettings
from tests.prompts import prompt_of
from tests.reference import eager_attention, ids_of


@pytest.mark.parametrize("tokens", [24, 300])
def test_every_map_equals_eager_attention(smollm2: LoadedModel, tokens: int) -> None:
    settings = RunSettings(max_new_tokens=5, use_chat_template=False, ignore_eos=True)
    run = Run(smollm2, prompt_of(smollm2, tokens), settings)
    prompt = run.prefill().prompt_tokens
    list(run.decode())
    ids = ids_of(run.tokens) + ids_of(run.record().generated)[:-1]
    eager = eager_attention(smollm2, ids)
    assert prompt == tokens
    for layer in range(30):
        for head in range(9):
            seen = run.attention(layer, head)
            assert seen.shape == (tokens + 4, tokens + 4)
            assert np.abs(seen - eager[layer, head]).max() <= 1e-5
            assert np.allclose(seen.sum(1), 1, atol=1e-5)
            assert not np.triu(seen, 1).any()
        assert np.abs(run.attention(layer) - eager[layer].mean(0)).max() <= 1e-5


def test_memory_of_recording_grows_with_n(smollm2: LoadedModel) -> None:
    """30 layers · 9 heads · 64 · 4 bytes = 69,120 B a token in float32: at 1,024 tokens 71 MB, in bfloat16 35 MB; n² would be 1.1 GB."""
    run = Run(smollm2, prompt_of(smollm2, 128), RunSettings(max_new_tokens=2, use_chat_template=False, ignore_eos=True))
    assert run.prefill().recorded_bytes == 128 * 69_120
    assert [step.recorded_bytes for step in run.decode()] == [129 * 69_120]


ROLLED = "The cat put the orange on the table, but it rolled off"
BROKE = "The cat put the orange on the table, but it wobbled and broke"


def read_once(model: LoadedModel, text: str, **settings: int) -> tuple[Run, dict[bytes, int]]:
    """The run of a raw text, and where each of its words stands."""
    run = Run(model, text, RunSettings(max_new_tokens=1, use_chat_template=False, **settings))
    run.prefill()
    return run, {token.raw: token.position for token in run.tokens}


def strongest(weights: np.ndarray) -> tuple[int, int]:
    layer, head = np.unravel_index(weights.argmax(), weights.shape)
    return int(layer), int(head)


@pytest.mark.parametrize("limit_bytes", [192 * 1024**2, 0], ids=["kept", "read once more"])
@pytest.mark.parametrize(
    ("text", "query", "key", "weight", "place"),
    [
        (ROLLED, b" it", b" orange", 0.335, (25, 2)),
        (ROLLED, b" it", b" table", 0.378, (27, 2)),
        (BROKE, b" it", b" orange", 0.335, (25, 2)),
        (BROKE, b" it", b" table", 0.378, (27, 2)),
        (ROLLED, b" rolled", b" orange", 0.376, None),
        (ROLLED, b" rolled", b" table", 0.222, None),
        (BROKE, b" broke", b" orange", 0.195, None),
        (BROKE, b" broke", b" table", 0.404, None),
    ],
)
def test_the_strongest_links_of_the_lesson(
    smollm2: LoadedModel, limit_bytes: int, text: str, query: bytes, key: bytes, weight: float, place: tuple[int, int] | None
) -> None:
    run, at = read_once(smollm2, text, recording_limit_bytes=limit_bytes)
    seen = run.links(at[query], at[key])
    eager = eager_attention(smollm2, ids_of(run.tokens))[:, :, at[query], at[key]]
    assert seen.shape == (30, 9)
    assert np.abs(seen - eager).max() <= 1e-5
    assert (-seen).argsort(axis=None)[:10].tolist() == (-eager).argsort(axis=None)[:10].tolist()
    assert round(float(seen.max()), 3) == weight
    assert place in (None, strongest(seen))


def test_what_follows_changes_no_row_before_it(smollm2: LoadedModel) -> None:
    rolled, at = read_once(smollm2, ROLLED)
    broke, _ = read_once(smollm2, BROKE)
    until = at[b" it"] + 1
    assert ids_of(rolled.tokens)[:until] == ids_of(broke.tokens)[:until] != ids_of(rolled.tokens)
    for layer in range(30):
        for head in (None, 2):
            one, other = (run.attention(layer, head, rows=1, until=until) for run in (rolled, broke))
            assert np.abs(one - other).max() <= 1e-5


def test_a_prompt_beyond_the_limit_is_read_once_more(smollm2: LoadedModel) -> None:
    settings = RunSettings(max_new_tokens=4, use_chat_template=False, ignore_eos=True, recording_limit_bytes=101 * 69_120)
    run = Run(smollm2, prompt_of(smollm2, 100), settings)
    assert run.prefill().recorded_bytes == 100 * 69_120
    assert [step.recorded_bytes for step in run.decode()] == [101 * 69_120, 0, 0]
    eager = eager_attention(smollm2, ids_of(run.tokens) + ids_of(run.record().generated)[:-1])
    for layer in (0, 14, 29):
        assert np.abs(run.attention(layer, 4) - eager[layer, 4]).max() <= 1e-5
    assert np.abs(run.attention(None) - eager.mean((0, 1))).max() <= 1e-5
    assert np.abs(run.links(102, 50) - eager[:, :, 102, 50]).max() <= 1e-5
