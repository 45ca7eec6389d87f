"""Attention weights from queries and keys: the rows of a map, or one link in every head.

softmax(q·kᵀ·scaling) under the causal (and window) mask, in float32 (Vaswani et al., "Attention Is All You Need", 2017, section 3.2.1).
Knows one layer's queries and keys; does not know where they come from (engine.model.capture), other layers, or runs.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from engine.model.device import threads

ROWS_AT_ONCE = 64  # of a map; beside 8,192 keys that is 2 MB of scores


@dataclass(frozen=True, slots=True, eq=False)
class LayerStates:
    """`queries` [heads, n, head_dim], `keys` [kv_heads, n, head_dim]; row i is position i. `window`: in tokens; None: full attention.

    All is computed on one thread, because waiting for a second one after each small operator takes longer where others compute too
    (measured on two busy cores, 4,096 tokens, mean of 9 heads: 6.6 s with two threads, 0.4 s with one).
    """

    queries: torch.Tensor
    keys: torch.Tensor
    scaling: float
    window: int | None

    def add_map(self, total: torch.Tensor, head: int | None) -> None:
        """Add one head's map, or every head's (None), to `total` [rows, until]: the last `rows` of the first `until` positions.

        One head and one block of rows at a time, so that beside `total` only a block's scores are in memory. Whatever is asked for,
        blocks begin at multiples of ROWS_AT_ONCE and are computed whole: a product of another height or width may round differently,
        and a row must be the same number by number in every map that shows it.
        """
        rows, until = total.shape
        first = until - rows
        group = len(self.queries) // len(self.keys)
        with threads(1):
            for index in range(len(self.queries)) if head is None else (head,):
                columns = self.keys[index // group].float().T  # [head_dim, keys]
                for begin in range(first - first % ROWS_AT_ONCE, until, ROWS_AT_ONCE):
                    start, shares = self._block(index, columns, begin)
                    low, high = max(begin, first), min(begin + ROWS_AT_ONCE, until)
                    total[low - first : high - first, start:high] += shares[low - begin : high - begin, : high - start]

    def link(self, query: int, key: int) -> torch.Tensor:
        """[heads]: each head's weight from position `query` to position `key` ≤ query; exactly 0 where the window hides the key."""
        start = self._start(query)
        if key < start:
            return torch.zeros(len(self.queries), device=self.queries.device)
        with threads(1):
            grouped = self.queries[:, query].float().unflatten(0, (len(self.keys), -1))  # [kv_heads, group, head_dim]
            scores = grouped @ self.keys[:, start : query + 1].float().mT * self.scaling  # [kv_heads, group, keys]
            return scores.softmax(dim=-1)[..., key - start].flatten()

    def _start(self, query: int) -> int:
        """The first position that `query` sees."""
        return 0 if self.window is None else max(query - self.window + 1, 0)

    def _block(self, head: int, columns: torch.Tensor, begin: int) -> tuple[int, torch.Tensor]:
        """The first column that the block sees, and its shares [rows, columns] from there to the block's own end."""
        queries = self.queries[head, begin : begin + ROWS_AT_ONCE]
        end = begin + len(queries)
        start = self._start(begin)
        row = torch.arange(begin, end, device=queries.device)[:, None]
        column = torch.arange(start, end, device=queries.device)[None]
        hidden = column > row if self.window is None else (column > row) | (row - column >= self.window)
        scores = (queries.float() @ columns[:, start:end]).mul_(self.scaling)
        return start, scores.masked_fill_(hidden, float("-inf")).softmax(dim=-1)
