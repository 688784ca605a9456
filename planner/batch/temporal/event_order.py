"""The order of a key's events for code that takes them one after the other.

Events come by ``_vs``. Those that start together come by their place in the stream where that is
known. Where it is not, the code is run in two orders of them, by value and against it, and refused
if its rows differ: then they follow from an order that only the stream has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from planner.expressions.spark.errors import UnsupportedInBatchError
from rstream.items.batch import VS

if TYPE_CHECKING:
    from collections.abc import Sequence


def orders(events: pa.RecordBatch, places: pa.ChunkedArray | None) -> list[pa.RecordBatch]:
    """The events in the order of the stream, or in two orders of which one is as good."""
    if places is not None:
        by = pa.table({VS: events.column(VS), "place": places})
        found = pc.sort_indices(by, [(VS, "ascending"), ("place", "ascending")])
        return [events.take(found)]
    starts = events.column(VS).to_pylist()
    shown = [repr(row) for row in _rows(events)]
    rising = sorted(range(len(starts)), key=lambda at: (starts[at], shown[at]))
    rank = {at: k for k, at in enumerate(rising)}
    falling = sorted(rising, key=lambda at: (starts[at], -rank[at]))
    found = [events.take(pa.array(order, pa.int64())) for order in (rising, falling)]
    return found[:1] if found[0].equals(found[1]) else found


def agreed(answers: Sequence[pa.RecordBatch], name: str) -> pa.RecordBatch:
    """The answer that was given for all orders.

    Raises:
        UnsupportedInBatchError: it depends on the order.
    """
    if len({tuple(sorted(map(repr, _rows(answer)))) for answer in answers}) > 1:
        raise UnsupportedInBatchError(
            name,
            "its rows depend on the order of events of a key that start together, and after a "
            "join, a union, a window or code of yours that order is known to the stream only",
        )
    return answers[0]


def _rows(events: pa.RecordBatch) -> list[tuple[Any, ...]]:
    columns = [_comparable(column).to_pylist() for column in events.columns]
    return list(zip(*columns, strict=True))


def _comparable(column: pa.Array) -> pa.Array:
    """Times as integers: Python's calendar does not have them all."""
    kind = column.type
    if pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
        return column.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    return column
