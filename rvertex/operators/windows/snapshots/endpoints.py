"""The endpoints of lifetimes by key, and the snapshot windows that begin and end at them.

Endpoints up to the promise (no event before that time follows) are processed in one call; later
ends are buffered, sorted by time. Starts at the promise itself may arrive in several calls, ends at
it in the first call.

Invariants: (1) a key with ``alive`` > 0 events has one open window, which began at its last
endpoint; other keys have none; (2) a window that an event's end ends closes at that time. If only a
start ends it, it closes 1 us later; (3) the time is amortised linear in the endpoints processed,
with a logarithm for sorting.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rstream.items.batch import VS, int64_column
from rstream.types import INF_TIME, MIN_TIME
from rvertex.events.arrays import as_one_array, numbers
from rvertex.events.group_arrays import GroupArray
from rvertex.events.group_scan import heads_of, running_sum
from rvertex.events.reorder_buffer import SortedRuns

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rvertex.operators.windows.window_log import WindowLog

_CODE = "code"
_SCHEMA = pa.schema([(VS, pa.int64()), (_CODE, pa.int64())])


class Endpoints:
    """Stores, by key, its last endpoint, its open window and the number of live events."""

    def __init__(self, log: WindowLog) -> None:
        self._log = log
        self._last = GroupArray(np.int64, MIN_TIME)
        self._alive = GroupArray(np.int64, 0)
        self._window = GroupArray(np.int64, -1)
        self._ends = SortedRuns(_SCHEMA)

    @property
    def waiting(self) -> int:
        """Number of buffered ends."""
        return self._ends.rows

    def pass_until(
        self, promise: int, codes: np.ndarray, vs: np.ndarray, ve: np.ndarray, keys: int
    ) -> np.ndarray:
        """Add events and process all endpoints up to ``promise``; every ``vs`` is one of them.

        Returns the window that begins, or began, at each event's ``vs``.
        """
        self._ends.push(pa.RecordBatch.from_arrays([pa.array(ve), pa.array(codes)], schema=_SCHEMA))
        ended = self._ends.take_below(min(promise + 1, int(INF_TIME)))
        key = np.concatenate([codes, int64_column(ended, _CODE)])
        time = np.concatenate([vs, int64_column(ended, VS)])
        if len(key) == 0:
            return np.empty(0, np.int64)
        order = np.lexsort((time, key))
        key, time = key[order], time[order]
        heads = heads_of(key, time)
        is_end = order >= len(codes)
        first = np.flatnonzero(heads)
        change = np.add.reduceat(np.where(is_end, -1, 1), first)
        has_end = np.logical_or.reduceat(is_end, first)
        windows = self._move(key[first], time[first], change, has_end, keys)
        result = np.empty(len(key), np.int64)
        result[order] = windows[np.cumsum(heads) - 1]
        return result[: len(codes)]

    def forget(self) -> np.ndarray:
        """Drop the keys without live events; return the codes of the other keys, in order."""
        kept = np.flatnonzero(self._alive.read() > 0)
        renamed = np.full(len(self._alive), -1)
        renamed[kept] = np.arange(len(kept))
        for column in (self._last, self._alive, self._window):
            column.adopt(column.read()[kept])
        table, self._ends = self._ends.table(), SortedRuns(_SCHEMA)
        for batch in table.combine_chunks().to_batches():
            codes = renamed[int64_column(batch, _CODE)]
            columns = [batch.column(0), pa.array(codes)]
            self._ends.push(pa.RecordBatch.from_arrays(columns, schema=_SCHEMA))
        return kept

    def save(self) -> dict[str, pa.Table]:
        """Return the state, by reference."""
        columns = (self._last, self._alive, self._window)
        by_key = pa.table({f"c{i}": c.shared() for i, c in enumerate(columns)})
        return {"endpoints": by_key, "ends": self._ends.table()}

    def restore(self, tables: Mapping[str, pa.Table]) -> None:
        """Restore the state that ``save`` returned."""
        for i, column in enumerate((self._last, self._alive, self._window)):
            column.adopt(numbers(as_one_array(tables["endpoints"].column(i))))
        for batch in tables["ends"].combine_chunks().to_batches():
            self._ends.push(batch)

    def _move(
        self,
        key: np.ndarray,
        time: np.ndarray,
        change: np.ndarray,
        has_end: np.ndarray,
        keys: int,
    ) -> np.ndarray:
        """Process distinct endpoints, sorted by (key, time); return the open window after each."""
        last, alive = self._last.writable(keys), self._alive.writable(keys)
        window = self._window.writable(keys)
        heads = heads_of(key)
        now = alive[key] + running_sum(change, heads)
        before = now - change
        assert (now >= 0).all(), "more events ended than began"
        #: Whether the endpoint was processed in an earlier call. If so, only starts are added.
        again = heads & (time == last[key])
        opens = (now > 0) & ~(again & (before > 0))
        at = np.flatnonzero(opens)
        at = at[np.argsort(time[at], kind="stable")]
        current = np.where(now > 0, window[key], -1)
        current[at] = self._log.add(time[at])
        previous = np.concatenate([[-1], current[:-1]])
        previous = np.where(heads, window[key], previous)
        ends = (before > 0) & ~again
        self._log.set_ends(previous[ends], time[ends], np.where(has_end, time, time + 1)[ends])
        self._log.link(0, previous[ends], current[ends])
        self._link_chains(current, previous, opens, ends, heads)
        final = np.append(heads[1:], True)
        last[key[final]], alive[key[final]] = time[final], now[final]
        window[key[final]] = current[final]
        return current

    def _link_chains(
        self,
        current: np.ndarray,
        previous: np.ndarray,
        opens: np.ndarray,
        ends: np.ndarray,
        heads: np.ndarray,
    ) -> None:
        """Link each new window to the first window of its chain of windows without a gap."""
        first = np.where(opens, current, -1)
        follows = opens & ends
        carried = follows & heads
        first[carried] = self._log.links(1, previous[carried])
        stays = ~opens & (current >= 0)
        first[stays] = self._log.links(1, current[stays])
        begins = np.flatnonzero(~follows | heads)
        span = np.cumsum(~follows | heads) - 1
        self._log.link(1, current[opens], first[begins][span][opens])
