"""Estimates which keys have the rows that a vertex sends to the next stage.

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
#: Slots that stand for equal shares of the sample.
SLOTS_SHOWN = 64

#: Names of key columns, and sorted slots of their keys that stand for equal shares of the rows.
SentSlots = tuple[tuple[str, ...], tuple[int, ...]]


class HotKeys:
    """The most frequent key of each set of key columns, and where its rows are by slot."""

    def __init__(self, keys: Sequence[tuple[tuple[str, ...], int]]) -> None:
        """``keys``: columns, and to how many vertices their rows go; of one no key is named."""
        self._samples = {names: _Sample(names) for names, _ in keys if names}
        self._named = [names for names, vertices in keys if names and vertices > 1]
        self._rows, self._next_at = 0, 0
        #: The key with the largest share of the rows, as text, and its share; any thread reads it.
        self.hottest = ("", 0.0)
        #: By set of key columns, the slots of recent rows; any thread reads it.
        self.slots: tuple[SentSlots, ...] = ()

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
        named = [self._samples[names].hottest() for names in self._named]
        self.hottest = max(named, key=itemgetter(1), default=self.hottest)
        self.slots = tuple((names, one.shown_slots()) for names, one in self._samples.items())


class _Sample:
    """Counts of the sampled rows by the hash of their key."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self._counts: dict[int, int] = {}
        self._rows = 0
        #: The last sample with each counted key, and its row there.
        self._keys: dict[int, tuple[list[pa.Array], int]] = {}
        self._slots = np.empty(0, np.int64)

    def add(self, columns: list[pa.Array]) -> None:
        of_rows = hash_rows(columns)
        slots = (of_rows >> np.uint64(32)).view(np.int64)
        self._slots = np.append(self._slots, slots)[-_RECENT_ROWS:]
        hashes, first, counts = np.unique(of_rows, return_index=True, return_counts=True)
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

    def shown_slots(self) -> tuple[int, ...]:
        """Return slots of sampled rows at equal distances; none: too few rows."""
        rows = len(self._slots)
        if rows < _NAMED_ROWS_MIN:
            return ()
        at = (2 * np.arange(SLOTS_SHOWN) + 1) * rows // (2 * SLOTS_SHOWN)
        return tuple(np.sort(self._slots)[at].tolist())

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
