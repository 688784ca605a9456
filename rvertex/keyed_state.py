"""The state of all keys of a keyed process: slots by key, and a log of changes for snapshots.

Theory of operation. A slot that is changed is noted once. When 65,536 slots have changed, or at a
snapshot, their fields are copied, column by column, into one record batch at the end of a log.
Batches of the log are merged as they grow, like the digits of a binary counter, and only the newest
row of a slot is kept. So a snapshot costs at most one batch, however many keys there are, and
batches that did not change are the same in the next snapshot.

Invariants: (1) per slot, the last row of its number in the log is its state, unless it is noted as
changed; (2) a slot as good as new is forgotten when its change is written, with a row that says so;
(3) numbers of slots are never used twice; (4) what a snapshot returned never changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rvertex.plain_values import arrow_column, plain_keys, plain_list
from rvertex.timers import TimerQueue, timers_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rvertex.keyed_fields import SlotCode

#: So many changed keys are written to the log before any snapshot asks.
CHANGED_MAX = 1 << 16
#: Slots that are written together: few enough to stay in the processor's cache from one column to
#: the next, as they lie anywhere in memory.
_PIECE = 1 << 12
_NUMBER, _IS_ALIVE, _TIMERS, _TIMES = "number", "is_alive", "timers", "times"
_HEAD = (_NUMBER, _IS_ALIVE)
_TIMER_TYPES = {_TIMERS: pa.list_(pa.string()), _TIMES: pa.list_(pa.int64())}


class KeyedState:
    """Slots by key. A key of one column is its value, of several a tuple."""

    def __init__(
        self, code: SlotCode, key_types: Sequence[pa.DataType], timers: TimerQueue
    ) -> None:
        self._code = code
        self._key_types = list(key_types)
        self._timers = timers
        self.slots: dict[Any, Any] = {}
        #: Slots that changed since the log was written; this list object stays.
        self._changed: list[Any] = []
        self._log: list[pa.RecordBatch] = []
        self._next_number = 0
        fields = [(f"key{i}", kind) for i, kind in enumerate(self._key_types)]
        fields += [(f"field {f.name}", f.type) for f in code.fields]
        head = [(_NUMBER, pa.int64()), (_IS_ALIVE, pa.bool_())]
        self._schema = pa.schema([*head, *_TIMER_TYPES.items(), *fields])

    def __len__(self) -> int:
        return len(self.slots)

    def add(self, key: Any) -> Any:
        """A new slot for a key that has none; it is noted as changed."""
        slot = self._code.make(key)
        slot._number = self._next_number
        self._next_number += 1
        self.slots[key] = slot
        slot._is_dirty = True
        self._changed.append(slot)
        return slot

    def note(self, slot: Any) -> None:
        """Take note of a slot that is about to change and is not noted yet (``_is_dirty``)."""
        slot._is_dirty = True
        self._changed.append(slot)

    @property
    def changed(self) -> Callable[[Any], None]:
        """What :meth:`note` does besides setting ``_is_dirty``, for the hot loop."""
        return self._changed.append

    def settle(self) -> None:
        """Called between steps: write the changes to the log if they are many."""
        if len(self._changed) >= CHANGED_MAX:
            self._write()

    def key_columns(self, keys: list[Any]) -> list[pa.Array]:
        """Keys as columns."""
        columns = [keys] if len(self._key_types) == 1 else list(zip(*keys, strict=True))
        if not keys:
            return [pa.nulls(0, kind) for kind in self._key_types]
        pairs = zip(columns, self._key_types, strict=True)
        return [arrow_column(list(values), kind) for values, kind in pairs]

    def save(self) -> pa.Table:
        """The log, by reference, after what has changed was written to it."""
        self._write()
        return pa.Table.from_batches(self._log, self._schema)

    def load(self, table: pa.Table) -> None:
        """Take over what ``save`` returned; only called on a new state."""
        assert not self.slots, len(self.slots)
        self._log = table.cast(self._schema).to_batches()
        numbers = [batch.column(0).to_numpy() for batch in self._log]
        if not numbers:
            return
        self._next_number = int(max(n.max(initial=-1) for n in numbers)) + 1
        newest = np.full(self._next_number, -1)
        starts = np.cumsum([0, *(len(n) for n in numbers)])
        for start, found in zip(starts[:-1].tolist(), numbers, strict=True):
            newest[found] = np.arange(start, start + len(found))
        for start, batch in zip(starts[:-1].tolist(), self._log, strict=True):
            rows = np.arange(start, start + batch.num_rows)
            is_last = newest[batch.column(0).to_numpy()] == rows
            alive = batch.column(1).to_numpy(zero_copy_only=False)
            self._load_rows(batch.filter(pa.array(is_last & alive)))

    def _load_rows(self, batch: pa.RecordBatch) -> None:
        keys = [plain_keys(batch.column(f"key{i}")) for i in range(len(self._key_types))]
        make = self._code.make
        made = [make(key) for key in (keys[0] if len(keys) == 1 else zip(*keys, strict=True))]
        for slot, number in zip(made, plain_list(batch.column(_NUMBER)), strict=True):
            slot._number = number
            self.slots[slot._key] = slot
        for field in self._code.fields:
            name = field.name
            values = plain_list(batch.column(f"field {name}"))
            for slot, value in zip(made, values, strict=True):
                setattr(slot, name, value)
        counts = pc.list_value_length(batch.column(_TIMERS)).to_numpy()
        owners = np.repeat(np.arange(len(made)), counts).tolist()
        names = plain_list(pc.list_flatten(batch.column(_TIMERS)))
        times = plain_list(pc.list_flatten(batch.column(_TIMES)))
        for owner, name, at in zip(owners, names, times, strict=True):
            self._timers.set(made[owner], at, name)

    def _write(self) -> None:
        changed = self._changed[:]
        self._changed.clear()
        if not changed:
            return
        pieces = range(0, len(changed), _PIECE)
        rows = [self._rows(changed[at : at + _PIECE]) for at in pieces]
        self._log.append(pa.concat_batches(rows))
        while len(self._log) > 1 and self._log[-2].num_rows <= 2 * self._log[-1].num_rows:
            self._log[-2:] = [_merged(*self._log[-2:], is_first=len(self._log) == 2)]
        if len(self._log) == 1:
            self._log = [b for b in self._log if b.num_rows]

    def _rows(self, slots: list[Any]) -> pa.RecordBatch:
        """The rows of slots that have changed, which they have no longer."""
        alive = self._code.alive(slots)
        for slot in slots:
            slot._is_dirty = False
        if not all(alive):
            for slot, stays in zip(slots, alive, strict=True):
                if not stays:
                    del self.slots[slot._key]
        columns = [pa.array([s._number for s in slots], pa.int64()), pa.array(alive)]
        columns += _timer_columns(slots)
        columns += self.key_columns([s._key for s in slots])
        columns += self._code.columns(slots)
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)


def _timer_columns(slots: list[Any]) -> list[pa.Array]:
    names: list[str] = []
    times: list[int] = []
    ends = [0]
    if all(slot._timers is None for slot in slots):
        ends, slots = [0] * (len(slots) + 1), []
    for slot in slots:
        timers = slot._timers
        if timers is not None:
            if len(timers) == 3 and timers[1] is not None:
                names.append(timers[0])
                times.append(timers[1])
            else:
                for name, at in timers_of(slot):
                    names.append(name)
                    times.append(at)
        ends.append(len(names))
    offsets = pa.array(ends, pa.int32())
    pairs = zip((names, times), _TIMER_TYPES.values(), strict=True)
    return [
        pa.ListArray.from_arrays(offsets, pa.array(values, kind.value_type))
        for values, kind in pairs
    ]


def _merged(older: pa.RecordBatch, newer: pa.RecordBatch, *, is_first: bool) -> pa.RecordBatch:
    """Two batches as one; what is gone is forgotten where nothing older can have it."""
    numbers = older.column(0).to_numpy()
    kept = older.filter(pa.array(~np.isin(numbers, newer.column(0).to_numpy())))
    whole = pa.concat_batches([kept, newer])
    return whole.filter(whole.column(1)) if is_first else whole
