"""Decodes messages that change a table: upserts with tombstones, and Debezium's change events.

Each message becomes the new row of its key, or ends the key (column ``DELETED``). A tombstone names
its key in the record's key: as the text of the only key column, as a JSON value, or as an object,
with Debezium's ``schema`` and ``payload`` around it or without.

    Debezium    op       rows
                c, r, u  ``after``; preceded by the end of ``before``, if that has another key
                d        the end of ``before``; without it, the end of the record's key
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rvertex.sources.files import first_line
from rvertex.sources.logs.decode.decoded import Bad, Decoded, joined

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rvertex.sources.logs.decode.decoded import Decoder
    from rvertex.sources.logs.decode.messages import Messages

#: Column: whether a row only ends its key.
DELETED = "kafka_deleted"
#: Columns: when the connector handled a change, and when the database committed it.
CHANGE_TIME, COMMIT_TIME = "kafka_change_timestamp", "kafka_commit_timestamp"
CHANGE_COLUMNS = pa.schema(
    [
        (DELETED, pa.bool_()),
        (CHANGE_TIME, pa.timestamp("us", "UTC")),
        (COMMIT_TIME, pa.timestamp("us", "UTC")),
    ]
)
_WRITES, _DELETE = ("c", "r", "u"), "d"
_MILLIS = pa.timestamp("ms", "UTC")


class UpsertDecoder:
    """Decodes messages whose values are rows of ``schema``.

    A message without a value ends its key.
    """

    def __init__(self, schema: pa.Schema, key: Sequence[str], values: Decoder) -> None:
        """Decode with ``schema``, which includes :data:`DELETED`.

        ``values`` decodes rows without it.
        """
        self._schema = schema
        self._keys = _Keys(schema, key)
        self._values = values

    def decode(self, messages: Messages) -> Decoded:
        """Return a row per message."""
        gone = [i for i, value in enumerate(messages.values) if value is None]
        ends, bad = self._keys.ends(gone, messages.key)
        decoded = self._values.decode(messages.values)
        bad = {i: reason for i, reason in decoded.bad.items() if i not in ends} | bad
        written = _with_deleted(decoded.rows, False, self._schema)
        missing = pc.invert(_has_key(written, self._keys.names))
        if pc.any(missing).as_py():
            for i in decoded.value_of[missing.to_numpy(zero_copy_only=False)].tolist():
                bad[i] = Bad(f"the key is null: {', '.join(self._keys.names)}")
        return _in_order([(written, decoded.value_of), self._keys.rows(ends)], self._schema, bad)


class DebeziumDecoder:
    """Decodes change events, bare or within ``schema`` and ``payload``; skips tombstones.

    ``envelopes`` decodes events into the columns of :func:`envelope`.
    """

    def __init__(self, schema: pa.Schema, key: Sequence[str], envelopes: Decoder) -> None:
        self._schema = schema
        self._keys = _Keys(schema, key)
        self._envelopes = envelopes

    def decode(self, messages: Messages) -> Decoded:
        """Return a row per change, or two if a row's key changes."""
        decoded = self._envelopes.decode(messages.values)
        bad = {i: why for i, why in decoded.bad.items() if messages.values[i] is not None}
        events, at = _bare(decoded.rows), decoded.value_of
        ops = events["op"].to_pylist()
        before, after = (self._rows(events, side) for side in ("before", "after"))
        is_write = np.array([op in _WRITES for op in ops], bool)
        is_delete = np.array([op == _DELETE for op in ops], bool)
        has_after, has_before = (self._is_there(r, events[n]) for r, n in _sides(before, after))
        for row in np.flatnonzero(~is_write & ~is_delete).tolist():
            bad[int(at[row])] = Bad(
                "it is not a change of a row (c, r, u or d)", "op", str(ops[row])
            )
        for row in np.flatnonzero(is_write & ~has_after).tolist():
            names = ", ".join(self._keys.names)
            bad[int(at[row])] = Bad(f"op {ops[row]!r} needs an after with the key {names}")
        alone = np.flatnonzero(is_delete & ~has_before)
        ends, more = self._keys.ends([int(at[row]) for row in alone], messages.key)
        bad |= more
        moved = is_write & has_before & has_after & self._differ(before, after)
        ended = np.flatnonzero((is_delete & has_before) | moved)
        written = np.flatnonzero(is_write & has_after)
        pieces = [
            (_with_deleted(before.take(pa.array(ended)), True, self._schema), at[ended]),
            (_with_deleted(after.take(pa.array(written)), False, self._schema), at[written]),
            self._keys.rows(
                ends, dict(zip(at[alone].tolist(), alone.tolist(), strict=True)), after
            ),
        ]
        return _in_order(pieces, self._schema, bad)

    def _rows(self, events: Mapping[str, pa.Array], side: str) -> pa.RecordBatch:
        """Return the rows of one side, with the times of their events."""
        struct = events[side]
        fields = dict(zip((f.name for f in struct.type), struct.flatten(), strict=True))
        commit = events["source"].flatten()[0]
        times = {CHANGE_TIME: events["ts_ms"], COMMIT_TIME: commit}
        for name, millis in times.items():
            fields[name] = millis.cast(_MILLIS).cast(CHANGE_COLUMNS.field(name).type)
        fields[DELETED] = pa.nulls(len(struct), pa.bool_())
        return pa.RecordBatch.from_arrays(
            [fields[name] for name in self._schema.names], schema=self._schema
        )

    def _is_there(self, rows: pa.RecordBatch, struct: pa.Array) -> np.ndarray:
        there = pc.and_(pc.is_valid(struct), _has_key(rows, self._keys.names))
        is_there: np.ndarray = there.to_numpy(zero_copy_only=False)
        return is_there

    def _differ(self, before: pa.RecordBatch, after: pa.RecordBatch) -> np.ndarray:
        differs = np.zeros(before.num_rows, bool)
        for name in self._keys.names:
            same = pc.fill_null(pc.equal(before[name], after[name]), True)
            differs |= ~same.to_numpy(zero_copy_only=False)
        return differs


def envelope(schema: pa.Schema) -> pa.Schema:
    """Return the columns of a bare change event for rows of ``schema``."""
    row = pa.struct([f for f in schema if f.name not in CHANGE_COLUMNS.names])
    millis = pa.field("ts_ms", pa.int64())
    return pa.schema(
        [
            ("before", row),
            ("after", row),
            ("op", pa.string()),
            millis,
            ("source", pa.struct([millis])),
        ]
    )


def wrapped(event: pa.Schema) -> pa.Schema:
    """Return the columns of a change event, which may be bare or inside of a ``payload``."""
    return event.append(pa.field("payload", pa.struct(list(event))))


def _bare(events: pa.RecordBatch) -> dict[str, pa.Array]:
    """Return the columns of the events, from their payloads if they have one."""
    bare = dict(zip(events.schema.names, events.columns, strict=True))
    payload = bare.pop("payload", None)
    if payload is None or payload.null_count == len(payload):
        return bare
    inner = zip((f.name for f in payload.type), payload.flatten(), strict=True)
    return {name: pc.if_else(pc.is_valid(payload), array, bare[name]) for name, array in inner}


def _sides(before: pa.RecordBatch, after: pa.RecordBatch) -> list[tuple[pa.RecordBatch, str]]:
    return [(after, "after"), (before, "before")]


class _Keys:
    """Makes rows that only end their keys, given the keys of records."""

    def __init__(self, schema: pa.Schema, names: Sequence[str]) -> None:
        self._schema, self.names = schema, tuple(names)
        self._key = pa.schema([schema.field(name) for name in names])

    def ends(
        self, values: Sequence[int], key: Callable[[int], bytes | None]
    ) -> tuple[dict[int, dict[str, Any]], dict[int, Bad]]:
        """Return the key columns of these messages, and the messages with an invalid key."""
        keys_of: dict[int, dict[str, Any]] = {}
        bad: dict[int, Bad] = {}
        for i in values:
            read = self._read(key(i))
            if isinstance(read, Bad):
                bad[i] = read
            else:
                keys_of[i] = read
        return keys_of, bad

    def rows(
        self,
        ends: dict[int, dict[str, Any]],
        row_of: Mapping[int, int] | None = None,
        times: pa.RecordBatch | None = None,
    ) -> tuple[pa.RecordBatch, np.ndarray]:
        """Return ``ends`` as rows, and the messages they are from.

        ``times`` has the times of events in the rows ``row_of``.
        """
        key = pa.RecordBatch.from_pylist(list(ends.values()), schema=self._key)
        columns = dict(zip(key.schema.names, key.columns, strict=True))
        if times is not None and row_of is not None:
            at = pa.array([row_of[i] for i in ends], pa.int64())
            for name in (CHANGE_TIME, COMMIT_TIME):
                if name in self._schema.names:
                    columns[name] = times[name].take(at)
        arrays = [columns.get(f.name, pa.nulls(len(ends), f.type)) for f in self._schema]
        rows = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        return _with_deleted(rows, True, self._schema), np.array([*ends], np.int64)

    def _read(self, data: bytes | None) -> dict[str, Any] | Bad:
        """Parse the columns of one key."""
        names = ", ".join(self.names)
        refusal = Bad(f"it ends a row, but its record's key does not name {names}")
        if data is None:
            return refusal
        try:
            text = data.decode()
        except UnicodeDecodeError:
            return refusal
        try:
            key = json.loads(text)
        except ValueError:
            key = text
        if isinstance(key, dict) and isinstance(key.get("payload"), dict):
            key = key["payload"]
        if not isinstance(key, dict) and len(self.names) == 1:
            is_text = pa.types.is_string(self._key.field(0).type)
            key = {self.names[0]: text if is_text else key}
        if not isinstance(key, dict) or any(key.get(name) is None for name in self.names):
            return refusal
        row = {name: key[name] for name in self.names}
        try:
            pa.RecordBatch.from_pylist([row], schema=self._key)
        except MemoryError:
            raise
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            return Bad(f"the record's key is no {names}: {first_line(error)}")
        return row


def _has_key(rows: pa.RecordBatch, names: Sequence[str]) -> pa.Array:
    """Return whether no key column of a row is null."""
    has_key = pa.array(np.ones(rows.num_rows, bool))
    for name in names:
        has_key = pc.and_(has_key, pc.is_valid(rows[name]))
    return has_key


def _with_deleted(rows: pa.RecordBatch, deleted: bool, schema: pa.Schema) -> pa.RecordBatch:
    columns = dict(zip(rows.schema.names, rows.columns, strict=True))
    if DELETED in schema.names:
        columns[DELETED] = pa.array(np.full(rows.num_rows, deleted))
    return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)


def _in_order(
    pieces: Sequence[tuple[pa.RecordBatch, np.ndarray]], schema: pa.Schema, bad: dict[int, Bad]
) -> Decoded:
    """Return the rows of good messages, in the order of messages and then of ``pieces``."""
    rows = joined([piece for piece, _ in pieces], schema)
    value_of = np.concatenate([of for _, of in pieces])
    order = np.argsort(value_of, kind="stable")
    order = order[~np.isin(value_of[order], np.array([*bad], np.int64))]
    return Decoded(rows.take(pa.array(order)), value_of[order], dict(sorted(bad.items())))
