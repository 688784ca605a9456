"""Topics as places of the conformance suite, and their contents for readers."""

from __future__ import annotations

import datetime
import decimal
import json
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rvertex.sinks.spec import DeliveryPlace, KafkaSink, destination
from tests.rvertex.sinks.places import SCHEMA, TYPED, Row

if TYPE_CHECKING:
    import pyarrow as pa

    from rvertex.sinks.protocol import Destination
    from tests.support.brokers import Broker, Record

#: Brokers by address, because adapters are sent to other processes.
BROKERS: dict[str, Broker] = {}


@dataclass(frozen=True)
class KafkaPlace:
    """A topic per test."""

    sink: KafkaSink
    refused: dict[str, str] = field(default_factory=dict)

    def destination(self, partition: int, schema: pa.Schema = SCHEMA) -> Destination:
        return destination(self.sink, DeliveryPlace(self.sink.topic, "d", partition, 2, schema))

    def rows(self) -> list[Row]:
        """Per partition of the topic, in order."""
        records = BROKERS[self.sink.servers].read_committed(self.sink.topic)
        if self.sink.mode == "headers":
            records = without_repeats(records)
        return [self.row(record) for record in records]

    def row(self, record: Record) -> Row:
        """The row of a record with a value."""
        found: Row = json.loads(record.value or b"")
        return found

    def shown(self, column: str, value: Any) -> Any:
        return as_json(column, value)


def as_json(column: str, value: Any) -> Any:
    """Return a value of :data:`TYPED` as a reader of the topic gets it."""
    match value:
        case float() if not math.isfinite(value):
            return None
        case list():  # a map is an array of pairs
            return [list(inner) if isinstance(inner, tuple) else inner for inner in value]
        case decimal.Decimal():
            return str(value)
        case datetime.timedelta():
            return value // datetime.timedelta(microseconds=1)
        case bytes():
            return value.hex()
        case datetime.datetime():
            kind = TYPED.schema.field(column).type
            bare = value if kind.tz is None else value.astimezone(datetime.UTC).replace(tzinfo=None)
            text = bare.isoformat(timespec="seconds" if kind.unit == "s" else "microseconds")
            return text + ("000" if kind.unit == "ns" else "") + ("Z" if kind.tz else "")
        case datetime.time():
            is_seconds = TYPED.schema.field(column).type.unit == "s"
            return value.isoformat(timespec="seconds" if is_seconds else "microseconds")
        case datetime.date():
            return value.isoformat()
    return value


def without_repeats(records: list[Record]) -> list[Record]:
    """Return the records that count for a reader of headers: those with increasing seqs."""
    last: dict[tuple[int, bytes], int] = {}
    kept = []
    for record in records:
        headers = dict(record.headers)
        stream, seq = (record.partition, headers["stream"]), int(headers["seq"])
        if seq > last.get(stream, -1):
            last[stream] = seq
            kept.append(record)
    return kept
