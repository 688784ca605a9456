"""Due times of the rows of a log.

An entry is a time and the number of a row. Entries are in runs sorted by time and are read once, in
order of time. An entry may outlive its row: then the log has no row with its number.

Invariants: (1) ``take`` returns all entries up to the time that it returns. So a later call returns
an earlier time only if that entry was added in between. (2) A run's rows never change, so a
snapshot shares them. A restored run is read, and verified, when its first time is reached.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rstream.types import INF_TIME

if TYPE_CHECKING:
    from collections.abc import Callable

    from rvertex.state.memory import Holder

#: Names of the saved tables.
TIMES, RUNS = "times", "time_runs"
_SCHEMA = pa.schema([("time", pa.int64()), ("number", pa.int64())])
#: Most rows in a run that a merge makes.
_RUN_ROWS_MAX = 1 << 21
#: A restored run has at most this many rows, because it is read as a whole.
_SAVED_ROWS_MAX = 1 << 18
#: Most entries that are looked up at once to find the first entry whose row exists.
_LOOKED = 256


@dataclass(frozen=True, slots=True)
class _Run:
    """Entries sorted by time. No time is before ``first``, which is known without reading them."""

    first: int
    rows: pa.RecordBatch

    @property
    def columns(self) -> tuple[np.ndarray, np.ndarray]:
        """The times, and the numbers of the rows."""
        return self.rows.column(0).to_numpy(), self.rows.column(1).to_numpy()

    def after(self, at: int) -> _Run:
        """Return the entries from ``at`` on, of which there is one."""
        return _Run(self.rows.column(0)[at].as_py(), self.rows.slice(at))


class StoredTimes:
    """Entries by time; times are int64 and below INF_TIME."""

    def __init__(self, holder: Holder) -> None:
        self._holder = holder
        #: In the order in which they were added: long runs first, as merges leave them.
        self._runs: list[_Run] = []

    def __len__(self) -> int:
        return sum(run.rows.num_rows for run in self._runs)

    @property
    def memory_bytes(self) -> int:
        """Bytes in memory: small runs, or all runs if there is no budget."""
        stored = self._holder.run_bytes_min if self._holder.may_spill else INF_TIME
        sizes = (run.rows.nbytes for run in self._runs)
        return sum(size for size in sizes if size < stored)

    def add(self, times: np.ndarray, numbers: np.ndarray) -> None:
        """Add entries, int64[n] each."""
        if not len(times):
            return
        self._runs.append(self._run(times, numbers))
        while len(self._runs) > 1:
            before, last = self._runs[-2:]
            rows = before.rows.num_rows + last.rows.num_rows
            if before.rows.num_rows > 2 * last.rows.num_rows or rows > _RUN_ROWS_MAX:
                return
            both = zip(self._read(before), self._read(last), strict=True)
            self._runs[-2:] = [self._run(*map(np.concatenate, both))]

    def next_at(self) -> int:
        """Return a lower bound of all times; INF_TIME if there is no entry."""
        return min((run.first for run in self._runs), default=INF_TIME)

    def least(self, has_row: Callable[[np.ndarray], np.ndarray]) -> int:
        """Return the least time of an entry whose row exists, and remove entries before it.

        ``has_row`` maps row numbers to whether the row exists, bool[n].
        """
        left: list[_Run | None] = [*self._runs]
        least: int = INF_TIME
        for k in sorted(range(len(left)), key=lambda k: self._runs[k].first):
            run = self._runs[k]
            if run.first >= least:
                break
            times, numbers = self._read(run)
            at, looked = 0, 1
            while at < len(times) and not (there := has_row(numbers[at : at + looked])).any():
                at, looked = at + looked, min(2 * looked, _LOOKED)
            if at < len(times):
                left[k] = run = run.after(at + int(there.argmax()))
                least = min(least, run.first)
            else:
                left[k] = None
        self._runs = [run for run in left if run is not None]
        return least

    def take(self, until: int, rows_max: int) -> tuple[int, np.ndarray]:
        """Remove entries up to ``until``; return the time reached, and the entries' row numbers.

        If there are more than ``rows_max`` entries, the time reached is below ``until``. Entries of
        one time are removed together.
        """
        begun = [k for k, run in enumerate(self._runs) if run.first <= until]
        pairs = [self._read(self._runs[k]) for k in begun]
        ends = [int(times.searchsorted(until, side="right")) for times, _ in pairs]
        if sum(ends) > rows_max:
            first = [t[: min(end, rows_max)] for (t, _), end in zip(pairs, ends, strict=True)]
            until = int(np.partition(np.concatenate(first), rows_max - 1)[rows_max - 1])
            ends = [int(times.searchsorted(until, side="right")) for times, _ in pairs]
        due = [numbers[:end] for (_, numbers), end in zip(pairs, ends, strict=True)]
        taken = dict(zip(begun, ends, strict=True))
        pairs_left = ((run, taken.get(k)) for k, run in enumerate(self._runs))
        self._runs = [
            run if end is None else run.after(end)
            for run, end in pairs_left
            if end is None or end < run.rows.num_rows
        ]
        return until, np.concatenate([np.empty(0, np.int64), *due])

    def copy(self) -> StoredTimes:
        """Return the same entries; they share their data."""
        other = StoredTimes(self._holder)
        other._runs = list(self._runs)
        return other

    def save(self) -> dict[str, pa.Table]:
        """Return all entries by reference, and the first time of each run."""
        runs = [
            _Run(run.first if lo == 0 else run.rows.column(0)[lo].as_py(), rows)
            for run in self._runs
            for lo in range(0, run.rows.num_rows, _SAVED_ROWS_MAX)
            for rows in [run.rows.slice(lo, _SAVED_ROWS_MAX)]
        ]
        firsts = pa.array([run.first for run in runs], pa.int64())
        counts = pa.array([run.rows.num_rows for run in runs], pa.int64())
        entries = pa.Table.from_batches([run.rows for run in runs], _SCHEMA)
        return {TIMES: entries, RUNS: pa.table({"first": firsts, "rows": counts})}

    def load(self, entries: pa.Table, runs: pa.Table) -> None:
        """Restore the tables that ``save`` returned, without reading an entry."""
        at = 0
        for run in runs.to_pylist():
            batches = entries.slice(at, run["rows"]).to_batches()
            self._runs += [_Run(run["first"], rows) for rows in batches if rows.num_rows]
            at += run["rows"]

    def _read(self, run: _Run) -> tuple[np.ndarray, np.ndarray]:
        self._holder.verify(run.rows)
        return run.columns

    def _run(self, times: np.ndarray, numbers: np.ndarray) -> _Run:
        order = np.argsort(times, kind="stable")
        columns = [pa.array(times[order]), pa.array(numbers[order])]
        rows = pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)
        first = int(times[order[0]])
        if self._holder.may_spill and rows.nbytes >= self._holder.run_bytes_min:
            (rows,) = self._holder.store([rows])
        return _Run(first, rows)
