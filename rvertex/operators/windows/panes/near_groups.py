"""The groups of one open pane whose keys are in a narrow range, and lists of accumulators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rvertex.aggregates.accumulators import Rows, takes_gaps
from rvertex.keys.direct_keys import OffsetKeys
from rvertex.state.key_runs import is_value, place_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rvertex.aggregates.accumulators import Accumulator
    from rvertex.state.key_runs import Place


@dataclass(frozen=True, slots=True)
class Grouping:
    """The key columns of a grouping, and a factory of its accumulators."""

    names: tuple[str, ...]
    types: tuple[pa.DataType, ...]
    accumulators: Callable[[], list[Accumulator]]
    #: The event columns that keys and accumulators read; None: all columns.
    columns: tuple[str, ...] | None = None

    def key_columns(self, events: pa.RecordBatch) -> list[pa.Array]:
        """Return the key columns of ``events``."""
        return [events.column(name) for name in self.names]


class NearGroups:
    """The groups of keys in a narrow range; the code is the distance from its start."""

    def __init__(self, grouping: Grouping, keys: OffsetKeys) -> None:
        self._grouping = grouping
        self._keys = keys
        self._accumulators = grouping.accumulators()

    @classmethod
    def beginning(cls, grouping: Grouping, events: pa.RecordBatch) -> NearGroups | None:
        """Return a range for keys near the keys of ``events``; None: an index is better."""
        if len(grouping.names) != 1 or not all(map(takes_gaps, grouping.accumulators())):
            return None
        keys = OffsetKeys.beginning(*grouping.key_columns(events))
        return None if keys is None else cls(grouping, keys)

    def __len__(self) -> int:
        return int(np.count_nonzero(self._keys.occupied()))

    def update(self, events: pa.RecordBatch, *, grows: bool) -> pa.RecordBatch:
        """Add events. Return the events whose keys are outside of the range."""
        (column,) = self._grouping.key_columns(events)
        codes, mask = self._keys.codes(column, grows=grows)
        inside = events if mask is None else events.filter(pa.array(mask))
        if len(codes):
            rows = Rows(codes, self._keys.groups, inside, occupied=self._keys.occupied())
            update_all(self._accumulators, rows)
            self._keys.add(codes)
        return events.slice(0, 0) if mask is None else events.filter(pa.array(~mask))

    def sorted_columns(self) -> NearColumns:
        """Return the groups in order of their keys. Do not use this object afterwards."""
        return NearColumns(self._keys, lane_columns(self._accumulators))

    def save(self) -> dict[str, pa.Table]:
        """Return the state, as :meth:`OpenGroups.save` does."""
        return self._keys.save() | saved_lanes(self._accumulators)

    @classmethod
    def restored(cls, grouping: Grouping, tables: Mapping[str, pa.Table]) -> NearGroups:
        """Restore the state that :meth:`save` returned."""
        made = cls(grouping, OffsetKeys.restore(grouping.types[0], tables))
        restore_lanes(made._accumulators, tables)
        return made


class NearColumns:
    """A sorted table of groups, as :class:`SortedColumns`: row i has code i, if that is a key."""

    def __init__(self, keys: OffsetKeys, lanes: Sequence[pa.Array]) -> None:
        self._keys, self._lanes = keys, lanes
        self._occupied = keys.occupied()

    def __len__(self) -> int:
        return len(self._occupied)

    def piece_rows(self, piece_bytes: int) -> int:
        """Return the number of rows of a piece."""
        nbytes: int = sum(column.nbytes for column in self._lanes)
        return max(piece_bytes * len(self) // max(nbytes + 8 * len(self), 1), 1)

    def cuts(self, rows: int) -> list[Place]:
        """Return the keys at which to divide the rows into pieces of ``rows``."""
        codes = np.arange(rows, len(self), rows)
        keys = self._keys.keys(codes)
        return [place_of([keys], i) for i in range(len(codes))]

    def first_at(self, place: Place) -> int:
        """Return the number of the first row whose key is at or after ``place``."""
        return self._keys.first_at(place[1]) if is_value(place) else len(self)

    def rows(self, lo: int, hi: int) -> tuple[list[pa.Array], list[pa.Array]]:
        """Return key columns and other columns of the keys with numbers in ``[lo, hi)``."""
        codes = np.flatnonzero(self._occupied[lo:hi])
        keys = [self._keys.keys(codes + lo)]
        lanes = [column.slice(lo, hi - lo) for column in self._lanes]
        if len(codes) == hi - lo:
            return keys, lanes
        at = pa.array(codes)
        return keys, [column.take(at) for column in lanes]


def update_all(accumulators: Sequence[Accumulator], rows: Rows) -> None:
    """Add rows to all accumulators."""
    for accumulator in accumulators:
        accumulator.update(rows)


def lane_columns(accumulators: list[Accumulator]) -> list[pa.Array]:
    """Return the lane columns by code; frees one accumulator after another."""
    lanes: list[pa.Array] = []
    accumulators.reverse()
    while accumulators:
        lanes += accumulators.pop().columns()
    return lanes


def saved_lanes(accumulators: Sequence[Accumulator]) -> dict[str, pa.Table]:
    """Return the saved states of accumulators, as tables by name."""
    return {
        f"lane{i}.{j}": pa.table({"lane": column})
        for i, accumulator in enumerate(accumulators)
        for j, column in enumerate(accumulator.save())
    }


def restore_lanes(accumulators: Sequence[Accumulator], tables: Mapping[str, pa.Table]) -> None:
    """Restore the states that :func:`saved_lanes` returned."""
    for i, accumulator in enumerate(accumulators):
        width = len(accumulator.save())
        accumulator.restore([tables[f"lane{i}.{j}"].column(0) for j in range(width)])
