"""Estimates the delay of a source from its rows: a quantile of their lateness so far.

The lateness of a row is the greatest ``vs`` of the rows before it minus its own, at least 0; late
rows count too. Rows are divided into blocks of ``block_rows``. The delay for the rows of a block is
the quantile of the lateness of the rows in the ``blocks_max`` blocks before it, that is, the least
observed value that at least this share of these rows does not exceed. In the first block there is
no delay yet, so all rows are buffered.

Invariants: (1) the delay at row n is a function of rows 0..n alone, so it depends neither on batch
boundaries nor on a restore; (2) an estimate is immutable; (3) it stores at most ``block_rows *
(blocks_max + 1)`` numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil
from typing import Any

import numpy as np

from rstream.types import INF_TIME

BLOCK_ROWS = 1_024
BLOCKS_MAX = 16
#: No delay yet: buffer rows until the end of the block.
UNKNOWN = INF_TIME


def lateness(vs: np.ndarray, ahead: np.ndarray) -> np.ndarray:
    """Return the lateness of rows, us.

    ``ahead``: the greatest ``vs`` before each (MIN_TIME: none).
    """
    late = np.maximum(ahead, vs)
    # A difference of more than 2**63 would wrap around, so the greatest int64 is taken instead.
    apart = late.astype(np.uint64) - vs.astype(np.uint64)
    longest = np.uint64(INF_TIME - 1)
    late_us: np.ndarray = np.minimum(apart, longest).astype(np.int64)
    return late_us


@dataclass(frozen=True, slots=True)
class DelayEstimate:
    """The estimate before the next row, and the rows from which it is computed."""

    quantile: float
    block_rows: int = BLOCK_ROWS
    blocks_max: int = BLOCKS_MAX
    #: Lateness of the latest rows, us, as bytes of int64: whole blocks, then the incomplete block.
    recent: bytes = b""
    #: Number of rows of the incomplete block.
    rows_in_block: int = 0

    def __post_init__(self) -> None:
        assert 0 < self.quantile < 1, self.quantile
        assert 0 <= self.rows_in_block < self.block_rows, self.rows_in_block

    def observe(self, lateness: np.ndarray) -> tuple[np.ndarray, DelayEstimate]:
        """Return the delay for each of the next rows int64[n], and the estimate after them."""
        known = np.concatenate([np.frombuffer(self.recent, np.int64), lateness])
        first = len(known) - len(lateness)
        #: First rows of the incomplete block and of the blocks that start in these rows.
        starts = range(first - self.rows_in_block, len(known), self.block_rows)
        delays = np.empty(len(lateness), np.int64)
        for start in starts:
            delays[max(start - first, 0) : start - first + self.block_rows] = self._at(known, start)
        rows_in_block = (self.rows_in_block + len(lateness)) % self.block_rows
        kept = self.blocks_max * self.block_rows + rows_in_block
        recent = known[max(0, len(known) - kept) :].tobytes()
        return delays, replace(self, recent=recent, rows_in_block=rows_in_block)

    def _at(self, known: np.ndarray, start: int) -> int:
        """Return the delay of the block that starts at ``start`` of ``known``."""
        window = known[max(0, start - self.blocks_max * self.block_rows) : start]
        if len(window) == 0:
            return UNKNOWN
        place = ceil(self.quantile * len(window)) - 1
        return int(np.partition(window, place)[place])

    def header(self) -> dict[str, Any]:
        """Return its state for a snapshot."""
        return {"seen": self.recent, "rows_in_block": self.rows_in_block}

    def restored(self, header: dict[str, Any]) -> DelayEstimate:
        """Return the estimate with this state."""
        return replace(self, recent=header["seen"], rows_in_block=header["rows_in_block"])
