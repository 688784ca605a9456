"""The interface of a destination's adapter for the conformance suite, and its rows."""

from __future__ import annotations

import datetime
import decimal
import hashlib
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa

from rvertex.sinks.protocol import DeliveredRows, DeliveryProgress

if TYPE_CHECKING:
    from rvertex.sinks.protocol import Destination

Row = dict[str, Any]
SCHEMA = pa.schema([("part", pa.int32()), ("n", pa.int64()), ("word", pa.string())])
#: Every item whose number is a multiple is a CTI, so it has no row.
CTI_EVERY = 3


class Place(Protocol):
    """A new place at a destination. Frozen and picklable, since killed processes open it."""

    #: Columns of :data:`TYPED` that the destination rejects, with a word of the error.
    refused: dict[str, str]

    def destination(self, partition: int, schema: pa.Schema = SCHEMA) -> Destination:
        """A new handle for a partition of the place, not open yet."""
        ...

    def rows(self) -> list[Row]:
        """All rows that a reader of the place gets now, in order per partition."""
        ...

    def shown(self, column: str, value: Any) -> Any:
        """Return a value of :data:`TYPED` as a reader of the destination gets it."""
        ...


def items(partition: int, first_seq: int, next_seq: int) -> DeliveredRows:
    """The items ``[first_seq, next_seq)`` of a partition."""
    seqs = np.arange(first_seq, next_seq)
    seqs = seqs[seqs % CTI_EVERY != 0]
    columns = [
        pa.array(np.full(len(seqs), partition), pa.int32()),
        pa.array(seqs, pa.int64()),
        pa.array([f"w{seq}" if seq % 5 else None for seq in seqs.tolist()], pa.string()),
    ]
    batch = pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
    return DeliveredRows(first_seq, next_seq, seqs, batch)


def expected(partition: int, next_seq: int) -> list[Row]:
    """Return the visible rows once all items below ``next_seq`` are delivered."""
    rows: list[Row] = items(partition, 0, next_seq).table.to_pylist()
    return rows


def progress(partition: int, next_seq: int) -> DeliveryProgress:
    """Progress with a digest that distinguishes partitions and positions."""
    digest = hashlib.blake2b(f"{partition}:{next_seq}".encode(), digest_size=16).digest()
    return DeliveryProgress(next_seq, digest)


def _typed() -> pa.RecordBatch:
    utc = datetime.UTC
    moment = datetime.datetime(2013, 7, 4, 12, 30, 15, 123456)  # noqa: DTZ001
    old = datetime.datetime(1883, 11, 18, 12, 3, 58)  # noqa: DTZ001
    kinds: dict[str, tuple[pa.DataType, list[Any]]] = {
        "truth": (pa.bool_(), [True, False]),
        **{f"i{t.bit_width}": (t, [-1, 2 ** (t.bit_width - 1) - 1]) for t in _SIGNED},
        **{f"u{t.bit_width}": (t, [0, 2**t.bit_width - 1]) for t in _UNSIGNED},
        "f32": (pa.float32(), [1.5, float("-inf")]),
        "f64": (pa.float64(), [0.1, 1e300]),
        "money": (pa.decimal128(10, 2), [decimal.Decimal("-1.05"), decimal.Decimal("99999999.99")]),
        "wide": (pa.decimal128(38, 0), [decimal.Decimal("9" * 38), decimal.Decimal(-1)]),
        "huge": (pa.decimal256(50, 3), [decimal.Decimal("9" * 47 + ".999"), decimal.Decimal(0)]),
        "text": (pa.string(), ["", 'a "b", c\\N\n\té\U0001f600']),
        "long_text": (pa.large_string(), ["x" * 70_000, "y"]),
        "code": (pa.dictionary(pa.int32(), pa.string()), ["JFK", "LGA"]),
        "raw": (pa.binary(), [b"", bytes(range(256))]),
        "long_raw": (pa.large_binary(), [b"\0", b"x" * 70_000]),
        "fixed": (pa.binary(3), [b"abc", b"\0\xff\0"]),
        "day": (pa.date32(), [datetime.date(1969, 12, 31), datetime.date(2024, 2, 29)]),
        "clock": (pa.time64("us"), [datetime.time(23, 59, 59, 999999), datetime.time(0)]),
        "minute": (pa.time32("s"), [datetime.time(12, 30), datetime.time(0)]),
        "local": (pa.timestamp("us"), [moment, old]),
        "at": (pa.timestamp("us", "UTC"), [moment.replace(tzinfo=utc), old.replace(tzinfo=utc)]),
        "zoned": (pa.timestamp("us", "America/New_York"), [moment.replace(tzinfo=utc)] * 2),
        "second": (pa.timestamp("s"), [moment.replace(microsecond=0)] * 2),
        "fine": (pa.timestamp("ns", "UTC"), [moment.replace(tzinfo=utc)] * 2),
        "span": (pa.duration("us"), [datetime.timedelta(-1, 1, 1), datetime.timedelta(9, 0, 5)]),
        "list": (pa.list_(pa.int64()), [[1, None, 3], []]),
        "map": (pa.map_(pa.string(), pa.int64()), [[("a", 1), ("b", None)], []]),
        "record": (_RECORD, [{"a": 1, "b": ["x", None]}, {"a": None, "b": None}]),
    }
    columns = [pa.array([*values, None], kind) for kind, values in kinds.values()]
    return pa.RecordBatch.from_arrays(columns, names=list(kinds))


_SIGNED = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
_UNSIGNED = (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())
_RECORD = pa.struct([("a", pa.int64()), ("b", pa.list_(pa.string()))])
#: Two values and a null of every type that the engine has.
TYPED = _typed()
