"""Count windows: every n events of a key, in row order.

**Rule.** The events of a key are numbered from 0 in row order; window k has the events ``[k * n, (k
+ 1) * n)``. Its lifetime is from the start of its first event to 1 us after the start of its last:
``[vs of the first, vs of the last + 1)``. A window that is never full yields no row.

Example: ``n = 2``, one key:

    event      window
    [ 1, 2)    [ 1, 4)
    [ 3, 9)    [ 1, 4)   full
    [ 3, 4)    [ 3, 8)
    [ 7, 8)    [ 3, 8)   full
    [ 8, 9)    never full

A window is released once no row before its end can follow, and all windows that start before it
have been released. ``CTI(t)`` (a watermark) becomes the start of the earliest window, of any key,
that events before t leave unfilled, or t if there is none. So a key that gets no more events within
a window holds back all later windows until the stream ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa

from rvertex.errors import InvalidWindowError
from rvertex.events.arrays import as_one_array, numbers
from rvertex.events.group_arrays import GroupArray
from rvertex.events.group_scan import group_start, heads_of
from rvertex.operators.windows.assigned import SingleWindow
from rvertex.operators.windows.hopping import Aggregates, gathering

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rvertex.aggregates.spec import AggregateSpec
    from rvertex.operators.protocol import Operator
    from rvertex.operators.windows.window_log import WindowLog


@dataclass(frozen=True, slots=True)
class CountWindowAggregate(Aggregates):
    """Aggregates per key over every ``count`` events."""

    holds_ctis: ClassVar[bool] = True

    keys: tuple[str, ...]
    count: int
    aggregates: tuple[AggregateSpec, ...]

    def __post_init__(self) -> None:
        if not 0 < self.count < 2**31:
            raise InvalidWindowError(f"a window of {self.count} events: it needs at least one")

    def open(self, inputs: Sequence[pa.Schema]) -> Operator:
        """Return a new operator with empty state."""
        (payload,) = inputs
        return SingleWindow(_Counts(self.count), *gathering(self.keys, self.aggregates, payload))


class _Counts:
    """By key: the number of its last window, and its number of events so far (below ``count``)."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._window = GroupArray(np.int64, -1)
        self._filled = GroupArray(np.int64, 0)

    def assign(
        self, codes: np.ndarray, vs: np.ndarray, ve: np.ndarray, keys: int, log: WindowLog
    ) -> np.ndarray:
        """Implement :class:`~rvertex.operators.windows.assigned.WindowAssigner`."""
        window, filled = self._window.writable(keys), self._filled.writable(keys)
        order = np.argsort(codes, kind="stable")
        key = codes[order]
        heads = heads_of(key)
        place = filled[key] + np.arange(len(key)) - group_start(heads)
        begins = place % self._count == 0
        # Windows are numbered in row order, hence by start.
        at = np.flatnonzero(begins)
        at = at[np.argsort(order[at])]
        of_row = np.where(heads, window[key], -1)
        of_row[at] = log.add(vs[order[at]])
        of_row = of_row[group_start(heads | begins)]
        is_full = place % self._count == self._count - 1
        end = vs[order[is_full]] + 1
        log.set_ends(of_row[is_full], end, end)
        last = np.append(heads[1:], True)
        window[key[last]] = of_row[last]
        filled[key[last]] = (place[last] + 1) % self._count
        result = np.empty(len(key), np.int64)
        result[order] = of_row
        return result

    def needed(self, promise: int) -> np.ndarray:
        mask: np.ndarray = self._filled.read() > 0
        return mask

    def keep(self, codes: np.ndarray) -> None:
        for column in (self._window, self._filled):
            column.adopt(column.read()[codes])

    def save(self) -> pa.Table:
        return pa.table({"c0": self._window.shared(), "c1": self._filled.shared()})

    def restore(self, table: pa.Table) -> None:
        for i, column in enumerate((self._window, self._filled)):
            column.adopt(numbers(as_one_array(table.column(i))))
