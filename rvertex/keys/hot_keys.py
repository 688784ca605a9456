"""Estimates which keys have the rows that a vertex sends to the next stage.

It counts a sample of the rows, so the cost per row is about a nanosecond. The result is only shown
to users: no output depends on it, and it is in no snapshot.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rstream.items.hashing import hash_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Most rows that are counted of a batch. Once a sample is full, about one row of the second number
#: is counted.
_SAMPLE_ROWS, _ROWS_PER_SAMPLED = 256, 1 << 10
#: A key is named only if the sample has this many rows. If it has the second number of rows, the
#: counts are halved, so that old rows weigh less.
NAMED_ROWS_MIN, _RECENT_ROWS = 128, 1 << 12
#: Most keys whose rows are counted. A key with more than 1/64 of the rows is never dropped.
_KEYS_MAX = 64
_SHOWN_CHARACTERS = 80
#: Number of slots that are reported; each stands for an equal share of the sample.
SLOTS_SHOWN = 64

#: Names of key columns, and sorted slots of their keys. Each slot stands for an equal share of the
#: rows.
SentSlots = tuple[tuple[str, ...], tuple[int, ...]]


class HotKeys:
    """The most frequent key of each set of key columns, and where its rows are by slot."""

    def __init__(self, keys: Sequence[tuple[tuple[str, ...], int]]) -> None:
        """Sample the rows by ``keys``: sets of columns, each with the number of receiving vertices.

        With a single receiver, no key is reported.
        """
        self._samples = {names: _Sample(names) for names, _ in keys if names}
        self._named = [names for names, vertices in keys if names and vertices > 1]
        self._rows = self._next_at = self._counted = 0
        #: The key with the largest share of the rows, as text, and its share; any thread reads it.
        self.hottest = ("", 0.0)
        #: By set of key columns, the slots of recent rows; any thread reads it.
        self.slots: tuple[SentSlots, ...] = ()

    def observe(self, events: pa.RecordBatch) -> None:
        """Count some rows of a batch if enough rows have passed since the last counted batch."""
        if not self._samples or not events.num_rows:
            return
        self._rows += events.num_rows
        if self._rows < self._next_at:
            return
        step = max(events.num_rows // _SAMPLE_ROWS, 1)
        at = pa.array(np.arange(0, events.num_rows, step)[:_SAMPLE_ROWS])
        self._counted += len(at)
        # All batches are counted at first: small ones would never fill a sample otherwise.
        if self._counted >= _RECENT_ROWS:
            self._next_at = self._rows + len(at) * _ROWS_PER_SAMPLED
        for sample in self._samples.values():
            sample.add([events.column(name).take(at) for name in sample.names])
        named = [self._samples[names].hottest() for names in self._named]
        self.hottest = max(named, key=itemgetter(1), default=self.hottest)
        self.slots = tuple((names, one.shown_slots()) for names, one in self._samples.items())


class _Sample:
    """Counts of the sampled rows by the hash of their key."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self._counts: dict[int, int] = {}
        self._rows = 0
        #: By hash of a counted key: the last sample with the key, and the key's row in that sample.
        self._keys: dict[int, tuple[list[pa.Array], int]] = {}
        self._slots = np.empty(0, np.int64)

    def add(self, columns: list[pa.Array]) -> None:
        of_rows = hash_rows(columns)
        slots = (of_rows >> np.uint64(32)).view(np.int64)
        self._slots = np.append(self._slots, slots)[-_RECENT_ROWS:]
        hashes, first, counts = np.unique(of_rows, return_index=True, return_counts=True)
        self._rows += len(columns[0])
        is_small = len(columns[0]) < NAMED_ROWS_MIN
        places = {}
        for hash_, row, count in zip(hashes.tolist(), first.tolist(), counts.tolist(), strict=True):
            # Most keys of a large sample are rare, so keys with one row are not added
            if count > 1 or is_small or hash_ in self._counts:
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

    def shown_slots(self) -> tuple[int, ...]:
        """Return the slots of sampled rows at equal distances.

        An empty tuple if there are too few rows.
        """
        rows = len(self._slots)
        if rows < NAMED_ROWS_MIN:
            return ()
        at = (2 * np.arange(SLOTS_SHOWN) + 1) * rows // (2 * SLOTS_SHOWN)
        return tuple(np.sort(self._slots)[at].tolist())

    def hottest(self) -> tuple[str, float]:
        if self._rows < NAMED_ROWS_MIN or not self._counts:
            return "", 0.0
        hash_, count = max(self._counts.items(), key=itemgetter(1))
        columns, row = self._keys[hash_]
        values = zip(self.names, columns, strict=True)
        text = ", ".join(f"{name}={_shown(column[row])}" for name, column in values)
        return text[:_SHOWN_CHARACTERS], round(count / self._rows, 3)


def _shown(value: pa.Scalar) -> str:
    """Return a key value as text. Times that Python cannot represent are shown as numbers."""
    try:
        return repr(value.as_py())
    except (ValueError, OverflowError, LookupError):
        return str(value.value)
