"""The order in which user code gets the events of a key in a batch.

Events are sorted by ``_vs``. Events that start together keep their place in the stream where it is
known. Where it is not, the code runs twice, with these events sorted by value, ascending and
descending. It is an error if the output rows differ, because they then depend on an order that only
the stream knows.
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
    """Return the events in the order of the stream, or in two orders if it is unknown."""
    if places is not None:
        by = pa.table({VS: events.column(VS), "place": places})
        indices = pc.sort_indices(by, [(VS, "ascending"), ("place", "ascending")])
        return [events.take(indices)]
    starts = events.column(VS).to_pylist()
    shown = [repr(row) for row in _rows(events)]
    rising = sorted(range(len(starts)), key=lambda at: (starts[at], shown[at]))
    rank = {at: k for k, at in enumerate(rising)}
    falling = sorted(rising, key=lambda at: (starts[at], -rank[at]))
    indices = [events.take(pa.array(order, pa.int64())) for order in (rising, falling)]
    return indices[:1] if indices[0].equals(indices[1]) else indices


def agreed(answers: Sequence[pa.RecordBatch], name: str) -> pa.RecordBatch:
    """Return the result that is equal for all orders.

    Raises:
        UnsupportedInBatchError: the result depends on the order.
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
    """Convert times to integers, because Python's datetime does not cover all of them."""
    kind = column.type
    if pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
        return column.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    return column
