"""DEDUPLICATE: the first event of each key, and the next one after some time.

An event is kept unless a kept event of its key started less than ``within_us`` before it. That is
known when the event arrives, so no event is buffered. If the keys exceed the memory budget, all
keys move to a log on scratch files. Each batch looks its keys up in the log. A key moves back to
memory only if its time ends within the batch: until then all its events are dropped.

Invariants: (1) events keep their order and lifetimes, CTIs (watermarks) are unchanged; (2) a key is
removed when its time is over, because its next event is kept as for a new key; (3) a key is
in memory or in the log, never in both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa

from rstream.items.batch import VS, int64_column
from rstream.items.dictionaries import plain_array, plain_type
from rstream.types import INF_TIME, MIN_TIME
from rvertex.errors import UnknownColumnError
from rvertex.events.arrays import as_one_array, numbers
from rvertex.events.group_arrays import GroupArray
from rvertex.events.group_scan import heads_of
from rvertex.events.lifetime import lasting
from rvertex.events.run import Run
from rvertex.keys.key_table import KeyTable
from rvertex.operators.horizon import SameLifetimes
from rvertex.operators.protocol import OperatorState
from rvertex.state.memory import UNLIMITED, held_bytes
from rvertex.state.row_log import LOG, NUMBER, RowLog

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rvertex.operators.protocol import Operator
    from rvertex.state.memory import StateMemory


#: Most rounds, each of which handles one row of every key. Keys that have more rows are then
#: handled one by one.
ROUNDS_MAX = 32
#: Memory is measured again after this many new keys.
_MEASURED_KEYS = 1 << 12
_UNTIL = "until"


@dataclass(frozen=True, slots=True)
class Deduplicate(SameLifetimes):
    """Keeps one event per key in ``within_us`` (INF_TIME: one event forever).

    Null is a key, too.
    """

    holds_ctis: ClassVar[bool] = False

    keys: tuple[str, ...]
    within_us: int

    def output_schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        """Return the input's schema.

        Raises:
            UnknownColumnError: a key that the input does not have.
        """
        (payload,) = inputs
        for key in self.keys:
            if key not in payload.names:
                raise UnknownColumnError("deduplicate", key, tuple(payload.names))
        return payload

    def open(self, inputs: Sequence[pa.Schema]) -> Operator:
        """Return a new operator with empty state."""
        (payload,) = inputs
        types = tuple(plain_type(payload.field(key).type) for key in self.keys)
        return _Deduplicator(self, types)


class _Deduplicator:
    """The running operator of :class:`Deduplicate`."""

    #: See :mod:`rvertex.state.unverified`.
    verified_when_read: ClassVar = frozenset({f"{LOG}keys"})

    def __init__(self, spec: Deduplicate, types: tuple[pa.DataType, ...]) -> None:
        self._spec, self._types = spec, types
        self._keys = KeyTable(types)
        #: Number of dropped events.
        self.duplicates = 0
        #: By key: the time from which its next event is kept.
        self._free = GroupArray(np.int64, MIN_TIME)
        self._measured_keys = 0
        names = [f"key{i}" for i in range(len(types))]
        fields = [(NUMBER, pa.int64()), (_UNTIL, pa.int64()), *zip(names, types, strict=True)]
        self._logged, self._names = pa.schema(fields), names
        self.use_memory(UNLIMITED)

    def use_memory(self, memory: StateMemory) -> None:
        """Implement :class:`rvertex.state.memory.SpillsState`."""
        self._holder = memory.holder()
        self._log = RowLog(self._logged, self._names, _UNTIL, self._holder)

    def process(self, ports: Sequence[Run]) -> Run:
        """Emit the events that are kept."""
        (run,) = ports
        events = run.events
        if events.num_rows == 0:
            return run
        columns = [plain_array(events.column(key)) for key in self._spec.keys]
        times = int64_column(events, VS)
        kept = np.zeros(events.num_rows, bool)
        open_rows = np.arange(events.num_rows)
        if self._log.free_rows:
            open_rows = self._undecided(columns, int(times[-1]))
            columns = [column.take(pa.array(open_rows)) for column in columns]
        known = len(self._keys)
        codes = self._keys.codes(columns, len(open_rows))
        if self._log.free_rows and len(self._keys) > known:
            new = pa.array(np.flatnonzero(codes >= known))
            self._recall([column.take(new) for column in columns])
        kept[open_rows] = self._kept(codes, times[open_rows])
        self.duplicates += len(kept) - int(kept.sum())
        if self._keys.is_crowded():
            needed = np.flatnonzero(self._free.read() > times[-1])
            self._keys.keep(needed)
            self._free.adopt(self._free.read()[needed])
        self._fit_memory(int(times[-1]))
        return Run(events.filter(pa.array(kept)), run.ctis)

    def held_tables(self) -> dict[str, pa.Table]:
        """Return keys, and the time until which events of each key are dropped."""
        logged = self._log.current()
        rows = pa.Table.from_batches([*logged, self._rows(np.arange(len(self._keys)))])
        rows = rows.select([*self._names, _UNTIL])
        return {"keys": rows.rename_columns([*self._spec.keys, "until_us"])}

    def snapshot(self) -> OperatorState:
        """Return keys and the times until which their events are dropped, by reference."""
        tables = {**self._keys.save(), "free": pa.table({"t": self._free.shared()})}
        if self._log.free_rows:
            tables |= {LOG + name: table for name, table in self._log.save().items()}
        return OperatorState({"duplicates": self.duplicates}, tables)

    def load(self, state: OperatorState) -> None:
        """Restore ``state``."""
        self.duplicates = state.header.get("duplicates", 0)  # snapshots of old releases lack it
        self._keys.restore(state.tables)
        self._free.adopt(numbers(as_one_array(state.tables["free"].column(0))))
        if LOG + "keys" in state.tables:
            logged = {
                n.removeprefix(LOG): t for n, t in state.tables.items() if n[: len(LOG)] == LOG
            }
            self._log.load(logged)

    def _undecided(self, columns: list[pa.Array], last: int) -> np.ndarray:
        """Return the events that the log does not drop.

        Among them are events of keys in the log whose time ends by ``last``; other keys stay there.
        """
        in_memory = self._keys.find(columns, len(columns[0])) >= 0
        others = np.flatnonzero(~in_memory)
        until = self._log.look_up([c.take(pa.array(others)) for c in columns], _UNTIL, MIN_TIME)
        in_memory[others] = until <= last
        undecided: np.ndarray = np.flatnonzero(in_memory)
        return undecided

    def _recall(self, columns: list[pa.Array]) -> None:
        """Move keys from the log to memory, where they have codes already."""
        free = self._free.writable(len(self._keys))
        for rows in self._log.find(columns):
            keys = [rows.column(name) for name in self._names]
            free[self._keys.find(keys, rows.num_rows)] = rows.column(_UNTIL).to_numpy()
            self._log.append([], rows.column(NUMBER).to_numpy())

    def _fit_memory(self, now: int) -> None:
        """Move all keys to the log if they exceed the memory budget."""
        self._log.expire(now)
        grown = len(self._keys) - self._measured_keys
        if not self._holder.may_spill or not self._types or 0 <= grown < _MEASURED_KEYS:
            return
        self._measured_keys = len(self._keys)
        keys_bytes = held_bytes(self._keys, self._free.read())
        self._holder.used_bytes = self._log.memory_bytes + keys_bytes
        self._holder.keys = len(self._keys) + self._log.free_rows
        if keys_bytes < self._holder.run_bytes_min or not self._holder.must_spill:
            return
        needed = np.flatnonzero(self._free.read() > now)
        self._log.append([self._rows(needed)], (), held=False)
        self._log.release()
        self._keys, self._free = KeyTable(self._types), GroupArray(np.int64, MIN_TIME)
        self._measured_keys, self._holder.used_bytes = 0, self._log.memory_bytes

    def _rows(self, codes: np.ndarray) -> pa.RecordBatch:
        """Return the keys ``codes`` as rows of the log."""
        times = pa.array(self._free.read()[codes])
        seqs = pa.array(np.arange(len(codes)) + self._log.next_number)
        columns = [seqs, times, *self._keys.keys(codes)]
        return pa.RecordBatch.from_arrays(columns, schema=self._logged)

    def _kept(self, codes: np.ndarray, times: np.ndarray) -> np.ndarray:
        """Return which rows are kept.

        Some rounds handle the next row of every key, then key by key.
        """
        free = self._free.writable(len(self._keys))
        kept = np.zeros(len(codes), bool)
        left = np.argsort(codes, kind="stable")
        for _ in range(ROUNDS_MAX):
            left = left[times[left] >= free[codes[left]]]
            if len(left) == 0:
                return kept
            first = left[heads_of(codes[left])]
            kept[first] = True
            free[codes[first]] = lasting(times[first], self._spec.within_us)
            if self._spec.within_us == INF_TIME:
                return kept
        left = left[times[left] >= free[codes[left]]]
        starts = np.flatnonzero(heads_of(codes[left]))
        for rows in np.split(left, starts[1:]):
            self._walk(rows, codes, times, kept, free)
        return kept

    def _walk(
        self,
        rows: np.ndarray,
        codes: np.ndarray,
        times: np.ndarray,
        kept: np.ndarray,
        free: np.ndarray,
    ) -> None:
        """Keep the first row of one key, and then each next row that starts late enough."""
        ends = lasting(times[rows], self._spec.within_us)
        following = np.searchsorted(times[rows], ends).tolist()
        places: list[int] = []
        at = 0
        while at < len(following):  # ends: each round moves to a later row
            places.append(at)
            at = following[at]
        if places:
            kept[rows[places]] = True
            free[codes[rows[0]]] = ends[places[-1]]
