"""The state of all keys of a keyed process: slots by key, and a log of changes for snapshots.

Theory of operation. A slot that is changed is noted once. When CHANGED_MAX slots have changed, or
at a snapshot, their fields are copied, column by column, to the end of a log
(:mod:`rvertex.user_code.keyed.state_log`), where they replace the slots' older rows. So a snapshot
costs at most one batch, however many keys there are. A key that came and went between two writings
has no row.

Invariants: (1) the state of a slot is its row in the log, the defaults if it has none (``_row`` is
-1), unless it is noted as changed; (2) a slot as good as new is forgotten at the latest when its
change is written; its object serves another key then; (3) what a snapshot returned never changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rstream.types import INF_TIME
from rvertex.user_code.keyed.state_log import NUMBER, RowLog
from rvertex.user_code.keyed.state_table import TIMERS, TIMES
from rvertex.user_code.keyed.timers import TimerQueue, timers_of
from rvertex.user_code.plain_values import plain_keys, raw_column, raw_list

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rvertex.user_code.keyed.state_fields import SlotCode

#: So many changed keys are written to the log before any snapshot asks.
CHANGED_MAX = 1 << 17
#: Objects of forgotten keys that are kept for new ones.
_SPARE_MAX = 1 << 17
#: Slots that are written together: few enough to stay in the processor's cache from one column to
#: the next, as they lie anywhere in memory.
_PIECE = 1 << 12
_TIMER_TYPES = {TIMERS: pa.list_(pa.string()), TIMES: pa.list_(pa.int64())}


class KeyedState:
    """Slots by key. A key of one column is its value, of several a tuple.

    The lists and the dictionary stay the same objects: the loop over events knows them.
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
        #: Rows of the log whose slots are forgotten.
        self.gone: list[int] = []
        #: Objects of forgotten keys, as good as new but for the key.
        self.spare: list[Any] = []
        fields = [(f"key{i}", kind) for i, kind in enumerate(self._key_types)]
        fields += [(f"field {f.name}", f.type) for f in code.fields]
        self._schema = pa.schema([(NUMBER, pa.int64()), *_TIMER_TYPES.items(), *fields])
        self._log = RowLog(self._schema)

    def __len__(self) -> int:
        return len(self.slots)

    def note(self, slot: Any) -> None:
        """Take note of a slot that is about to change and is not noted yet (``_is_dirty``)."""
        slot._is_dirty = True
        self.changed.append(slot)

    def flush_pending(self) -> None:
        """Called between steps: write the changes to the log if they are many."""
        if len(self.changed) >= CHANGED_MAX or len(self.gone) >= CHANGED_MAX:
            self._write()

    def key_columns(self, keys: list[Any]) -> list[pa.Array]:
        """Keys as columns."""
        columns = [keys] if len(self._key_types) == 1 else list(zip(*keys, strict=True))
        if not keys:
            return [pa.nulls(0, kind) for kind in self._key_types]
        pairs = zip(columns, self._key_types, strict=True)
        return [raw_column(list(values), kind) for values, kind in pairs]

    def save(self) -> dict[str, pa.Table]:
        """The log, by reference, after what has changed was written to it."""
        self._write()
        return self._log.save()

    def load(self, keys: pa.Table, current: pa.Table) -> None:
        """Take over what ``save`` returned; only called on a new state."""
        assert not self.slots, len(self.slots)
        for batch in self._log.load(keys, current):
            self._load_rows(batch)

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

    def _write(self) -> None:
        changed, gone = self.changed[:], self.gone[:]
        self.changed.clear()
        self.gone.clear()
        if not changed and not gone:
            return
        batches: list[pa.RecordBatch] = []
        number = self._log.next_number
        for at in range(0, len(changed), _PIECE):
            slots = changed[at : at + _PIECE]
            gone += [slot._row for slot in slots if slot._row >= 0]
            slots = self._alive(slots)
            for new, slot in enumerate(slots, number):
                slot._row = new
            batches.append(self._rows(slots, number))
            number += len(slots)
        self._log.append(batches, gone)
        del self.spare[_SPARE_MAX:]

    def _alive(self, slots: list[Any]) -> list[Any]:
        """Of slots that have changed, which they have no longer, those that are not forgotten."""
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
    """Names and times of the timers, a list for each slot."""
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
