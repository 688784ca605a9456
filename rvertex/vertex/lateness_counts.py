"""Histogram of how late the rows of a source were, from which a sufficient delay is computed.

The lateness of a row is the greatest ``vs`` of the rows before it minus its own ``vs``. Rows are
counted in buckets (steps), each at most 1/32 of its lateness wide; the maximum is exact. With a
fixed delay, a row is kept if its lateness is at most the delay.

Invariants: (1) the counts follow from the rows alone, regardless of batch boundaries; (2) equal
counts have equal bytes; (3) there are at most 1,900 steps.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgpack
import numpy as np

#: Number of buckets per power of two.
_STEPS = 32
_POWERS = np.left_shift(np.int64(1), np.arange(63))


@dataclass(frozen=True, slots=True, eq=False)
class LatenessCounts:
    """Number of rows per bucket of lateness. Rows that are not late are not counted."""

    #: The greatest lateness, us; 0 without rows.
    max_us: int = 0
    #: Numbers of the non-empty buckets, int64[n], ascending; and the row count of each bucket.
    steps: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    rows: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))

    def adding(self, late_us: np.ndarray) -> LatenessCounts:
        """Return the counts with more rows, whose lateness is ``late_us`` int64[n]."""
        late_us = late_us[late_us > 0]
        if len(late_us) == 0:
            return self
        steps, rows = np.unique(_step(late_us), return_counts=True)
        return self.merged(LatenessCounts(int(late_us.max()), steps, rows.astype(np.int64)))

    def merged(self, other: LatenessCounts) -> LatenessCounts:
        """Return the sum of both histograms."""
        steps, at = np.unique(np.concatenate([self.steps, other.steps]), return_inverse=True)
        rows = np.zeros(len(steps), np.int64)
        np.add.at(rows, at, np.concatenate([self.rows, other.rows]))
        return LatenessCounts(max(self.max_us, other.max_us), steps, rows)

    def delay_for(self, late_max: int) -> int:
        """Return a delay, us, with which at most ``late_max`` of these rows are late.

        It is the upper bound of a bucket: the least such delay, or up to 1/32 more.
        """
        # Number of rows in this bucket or a later one
        behind = np.append(np.cumsum(self.rows[::-1])[::-1], 0)
        at = int((behind > late_max).sum())  # all rows of these buckets must be kept
        return min(_end(int(self.steps[at - 1])), self.max_us) if at else 0

    def below(self, late_us: int) -> LatenessCounts:
        """Return the counts of all buckets below the one that contains ``late_us``."""
        kept = self.steps < int(_step(np.array([late_us]))[0])
        steps = self.steps[kept]
        most = min(_end(int(steps[-1])), self.max_us) if len(steps) else 0
        return LatenessCounts(most, steps, self.rows[kept])

    def to_bytes(self) -> bytes:
        """Encode for states and messages; empty if there are no rows."""
        if len(self.steps) == 0:
            return b""
        packed: bytes = msgpack.packb([self.max_us, self.steps.tolist(), self.rows.tolist()])
        return packed

    @staticmethod
    def from_bytes(data: bytes) -> LatenessCounts:
        """Decode the result of :meth:`to_bytes`."""
        if not data:
            return LatenessCounts()
        max_us, steps, rows, *_ = msgpack.unpackb(data)
        return LatenessCounts(max_us, np.array(steps, np.int64), np.array(rows, np.int64))


def _step(late_us: np.ndarray) -> np.ndarray:
    """Return the bucket of each lateness. Below 64 us every lateness has a separate bucket."""
    shift = np.maximum(np.searchsorted(_POWERS, late_us, side="right") - 6, 0)
    step: np.ndarray = shift * _STEPS + (late_us >> shift)
    return step


def _end(step: int) -> int:
    """Return the greatest lateness of a bucket, us."""
    shift = max(step // _STEPS - 1, 0)
    return ((step - shift * _STEPS + 1) << shift) - 1
