"""A range of slots of the exchange key, and the rows of tables that are in it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from rstream.errors import UsageError, error_class
from rstream.items.hashing import slots_of
from rvertex.events.arrays import as_one_array

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np

    from rvertex.checkpoint.ranges.columns import Keys

Slots = tuple[int, int]
#: Error text: why a stage that gathers all rows cannot be divided, and what to do.
NOT_BY_KEY = (
    "its rows do not come to it by key; give the step a key (group_by, PARTITION BY), or run the "
    "query in another root with another --parallelism"
)
#: Tables with rows of the second port, recognised by the last part of their names.
_RIGHT = frozenset({"right", "ends", "waiting1", "ahead1", "matches"})


@error_class
class NotByKeyError(UsageError):
    """The state of an operator cannot be divided by key."""

    operator: str
    reason: str

    message = "the state of {operator} cannot be divided among another number of vertices: {reason}"


@dataclass(frozen=True, slots=True)
class SlotRange:
    """The slots ``[lo, hi)`` of ``keys``.

    ``is_first``: counters without a key go to this range.
    """

    keys: Keys
    lo: int
    hi: int
    is_first: bool = True

    def mask(self, columns: Sequence[pa.Array]) -> np.ndarray:
        """Return which rows of key columns are in the range, bool[n]."""
        slots = slots_of([as_one_array(pa.chunked_array([c])) for c in columns])
        is_inside: np.ndarray = (slots >= self.lo) & (slots < self.hi)
        return is_inside

    def of_table(self, table: pa.Table, port: int) -> np.ndarray:
        """Return which rows are in the range, bool[n], by the key columns of ``port``."""
        names = self.keys[min(port, len(self.keys) - 1)]
        return self.mask([as_one_array(table.column(name)) for name in names])


def only(spec: object, slots: SlotRange, names: Sequence[str]) -> None:
    """Check that the exchange columns are among the operator's key columns ``names``."""
    if not set(slots.keys[0]) <= set(names):
        needed = ", ".join(slots.keys[0])
        raise NotByKeyError(type(spec).__name__, f"it lacks the column {needed}: keep it")


def filtered(table: pa.Table, mask: np.ndarray) -> pa.Table:
    """Return the rows of a table for which ``mask`` bool[n] is true."""
    return table.filter(pa.array(mask))


def filtered_rows(
    slots: SlotRange, tables: Mapping[str, pa.Table], spec: object
) -> dict[str, pa.Table]:
    """Filter tables of rows; each table has the key columns of its port."""
    kept = {}
    for name, table in tables.items():
        port = 1 if len(slots.keys) > 1 and name.rpartition(".")[2] in _RIGHT else 0
        only(spec, replace(slots, keys=(slots.keys[port],)), table.schema.names)
        kept[name] = filtered(table, slots.of_table(table, port))
    return kept
