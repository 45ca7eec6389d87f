"""The merge rules of byte-pair encoding, as arrays: which pair of pieces is joined first, and what it becomes.

Source: Sennrich et al., "Neural Machine Translation of Rare Words with Subword Units" (2016), in the form of a tokenizer file.
Knows the model part of that file; does not know texts, words or bytes (engine.generate.merges does).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True, eq=False)
class MergeRules:
    """All rules of one tokenizer. As arrays, because a large vocabulary has half a million of them.

    keys: int64 [rules], sorted: id of the left piece · 2³² + id of the right one; ranks, merged: int32 [rules], in the same order.
    """

    keys: np.ndarray
    ranks: np.ndarray
    merged: np.ndarray
    unknown: int | None
    fuse_unknown: bool
    byte_fallback: bool
    ignore_merges: bool

    def best(self, ids: list[int]) -> tuple[int, int, int] | None:
        """(rank, index of the left piece, id of the merged one) of the pair to be joined next: lowest rank, then leftmost."""
        row = np.asarray(ids, dtype=np.int64)
        pairs = (row[:-1] << 32) | row[1:]
        places = np.searchsorted(self.keys, pairs, side="right") - 1  # the last of equal rules counts, as in the tokenizer's own table
        known = np.flatnonzero((places >= 0) & (self.keys[places] == pairs)) if len(self.keys) else places[:0]
        if not len(known):
            return None
        at = int(known[self.ranks[places[known]].argmin()])
        return int(self.ranks[places[at]]), at, int(self.merged[places[at]])


def rules_of(model: dict[str, Any]) -> MergeRules | None:
    """The rules in the model part of a tokenizer file; None: it does no byte-pair encoding."""
    if model["type"] != "BPE":
        return None
    vocab: dict[str, int] = model["vocab"]
    prefix = len(model.get("continuing_subword_prefix") or "")
    pairs = [merge.split(" ") if isinstance(merge, str) else merge for merge in model["merges"]]
    keys = np.array([(vocab[left] << 32) | vocab[right] for left, right in pairs], dtype=np.int64)
    merged = np.array([vocab[left + right[prefix:]] for left, right in pairs], dtype=np.int32)
    order = np.argsort(keys, kind="stable")
    return MergeRules(
        keys=keys[order],
        ranks=order.astype(np.int32),
        merged=merged[order],
        unknown=vocab.get(model.get("unk_token") or ""),
        fuse_unknown=bool(model.get("fuse_unk")),
        byte_fallback=bool(model.get("byte_fallback")),
        ignore_merges=bool(model.get("ignore_merges")),
    )
