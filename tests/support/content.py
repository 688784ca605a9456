"""Streams whose item at seq ``s`` is a function of ``s``: every seventh a CTI, else an event."""

from __future__ import annotations

import pyarrow as pa

from rstream import InlineBackground, Items, RStream, StreamLimits, StreamReader, item_schema
from rstream.items.batch import CTI, EVENT

PAYLOAD = pa.schema([("number", pa.int64()), ("price", pa.float64()), ("name", pa.string())])
SCHEMA = item_schema(PAYLOAD)


def items(lo: int, hi: int, *, salt: int = 0) -> pa.RecordBatch:
    """The items ``[lo, hi)``; another ``salt`` gives other content."""
    rows: list[tuple[object, ...]] = []
    for seq in range(lo, hi):
        if seq % 7 == 6:
            rows.append((CTI, seq, seq, None, None, None))
        else:
            name = None if seq % 5 == 4 else f"name-{seq % 11}" * (seq % 3)
            rows.append((EVENT, seq, seq + 5, seq * 3 + salt, seq / 8, name))
    columns = list(zip(*rows, strict=True)) if rows else [()] * 6
    arrays = [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def small_limits(**changes: float) -> StreamLimits:
    """Limits so small that a few dozen items already make several segments."""
    values = {"segment_rows_max": 16, "flush_interval_ms": 0, "write_wait_s": 10.0, **changes}
    return StreamLimits(**values)  # type: ignore[arg-type]


def open_inline(store: object, **options: object) -> RStream:
    """A stream that flushes in the caller's thread."""
    defaults = {"background": InlineBackground(), "limits": small_limits(), "stream_id": "s"}
    return RStream.open(store, PAYLOAD, **{**defaults, **options})  # type: ignore[arg-type]


def read_all(reader: StreamReader, items_max: int = 1000) -> list[Items]:
    """Return all items that are ready now, and check that they are contiguous."""
    out: list[Items] = []
    seq = reader.next_seq
    while (got := reader.read_next(items_max)) is not None:
        assert got.first_seq == seq
        assert 1 <= got.batch.num_rows <= items_max
        seq = got.next_seq
        out.append(got)
    assert reader.next_seq == seq
    return out


def rows_of(parts: list[Items]) -> list[dict[str, object]]:
    """The rows of consecutive items."""
    return [row for part in parts for row in part.batch.to_pylist()]
