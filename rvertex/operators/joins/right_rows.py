"""The right events of an as-of join that may be a match, by number, and the newest one of each key.

Over the memory budget the events of a ``backward`` join, which buffers no left events, move to a
log on scratch (:mod:`rvertex.state.row_log`), which is searched by key. An event whose key occurs
on the left is copied back to memory. The other joins buffer left events, which have numbers of
most events here. So they keep the numbers, and the rows are arrays that the vertex spills
(:mod:`rvertex.state.array_spill`).

Invariants: (1) if any event of a key is in memory, the newest one is. Then it is newer than those
in the log, or a copy of the newest; (2) the log's last event of a key is the newest one. Its other
events are dropped later; (3) numbers increase by one, until :meth:`keep` renumbers the events,
or :meth:`spill` moves all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rstream.items.batch import VS, int64_column
from rstream.items.dictionaries import is_dictionary, plain_array, plain_type
from rstream.types import INF_TIME
from rvertex.events.lifetime import after, lasting
from rvertex.keys.code_map import CodeMap
from rvertex.operators.joins.row_store import RowStore
from rvertex.state import row_log
from rvertex.state.row_log import LOG, NUMBER, RowLog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from rvertex.state.memory import StateMemory

#: Columns of the log: the payload's are numbered.
_COLUMN, _UNTIL = "c", "until"
_NONE = -1
#: Events that are converted at once.
_WRITTEN_ROWS = 1 << 17
#: Events of the log that are compared for each event that moves to it. With 1, the log has about
#: twice as many events as keys; a larger number saves disk and costs processor time.
_COMPARED = 1
#: Parts of the log are merged up to this size: it costs more to copy than to search a few parts.
_MERGED_ROWS = 1 << 18
#: Events to add before memory is measured again.
_MEASURED_ROWS = 1 << 12


class RightRows:
    """Events of ``schema`` with the key columns ``on``."""

    def __init__(
        self,
        schema: pa.Schema,
        on: Sequence[str],
        tolerance_us: int | None,
        memory: StateMemory,
        *,
        moves: bool,
    ) -> None:
        """Store no rows yet.

        Args:
            schema: The columns of the events.
            on: The key columns.
            tolerance_us: How long an event can be a match; None: forever.
            memory: The budget.
            moves: Whether :meth:`spill` may be called; if not, the vertex spills the rows.
        """
        self._schema, self._on, self._tolerance_us = schema, tuple(on), tolerance_us
        holder = memory.holder()
        #: None: :mod:`rvertex.state.array_spill` reports the memory of the rows instead.
        self._holder = holder if moves else None
        self._rows = RowStore(schema)
        self._last = CodeMap(np.int64, _NONE)
        self._measured_rows = self._measured_bytes = 0
        #: Numbers of events in memory that are also in the log.
        self._copies: list[np.ndarray] = []
        names = [log_column(schema, name) for name in schema.names]
        types = [plain_type(kind) for kind in schema.types]
        logged = [(NUMBER, pa.int64()), (_UNTIL, pa.int64()), *zip(names, types, strict=True)]
        self._logged = pa.schema(logged)
        keys = [log_column(schema, name) for name in self._on]
        self._log = RowLog(self._logged, keys, _UNTIL, holder, _MERGED_ROWS)

    def __len__(self) -> int:
        """Return the number of events in memory."""
        return len(self._rows)

    @property
    def has_log(self) -> bool:
        """Return whether events may be on scratch."""
        return self._log.free_rows > 0

    def add(self, rows: pa.RecordBatch, codes: np.ndarray) -> np.ndarray:
        """Append events, later than all others of their keys; return their numbers."""
        numbers = self._rows.add(rows)
        self._last.put(codes, numbers)
        return numbers

    def newest(self, codes: np.ndarray) -> np.ndarray:
        """Return the number of the newest event in memory of each key; negative: none."""
        return self._last.get(codes)

    def take(self, numbers: np.ndarray) -> pa.RecordBatch:
        """Return the events; all columns null for a negative number."""
        return self._rows.take(numbers, self._log.holder)

    def times(self, numbers: np.ndarray) -> np.ndarray:
        """Return the starts of events, none of whose numbers is negative."""
        return self._rows.times(numbers)

    def recall(
        self, columns: Sequence[pa.Array], codes_of: Callable[[pa.RecordBatch], np.ndarray]
    ) -> None:
        """Copy the events of these keys, which have none in memory, from the log to memory."""
        for logged, _ in self._log.newest(columns):
            rows = self._unlogged(logged)
            self._copies.append(self.add(rows, codes_of(rows)))

    def keep(self, needed: Iterable[np.ndarray], codes: int, frontier: int | None) -> np.ndarray:
        """Drop the events in memory that no left event can match; return the new numbers.

        Args:
            needed: The numbers of the matches of buffered left events.
            codes: The number of key codes.
            frontier: The least start of a later left event; None: it needs no earlier event.

        Returns:
            By old number; negative for a dropped event.
        """
        is_kept = np.zeros(len(self._rows), bool)
        last = self._possible(codes, frontier)
        is_kept[last[last >= 0]] = True
        for numbers in needed:
            is_kept[numbers] = True
        return self._only(is_kept, last)

    def _possible(self, codes: int, frontier: int | None) -> np.ndarray:
        """Return, by key code, the event that a later left event may match; negative: none."""
        last = self._last.get(np.arange(codes))
        if frontier is None:
            last[:] = _NONE
        else:
            there = np.flatnonzero(last >= 0)
            late = self._until(self._rows.times(last[there])) <= frontier
            last[there[late]] = _NONE
        return last

    # The log.

    @property
    def must_spill(self) -> bool:
        """Return whether all events have to move to the log."""
        if self._holder is None or not self._holder.may_spill:
            return False
        if not 0 <= len(self._rows) - self._measured_rows < _MEASURED_ROWS:
            self.measure()
        least = max(self._holder.run_bytes_min, 1)
        return self._measured_bytes >= least and self._holder.must_spill

    def measure(self) -> None:
        """Report the bytes in memory."""
        if self._holder is not None and self._holder.may_spill:
            self._measured_rows, self._measured_bytes = len(self._rows), self._rows.nbytes
            others = self._last.nbytes + self._log.memory_bytes
            self._holder.used_bytes = self._measured_bytes + others
            self._holder.keys = self._log.free_rows

    def expire(self, frontier: int) -> None:
        """Drop files of the log whose events are all too far from ``frontier``."""
        self._log.expire(frontier)

    def spill(self, codes: int, frontier: int) -> None:
        """Move all events that a later left event may match to the log, and drop the others.

        Arguments are as in :meth:`keep`; no event is needed by a buffered left event.
        """
        last = self._possible(codes, frontier)
        is_moved = np.zeros(len(self._rows), bool)
        is_moved[last[last >= 0]] = True
        for numbers in self._copies:
            is_moved[numbers] = False
        moved = np.flatnonzero(is_moved)
        self._log.release()  # new parts go to scratch piece by piece
        for lo in range(0, len(moved), row_log.PART_ROWS_MAX):
            self._append(moved[lo : lo + row_log.PART_ROWS_MAX])
        self._rows, self._last = RowStore(self._schema), CodeMap(np.int64, _NONE)
        self._copies = []
        self._log.drop_replaced(_COMPARED * len(moved))

    def _append(self, numbers: np.ndarray) -> None:
        """Write events to the log; they replace older ones of their keys."""
        batches = []
        first = self._log.next_number
        for lo in range(0, len(numbers), _WRITTEN_ROWS):
            rows = self._rows.take(numbers[lo : lo + _WRITTEN_ROWS])
            seqs = np.arange(first + lo, first + lo + rows.num_rows)
            until = self._until(int64_column(rows, VS))
            columns = [pa.array(seqs), pa.array(until), *map(plain_array, rows.columns)]
            batches.append(pa.RecordBatch.from_arrays(columns, schema=self._logged))
        self._log.append(batches, (), held=False)

    def _only(self, is_kept: np.ndarray, last: np.ndarray) -> np.ndarray:
        """Drop the other events in memory; ``last``: by code, the number of the newest event."""
        numbers: np.ndarray = np.where(is_kept, np.cumsum(is_kept) - 1, _NONE)
        rows = self._rows.only(is_kept, self._log.holder)
        copies = np.concatenate([np.empty(0, np.int64), *self._copies])
        self._copies = [numbers[copies[is_kept[copies]]]]
        self._rows, self._last = rows, CodeMap(np.int64, _NONE)
        there = np.flatnonzero(last >= 0)
        self._last.put(there, numbers[last[there]])
        return numbers

    def _until(self, starts: np.ndarray) -> np.ndarray:
        """Return the first start of a left event for which each event is too far."""
        if self._tolerance_us is None:
            return np.full(len(starts), INF_TIME)
        return after(lasting(starts, self._tolerance_us))

    def _unlogged(self, logged: pa.RecordBatch) -> pa.RecordBatch:
        columns = [
            column.dictionary_encode().cast(field.type) if is_dictionary(field.type) else column
            for column, field in zip(logged.columns[2:], self._schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def all_rows(self, frontier: int, codes_of: Callable[[pa.RecordBatch], np.ndarray]) -> pa.Table:
        """Return the events in memory, and in the log the possible matches of other keys.

        ``frontier``: as of :meth:`keep`. ``codes_of``: -1 for keys without a code.
        """
        batches = self._rows.table().to_batches()
        self._log.drop_replaced()
        for logged in self._log.current():
            rows = self._unlogged(logged)
            codes = codes_of(rows)
            is_last = logged.column(_UNTIL).to_numpy() > frontier
            known = np.flatnonzero(codes >= 0)
            is_last[known] &= self.newest(codes[known]) < 0
            batches.append(rows.filter(pa.array(is_last)))
        return pa.Table.from_batches(batches, self._schema)

    def tables(self) -> dict[str, pa.Table]:
        """Return all events, by reference: those in memory as ``matches``, and the log."""
        tables = {"matches": self._rows.table()}
        if self.has_log:
            tables |= {LOG + name: table for name, table in self._log.save().items()}
        return tables

    def load_log(self, tables: Mapping[str, pa.Table]) -> None:
        """Restore the log of :meth:`tables`, if it has one."""
        if LOG + "keys" in tables:
            parts = {n.removeprefix(LOG): t for n, t in tables.items() if n.startswith(LOG)}
            self._log.load(parts)


def log_column(schema: pa.Schema, name: str) -> str:
    """Return the name that the log gives to a column of ``schema``."""
    return f"{_COLUMN}{schema.names.index(name)}"
