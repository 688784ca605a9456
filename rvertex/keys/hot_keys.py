"""Estimates which key has most of the rows that a vertex sends to the next stage.

A sample of the rows is counted, so the cost per row is about a nanosecond. It is only shown: no
output depends on it, and it is in no snapshot.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rstream.items.hashing import hash_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Rows of a batch that are counted, and most rows from one such batch to the next.
_SAMPLE_ROWS, _PAUSE_ROWS = 256, 1 << 18
#: With fewer rows in the sample no key is named. With more, old rows count half.
_NAMED_ROWS_MIN, _RECENT_ROWS = 128, 1 << 12
#: Keys whose rows are counted; a key with a larger share than 1 / this is never forgotten.
_KEYS_MAX = 64
_SHOWN_CHARACTERS = 80


class HotKeys:
    """The most frequent key of each set of key columns."""

    def __init__(self, keys: Sequence[tuple[str, ...]]) -> None:
        self._samples = {names: _Sample(names) for names in keys if names}
        self._rows, self._next_at = 0, 0
        #: The key with the largest share of the rows, as text, and its share; any thread reads it.
        self.hottest = ("", 0.0)

    def observe(self, events: pa.RecordBatch) -> None:
        """Count some rows of a batch, if it is time to."""
        if not self._samples or not events.num_rows:
            return
        self._rows += events.num_rows
        if self._rows < self._next_at:
            return
        self._next_at = self._rows + min(self._rows, _PAUSE_ROWS)
        step = max(events.num_rows // _SAMPLE_ROWS, 1)
        at = pa.array(np.arange(0, events.num_rows, step)[:_SAMPLE_ROWS])
        for sample in self._samples.values():
            sample.add([events.column(name).take(at) for name in sample.names])
        self.hottest = max((one.hottest() for one in self._samples.values()), key=itemgetter(1))


class _Sample:
    """Counts of the sampled rows by the hash of their key."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self._counts: dict[int, int] = {}
        self._rows = 0
        #: The last sample with each counted key, and its row there.
        self._keys: dict[int, tuple[list[pa.Array], int]] = {}

    def add(self, columns: list[pa.Array]) -> None:
        hashes, first, counts = np.unique(hash_rows(columns), return_index=True, return_counts=True)
        self._rows += len(columns[0])
        is_small = len(columns[0]) < _NAMED_ROWS_MIN
        places = {}
        for hash_, row, count in zip(hashes.tolist(), first.tolist(), counts.tolist(), strict=True):
            if count > 1 or is_small or hash_ in self._counts:  # most keys of a large one are rare
                self._counts[hash_] = self._counts.get(hash_, 0) + count
                places[hash_] = row
        if self._rows > _RECENT_ROWS:
            self._rows //= 2
            self._counts = {key: count // 2 for key, count in self._counts.items()}
        kept = sorted(self._counts.items(), key=itemgetter(1), reverse=True)[:_KEYS_MAX]
        self._counts = dict(kept)
        self._keys = {
            key: (columns, places[key]) if key in places else self._keys[key]
            for key in self._counts
        }

    def hottest(self) -> tuple[str, float]:
        if self._rows < _NAMED_ROWS_MIN or not self._counts:
            return "", 0.0
        hash_, count = max(self._counts.items(), key=itemgetter(1))
        columns, row = self._keys[hash_]
        values = zip(self.names, columns, strict=True)
        text = ", ".join(f"{name}={_shown(column[row])}" for name, column in values)
        return text[:_SHOWN_CHARACTERS], round(count / self._rows, 3)


def _shown(value: pa.Scalar) -> str:
    """Return a key value as text; times that Python cannot represent are their number."""
    try:
        return repr(value.as_py())
    except (ValueError, OverflowError, LookupError):
        return str(value.value)
