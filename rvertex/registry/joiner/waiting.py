"""Foreign rows that wait for their primary row, and when each is looked up again. Pure.

The pause between two lookups of a row doubles up to a limit. Source: Photon 3.2.1.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

_US_PER_S = 1e6


class Waiting:
    """Waiting rows in the order of their numbers in the foreign log."""

    def __init__(self, payload: pa.Schema, first_s: float, longest_s: float) -> None:
        self._first_us, self._longest_us = first_s * _US_PER_S, longest_s * _US_PER_S
        self.rows = pa.RecordBatch.from_pylist([], schema=payload)
        self.seqs = np.empty(0, np.int64)
        #: Whether the row was emitted as unjoinable.
        self.is_marked = np.empty(0, bool)
        self._lookups = np.empty(0, np.int64)
        self._due_us = np.empty(0, np.int64)

    def __len__(self) -> int:
        return len(self.seqs)

    def due(self, now_us: int, rows_max: int) -> np.ndarray:
        """Return the positions of at most ``rows_max`` due rows, the longest overdue, int64[n]."""
        at = np.flatnonzero(self._due_us <= now_us)
        if len(at) > rows_max:
            at = np.sort(at[np.argsort(self._due_us[at], kind="stable")[:rows_max]])
        return at

    def add(
        self, seqs: np.ndarray, rows: pa.RecordBatch, is_marked: np.ndarray, due_us: np.ndarray
    ) -> None:
        """Add rows with greater numbers that were not looked up yet; ``due_us``: int64[rows]."""
        if len(seqs):
            self.rows = pa.concat_batches([self.rows, rows])
            self.seqs = np.concatenate([self.seqs, seqs])
            self.is_marked = np.concatenate([self.is_marked, is_marked])
            self._lookups = np.concatenate([self._lookups, np.zeros(len(seqs), np.int64)])
            self._due_us = np.concatenate([self._due_us, due_us])

    def postpone(self, at: np.ndarray, now_us: int) -> None:
        """Postpone the next lookup of the rows at these positions, for which no row was found."""
        doublings = np.minimum(self._lookups[at], 40)
        pause_us = np.minimum(self._first_us * 2.0**doublings, self._longest_us)
        self._lookups[at] += 1
        self._due_us[at] = now_us + pause_us.astype(np.int64)

    def remove(self, at: np.ndarray) -> None:
        """Remove the rows at these positions, which no longer wait."""
        if len(at):
            kept = np.ones(len(self), bool)
            kept[at] = False
            self.rows = self.rows.filter(pa.array(kept))
            self.seqs, self.is_marked = self.seqs[kept], self.is_marked[kept]
            self._lookups, self._due_us = self._lookups[kept], self._due_us[kept]
