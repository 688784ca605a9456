"""Decodes messages of one partition to rows with times and positions, and separates bad ones.

Besides its value, a message has columns of the log: ``kafka_key`` and so on. Invariant: the rows of
a message depend on that message alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rvertex.sources.events import faults_of
from rvertex.sources.formats.rows.bad_rows import DEAD
from rvertex.sources.logs.decode.decoded import Bad
from rvertex.sources.logs.errors import LogRowError
from rvertex.sources.logs.protocol import ORIGIN, LogRows

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rvertex.sources.logs.decode.decoded import Decoded, Decoder
    from rvertex.sources.spec import SourceSpec

KEY, TIMESTAMP, HEADERS = "kafka_key", "kafka_timestamp", "kafka_headers"
PARTITION, OFFSET = "kafka_partition", "kafka_offset"
METADATA = pa.schema(
    [
        (KEY, pa.binary()),
        (HEADERS, pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        (TIMESTAMP, pa.timestamp("us", "UTC")),
        (PARTITION, pa.int32()),
        (OFFSET, pa.int64()),
    ]
)
_VALUE_CHARS_MAX = 80


@dataclass(frozen=True, slots=True)
class Messages:
    """Messages of one partition in the order of the log. ``next``: the position after them."""

    partition: int
    offsets: np.ndarray
    values: Sequence[bytes | None]
    next_position: int
    #: Returns the key of a message. Called only if a column needs it, or for the few bad messages.
    key: Callable[[int], bytes | None]
    timestamp_ms: Callable[[int], int | None]
    headers: Callable[[int], list[tuple[str, bytes | None]] | None]


def by_value(decoder: Decoder) -> Callable[[Messages], Decoded]:
    """Return a function that decodes messages by their values alone."""
    return lambda messages: decoder.decode(messages.values)


class MessageDecoder:
    """Decodes messages to the rows of a source."""

    def __init__(self, spec: SourceSpec, decode: Callable[[Messages], Decoded]) -> None:
        """Decode to rows of ``spec``; ``decode`` decodes the values of messages."""
        self._spec = spec
        self._decode = decode
        self._fails = spec.checks.on_bad_row == "fail"
        self._keeps_origins = spec.checks.keeps_origins
        self._metadata = [name for name in METADATA.names if name in spec.columns.names]

    def decode(self, messages: Messages) -> tuple[LogRows, LogRowError | None]:
        """Return the rows; with ``on_error="fail"`` up to the first bad message, and its error."""
        decoded = self._decode(messages)
        bad = dict(decoded.bad)
        raw, value_of = self._raw(messages, decoded), decoded.value_of
        events, faults = faults_of(self._spec, raw, self._spec.path)
        if faults:
            for row, fault in faults.items():
                bad.setdefault(int(value_of[row]), Bad(fault.reason, fault.column, fault.value))
            is_good = np.isin(value_of, list(bad), invert=True)
            raw, value_of = raw.filter(pa.array(is_good)), value_of[is_good]
            events, none = faults_of(self._spec, raw, self._spec.path)
            assert not none, none
        assert events is not None, "no rows make no events"
        offsets = messages.offsets[value_of]
        if bad and self._fails:
            first = min(bad)
            at = int(messages.offsets[first])
            rows = int(offsets.searchsorted(at))
            kept = LogRows(offsets[:rows], events.slice(0, rows), at)
            return kept, self._error(messages, first, bad[first])
        dead = self._dead(messages, bad) if bad else None
        origins = self._origins(messages, value_of) if self._keeps_origins else None
        return LogRows(offsets, events, messages.next_position, dead, origins), None

    def _raw(self, messages: Messages, decoded: Decoded) -> pa.RecordBatch:
        """Return the columns of the values, and then the columns of the log."""
        columns = dict(zip(decoded.rows.schema.names, decoded.rows.columns, strict=True))
        for name in self._metadata:
            columns[name] = _metadata(name, messages, decoded.value_of)
        return pa.RecordBatch.from_arrays(
            [columns[name] for name in self._spec.columns.names], schema=self._spec.columns
        )

    def _origins(self, messages: Messages, value_of: np.ndarray) -> pa.RecordBatch:
        """Return the message of each row: a bad row becomes a dead letter with its message."""
        origins = {i: (messages.key(i), messages.values[i]) for i in np.unique(value_of).tolist()}
        rows = [origins[i] for i in value_of.tolist()]
        source = self._spec.shown or self._spec.path
        columns = [[source] * len(rows), *([row[k] for row in rows] for k in (0, 1))]
        return pa.RecordBatch.from_arrays(
            [pa.array(c, f.type) for c, f in zip(columns, ORIGIN, strict=True)], schema=ORIGIN
        )

    def _error(self, messages: Messages, index: int, bad: Bad) -> LogRowError:
        value = (messages.values[index] or b"")[:_VALUE_CHARS_MAX]
        return LogRowError(
            self._spec.shown or self._spec.path,
            messages.partition,
            int(messages.offsets[index]),
            str(bad),
            value.decode("utf-8", "backslashreplace"),
        )

    def _dead(self, messages: Messages, bad: Mapping[int, Bad]) -> pa.RecordBatch:
        rows = [
            {
                "source": self._spec.shown or self._spec.path,
                "partition": messages.partition,
                "position": int(messages.offsets[i]),
                "column": bad[i].column,
                "value": bad[i].short_value,
                "reason": bad[i].reason,
                "key": messages.key(i),
                "raw": messages.values[i],
            }
            for i in sorted(bad)
        ]
        return pa.RecordBatch.from_pylist(rows, schema=DEAD)


def _metadata(name: str, messages: Messages, value_of: np.ndarray) -> pa.Array:
    kind = METADATA.field(name).type
    if name == PARTITION:
        return pa.array(np.full(len(value_of), messages.partition, np.int32))
    if name == OFFSET:
        return pa.array(messages.offsets[value_of])
    everything = range(len(messages.values))
    if name == KEY:
        column = pa.array([messages.key(i) for i in everything], kind)
    elif name == TIMESTAMP:
        times = pa.array([messages.timestamp_ms(i) for i in everything], pa.int64())
        column = times.cast(pa.timestamp("ms", "UTC")).cast(kind)
    else:
        column = pa.array([_headers(messages.headers(i)) for i in everything], kind)
    return column.take(pa.array(value_of))  # a message may have any number of rows


def _headers(headers: list[tuple[str, bytes | None]] | None) -> list[dict[str, object]]:
    return [{"key": key, "value": value} for key, value in headers or ()]
