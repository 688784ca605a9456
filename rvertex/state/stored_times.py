"""Due times of the rows of a log.

An entry is a time and the number of a row. Entries are in runs sorted by time and are read once, in
order of time. An entry may outlive its row: then the log has no row with its number.

Invariant: ``take`` returns all entries up to the time that it returns. So a later call returns an
earlier time only if that entry was added in between.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rstream.types import INF_TIME

if TYPE_CHECKING:
    from collections.abc import Callable

    from rvertex.state.memory import Holder

_NAMES = ["time", "number"]
#: Most rows in a run that a merge makes.
_RUN_ROWS_MAX = 1 << 21
#: Number of entries that are looked up at once to find the first entry whose row exists.
_LOOKED = 256


class StoredTimes:
    """Entries by time; times are int64 and below INF_TIME."""

    def __init__(self, holder: Holder) -> None:
        self._holder = holder
        #: Per run: sorted times, and the row numbers.
        self._runs: list[tuple[np.ndarray, np.ndarray]] = []

    @property
    def memory_bytes(self) -> int:
        """Bytes in memory: small runs, or all runs if there is no budget."""
        nbytes = (times.nbytes + numbers.nbytes for times, numbers in self._runs)
        stored = self._holder.run_bytes_min if self._holder.may_spill else INF_TIME
        return sum(size for size in nbytes if size < stored)

    def add(self, times: np.ndarray, numbers: np.ndarray) -> None:
        """Add entries, int64[n] each."""
        if not len(times):
            return
        self._runs.append(self._run(times, numbers))
        while len(self._runs) > 1:
            before, last = self._runs[-2:]
            rows = len(before[0]) + len(last[0])
            if len(before[0]) > 2 * len(last[0]) or rows > _RUN_ROWS_MAX:
                return
            both = zip(before, last, strict=True)
            self._runs[-2:] = [self._run(*(np.concatenate(pair) for pair in both))]

    def next_at(self) -> int:
        """Return the least time; INF_TIME if there is none."""
        return min((int(times[0]) for times, _ in self._runs), default=INF_TIME)

    def least(self, has_row: Callable[[np.ndarray], np.ndarray]) -> int:
        """Return the least time of an entry whose row exists, and remove the entries before it.

        ``has_row`` maps row numbers to whether the row exists, bool[n].
        """
        runs = []
        for times, numbers in self._runs:
            at = 0
            while at < len(times) and not (there := has_row(numbers[at : at + _LOOKED])).any():
                at += _LOOKED
            if at < len(times):
                at += int(there.argmax())
                runs.append((times[at:], numbers[at:]))
        self._runs = runs
        return self.next_at()

    def take(self, until: int, rows_max: int) -> tuple[int, np.ndarray]:
        """Remove entries up to ``until``; return the time reached, and the entries' row numbers.

        If there are more than ``rows_max`` entries, the time reached is below ``until``. Entries of
        one time are removed together.
        """
        ends = [int(times.searchsorted(until, side="right")) for times, _ in self._runs]
        if sum(ends) > rows_max:
            first = [t[: min(end, rows_max)] for (t, _), end in zip(self._runs, ends, strict=True)]
            until = int(np.partition(np.concatenate(first), rows_max - 1)[rows_max - 1])
            ends = [int(times.searchsorted(until, side="right")) for times, _ in self._runs]
        pairs = list(zip(self._runs, ends, strict=True))
        due = [numbers[:end] for (_, numbers), end in pairs]
        left = [(times[end:], numbers[end:]) for (times, numbers), end in pairs]
        self._runs = [run for run in left if len(run[0])]
        return until, np.concatenate([np.empty(0, np.int64), *due])

    def _run(self, times: np.ndarray, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        order = np.argsort(times, kind="stable")
        times, numbers = times[order], numbers[order]
        if self._holder.may_spill and 2 * times.nbytes >= self._holder.run_bytes_min:
            columns = [pa.array(times), pa.array(numbers)]
            (stored,) = self._holder.store([pa.RecordBatch.from_arrays(columns, names=_NAMES)])
            return stored.column(0).to_numpy(), stored.column(1).to_numpy()
        return times, numbers
