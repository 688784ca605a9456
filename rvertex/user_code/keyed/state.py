"""The state of all keys of a keyed process: one slot per key, and a log of changes for snapshots.

Theory of operation. A changed slot is put on a list once. When CHANGED_MAX slots have changed, or
for a snapshot, their fields are copied, column by column, to the end of a log
(:mod:`rvertex.state.row_log`), where the new rows replace the slots' older rows. So a snapshot
writes at most one batch, for any number of keys. A key that was created and removed between two
writes has no row.

When the memory budget is exceeded, and after a restore with many keys, a slot may exist only as a
row of the log: it is *stored*. Before a batch of events or of due timers, the slots of its keys are
loaded from their rows (``recall``). Between two batches all slots can be dropped from memory
(``spill``).

Invariants: (1) the state of a slot is its row in the log, or the defaults if it has no row
(``_row`` is -1), unless it is listed as changed; (2) a slot that equals a new slot is removed when
its change is written, or earlier, and its object is reused for another key; (3) tables that a
snapshot returned never change; (4) a key has a slot in memory or is stored, never both; (5) every
stored slot with a timer has an entry in ``_stored_timers`` at its least time; (6) unless it is
None, ``_logged_timers`` has such an entry for each row of the log. A snapshot saves these, so that
a restore with many keys reads no row.
"""

from __future__ import annotations

from sys import getsizeof
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rstream.types import INF_TIME
from rvertex.state import stored_times
from rvertex.state.memory import UNLIMITED
from rvertex.state.row_log import NUMBER, RowLog
from rvertex.state.stored_times import StoredTimes
from rvertex.user_code.keyed.state_table import TIMERS, TIMES
from rvertex.user_code.keyed.timers import TimerQueue, timers_of
from rvertex.user_code.plain_values import plain_keys, raw_column, raw_list

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rvertex.state.memory import StateMemory
    from rvertex.user_code.keyed.state_fields import SlotCode

#: When this many keys have changed, they are written to the log without waiting for a snapshot.
CHANGED_MAX = 1 << 17
#: Most objects of removed keys that are kept for reuse.
_SPARE_MAX = 1 << 17
#: Number of slots that are written together. They stay in the processor's cache from one column to
#: the next, although the objects are scattered in memory.
_PIECE = 1 << 12
#: A restored state with more keys than this loads each slot only when its key occurs.
LOADED_MAX = 1 << 17
#: Most timers that are due at once and whose slots are loaded together.
DUE_MAX = 1 << 16
#: Number of slots sampled for their size; and bytes per slot in dictionary, queue and log.
_MEASURED = 64
_SLOT_BYTES = 150
_TIMER_TYPES = {TIMERS: pa.list_(pa.string()), TIMES: pa.list_(pa.int64())}


class KeyedState:
    """Slots by key. A key of one column is its value, a key of several columns is a tuple.

    The lists and the dictionary are never replaced, because the compiled event loop refers to them.
    """

    def __init__(
        self, code: SlotCode, key_types: Sequence[pa.DataType], timers: TimerQueue
    ) -> None:
        self._code = code
        self._key_types = list(key_types)
        self._timers = timers
        self.slots: dict[Any, Any] = {}
        #: Slots that changed since the log was written.
        self.changed: list[Any] = []
        #: Log rows of removed slots.
        self.gone: list[int] = []
        #: Objects of removed keys, for reuse. Everything except ``_key`` equals a new slot.
        self.spare: list[Any] = []
        #: Whether a row of the log may have a timer; if not, a restore reads no row for timers.
        self.is_timed = False
        fields = [(f"key{i}", kind) for i, kind in enumerate(self._key_types)]
        fields += [(f"field {f.name}", f.type) for f in code.fields]
        self._schema = pa.schema([(NUMBER, pa.int64()), *_TIMER_TYPES.items(), *fields])
        self.use_memory(UNLIMITED)

    def __len__(self) -> int:
        return len(self.slots) + self._log.free_rows

    def use_memory(self, memory: StateMemory) -> None:
        """Set the memory budget. Call it before the first key."""
        self._holder = memory.holder()
        keys = [f"key{i}" for i in range(len(self._key_types))]
        self._log = RowLog(self._schema, keys, holder=self._holder)
        self._stored_timers = StoredTimes(self._holder)
        #: None: there were never more than LOADED_MAX keys.
        self._logged_timers: StoredTimes | None = None
        self._slot_bytes = _SLOT_BYTES

    def recall(self, keys: Sequence[pa.Array]) -> None:
        """Load the stored slots of these keys. Without key columns no slot is ever stored."""
        for rows in self._log.find(keys) if keys else ():
            self._load_rows(rows)

    def recall_due(self, until: int) -> tuple[int, bool]:
        """Load stored slots with due timers; return until when, and whether any timer was due."""
        if self._stored_timers.next_at() > until:
            return until, False
        until, numbers = self._stored_timers.take(until, DUE_MAX)
        for rows in self._log.take(numbers):
            self._load_rows(rows)
        return until, True

    def next_timer_at(self) -> int:
        """Return a lower bound of the times of all timers; INF_TIME if there is none."""
        return min(self._timers.next_at(), self._stored_timers.next_at())

    def least_timer(self) -> int:
        """Return the exact least time of all timers, which spills do not change."""
        return min(self._timers.least(), self._stored_timers.least(self._log.free_among))

    def fit_memory(self) -> bool:
        """Drop all slots from memory if they exceed the budget.

        Return whether they were dropped.
        """
        if not self._holder.may_spill or not self._key_types:
            return False
        held = len(self.slots) * self._slot_bytes
        self._holder.used_bytes, self._holder.keys = self._stored_bytes + held, len(self)
        if held < self._holder.run_bytes_min or not self._holder.must_spill:
            return False
        self.spill()
        self._holder.note_freed(held)
        self._holder.used_bytes = self._stored_bytes
        return True

    def spill(self) -> None:
        """Drop all slots from memory, after their changes were written to the log."""
        written = self._changes()
        waiting = [slot for slot in self.slots.values() if slot._next_at != INF_TIME]
        times = np.array([slot._next_at for slot in waiting], np.int64)
        self._stored_timers.add(times, np.array([slot._row for slot in waiting], np.int64))
        del waiting
        self.slots.clear()
        self.spare.clear()
        self._timers.clear()
        self._log.append(*written)  # may merge, for which the clears make room
        self._log.release()
        if self._has_old(self._stored_timers):
            self._stored_timers = self._timers_of_log()

    def rows(self) -> pa.Table:
        """Return a table with a row per key; columns ``key0, ...`` and ``field NAME``."""
        self._write()
        return pa.Table.from_batches(self._log.current(), self._schema)

    def note(self, slot: Any) -> None:
        """Record that a key's object changes. Called before its first change after a write."""
        slot._is_dirty = True
        self.changed.append(slot)

    def flush_pending(self) -> None:
        """Write the changes to the log if there are many. Called between steps."""
        if len(self.changed) >= CHANGED_MAX or len(self.gone) >= CHANGED_MAX:
            self._write()

    def key_columns(self, keys: list[Any]) -> list[pa.Array]:
        """Return keys as one array per key column."""
        columns = [keys] if len(self._key_types) == 1 else list(zip(*keys, strict=True))
        if not keys:
            return [pa.nulls(0, kind) for kind in self._key_types]
        pairs = zip(columns, self._key_types, strict=True)
        return [raw_column(list(values), kind) for values, kind in pairs]

    def save(self) -> dict[str, pa.Table]:
        """Write all changes to the log, and return its tables by reference."""
        self._write()
        timers = {} if self._logged_timers is None else self._logged_timers.save()
        return {**self._log.save(), **timers}

    def load(self, tables: Mapping[str, pa.Table], *, is_timed: bool = True) -> None:
        """Restore the tables that ``save`` returned. Call it only on a new state."""
        assert not self.slots, len(self.slots)
        self._log.load(tables)
        self.is_timed = is_timed
        if not self._key_types or self._log.free_rows <= LOADED_MAX:
            for rows in self._log.take_all():
                self._load_rows(rows)
        elif stored_times.TIMES in tables:
            self._stored_timers.load(tables[stored_times.TIMES], tables[stored_times.RUNS])
            self._logged_timers = self._stored_timers.copy()
        else:  # a checkpoint without timers, which older releases wrote, or part of one
            self._stored_timers = self._timers_of_log()
            self._logged_timers = self._stored_timers.copy()

    def _load_rows(self, batch: pa.RecordBatch) -> None:
        keys = [plain_keys(batch.column(f"key{i}")) for i in range(len(self._key_types))]
        make = self._code.make
        made = [make(key) for key in (keys[0] if len(keys) == 1 else zip(*keys, strict=True))]
        for slot, number in zip(made, raw_list(batch.column(NUMBER)), strict=True):
            slot._row = number
            self.slots[slot._key] = slot
        for field in self._code.fields:
            name = field.name
            values = raw_list(batch.column(f"field {name}"))
            for slot, value in zip(made, values, strict=True):
                setattr(slot, name, value)
        counts = pc.list_value_length(batch.column(TIMERS)).to_numpy()
        owners = np.repeat(np.arange(len(made)), counts).tolist()
        names = raw_list(pc.list_flatten(batch.column(TIMERS)))
        times = raw_list(pc.list_flatten(batch.column(TIMES)))
        for owner, name, at in zip(owners, names, times, strict=True):
            self._timers.set(made[owner], at, name)

    @property
    def _stored_bytes(self) -> int:
        """Bytes in memory, without slots."""
        timers = (self._stored_timers, self._logged_timers)
        return self._log.memory_bytes + sum(t.memory_bytes for t in timers if t is not None)

    def _timers_of_log(self) -> StoredTimes:
        """Return an entry for each row of the log that has timers; reads all rows."""
        timers = StoredTimes(self._holder)
        pairs = self._log.masked([NUMBER, TIMES]) if self.is_timed else ()
        for rows, is_current in self._holder.read_once(pairs):
            timers.add(*_least_timers(rows, is_current))
        return timers

    def _has_old(self, timers: StoredTimes) -> bool:
        """Return whether most entries may be of rows that were replaced."""
        return len(timers) > 2 * len(self) + LOADED_MAX

    def _log_timers(self, batches: list[pa.RecordBatch]) -> None:
        """Note the timers of rows that are about to be written, if a restore will not load all."""
        logged = self._logged_timers
        if len(self) > LOADED_MAX if logged is None else self._has_old(logged):
            self._logged_timers = logged = self._timers_of_log()
        timed = [batch for batch in batches if len(batch.column(TIMES).values)]
        if logged is not None and timed:
            everywhere = np.ones(_PIECE, bool)
            pairs = [_least_timers(batch, everywhere[: batch.num_rows]) for batch in timed]
            logged.add(*map(np.concatenate, zip(*pairs, strict=True)))

    def _write(self) -> None:
        """Write all changes to the log."""
        self._log.append(*self._changes())

    def _changes(self) -> tuple[list[pa.RecordBatch], list[int]]:
        """Clear the list of changed slots; return their rows, and the rows that they replace."""
        changed, gone = self.changed[:], self.gone[:]
        self.changed.clear()
        self.gone.clear()
        batches: list[pa.RecordBatch] = []
        number = self._log.next_number
        for at in range(0, len(changed), _PIECE):
            slots = changed[at : at + _PIECE]
            gone += [slot._row for slot in slots if slot._row >= 0]
            slots = self._alive(slots)
            for new, slot in enumerate(slots, number):
                slot._row = new
            batches.append(self._rows(slots, number))
            self.is_timed |= len(batches[-1].column(TIMES).values) > 0
            number += len(slots)
        self._log_timers(batches)
        if self._holder.may_spill and changed:
            self._slot_bytes = _SLOT_BYTES + self._measured(changed)
        del self.spare[_SPARE_MAX:]
        return batches, gone

    def _measured(self, slots: list[Any]) -> int:
        """Estimate the bytes of one slot with its key and fields, from a sample."""
        some = slots[:: len(slots) // _MEASURED + 1]
        names = ["_key", *(field.name for field in self._code.fields)]
        values = (getattr(slot, name) for slot in some for name in names)
        total = sum(map(getsizeof, some)) + sum(map(_size_of, values))
        return total // max(len(some), 1)

    def _alive(self, slots: list[Any]) -> list[Any]:
        """Clear the changed flags; remove the slots that equal new slots, and return the others."""
        for slot in slots:
            slot._is_dirty = False
        alive = self._code.alive(slots)
        if all(alive):
            return slots
        for slot, stays in zip(slots, alive, strict=True):
            if not stays:
                known: Any = self.slots.get(slot._key)
                if known is slot:
                    del self.slots[slot._key]
                slot._row = -1
                self.spare.append(slot)
        return [slot for slot, stays in zip(slots, alive, strict=True) if stays]

    def _rows(self, slots: list[Any], number: int) -> pa.RecordBatch:
        columns = [pa.array(np.arange(number, number + len(slots)))]
        columns += _timer_columns(slots)
        columns += self.key_columns([s._key for s in slots])
        columns += self._code.columns(slots)
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)


def _timer_columns(slots: list[Any]) -> list[pa.Array]:
    """Return the names and the times of the timers, one list per slot."""
    if all(slot._timers is None for slot in slots):
        at = pa.array([slot._next_at for slot in slots], pa.int64()).to_numpy()
        has = at != INF_TIME
        times = pa.array(at[has])
        names: list[str] = [slot._name for slot in slots] if has.any() else []
        if names.count("") == len(names):
            named = pa.repeat("", len(times))
        else:
            named = pa.array(names, pa.string()).filter(pa.array(has))
        ends = np.concatenate([[0], np.cumsum(has)])
    else:
        each = [timers_of(slot) for slot in slots]
        pairs = [pair for timers in each for pair in timers]
        named = pa.array([name for name, _ in pairs], pa.string())
        times = pa.array([at for _, at in pairs], pa.int64())
        ends = np.cumsum([0, *map(len, each)])
    offsets = pa.array(ends.astype(np.int32))
    return [pa.ListArray.from_arrays(offsets, values) for values in (named, times)]


def _least_timers(rows: pa.RecordBatch, is_current: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the least timer time and the number of each current row that has timers."""
    times = rows.column(TIMES)
    counts = pc.list_value_length(times).to_numpy()
    has = np.flatnonzero(counts)
    if not len(has):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    starts = np.cumsum(counts) - counts
    least = np.minimum.reduceat(pc.list_flatten(times).to_numpy(), starts[has])
    kept = is_current[has]
    return least[kept], rows.column(NUMBER).to_numpy()[has[kept]]


def _size_of(value: Any) -> int:
    """Return the bytes of a plain value, a list, or a tuple of values."""
    inside = value if isinstance(value, list | tuple) else ()
    return getsizeof(value) + sum(map(getsizeof, inside))
