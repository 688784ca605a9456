"""Columnar items: the only form of events and CTIs (watermarks) in memory, on wire and disk.

A batch is an Arrow RecordBatch with ``_kind int8[n]`` (0 event, 1 CTI), ``_vs int64[n]``, ``_ve
int64[n]`` (microseconds UTC, lifetime ``[vs, ve)``) and the payload columns. :class:`Items` adds
the sequence number of the first row; the following rows have the following numbers. A CTI row has
``_vs = _ve = t`` and null payload.

Invariants: (1) an event has ``vs < ve``, or is an end edge (:mod:`rstream.items.edges`); (2) CTIs
never decrease within a stream; (3) after ``CTI(t)`` no event has ``vs < t``. Source: StreamScope
NSDI'16, "continuous event streams".
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from rstream.errors import InvalidBatchError
from rstream.items.dictionaries import is_form_of, remembered_by_schema

KIND = "_kind"
VS = "_vs"
VE = "_ve"
SEQ = "_seq"
EVENT = 0
CTI = 1
RESERVED = (SEQ, KIND, VS, VE)


@dataclass(frozen=True, slots=True)
class Items:
    """A batch and the sequence number of its first row. The other rows have consecutive numbers."""

    first_seq: int
    batch: pa.RecordBatch
    #: Digest of these items alone (:mod:`rstream.items.digest`), empty if unknown.
    digest: bytes = field(default=b"", compare=False)

    @property
    def next_seq(self) -> int:
        return self.first_seq + int(self.batch.num_rows)

    def from_seq(self, seq: int) -> Items:
        """Return the part at and after ``seq`` (zero copy)."""
        assert self.first_seq <= seq <= self.next_seq, (self.first_seq, seq, self.next_seq)
        if seq == self.first_seq:
            return self
        return Items(seq, self.batch.slice(seq - self.first_seq))

    def head(self, rows_max: int) -> Items:
        """Return at most the first ``rows_max`` rows (zero copy)."""
        if rows_max >= self.batch.num_rows:
            return self
        return Items(self.first_seq, self.batch.slice(0, rows_max))


def item_schema(payload: pa.Schema) -> pa.Schema:
    """Return the stream schema of a payload: reserved columns first, payload nullable."""
    for name in payload.names:
        if name in RESERVED:
            raise InvalidBatchError("(schema)", f"column name {name!r} is reserved")
    head = [
        pa.field(KIND, pa.int8(), nullable=False),
        pa.field(VS, pa.int64(), nullable=False),
        pa.field(VE, pa.int64(), nullable=False),
    ]
    return pa.schema(head + [pa.field(f.name, f.type) for f in payload])


@remembered_by_schema
def item_schema_of(events: pa.Schema) -> pa.Schema:
    """Return the stream schema of events with these columns."""
    return item_schema(payload_schema(events))


def payload_schema(schema: pa.Schema) -> pa.Schema:
    """Return the payload columns of an item or event schema."""
    return pa.schema([f for f in schema if f.name not in RESERVED])


def event_schema(payload: pa.Schema) -> pa.Schema:
    """Return the schema of events alone (no ``_kind``), as used inside a vertex."""
    head = [pa.field(VS, pa.int64(), nullable=False), pa.field(VE, pa.int64(), nullable=False)]
    return pa.schema(head + [pa.field(f.name, f.type) for f in payload])


def int64_column(batch: pa.RecordBatch, name: str) -> np.ndarray:
    """Return the column ``name`` as int64[n], zero copy. The column has no nulls."""
    return batch.column(name).to_numpy(zero_copy_only=True)  # type: ignore[no-any-return]


def lifetimes(vs: np.ndarray, ve: np.ndarray) -> np.ndarray:
    """Return the lengths of lifetimes ``[vs, ve)``, both int64[n], as uint64[n].

    Unsigned, because an endless lifetime that starts before 1970 exceeds int64.
    """
    return ve.view(np.uint64) - vs.view(np.uint64)


def kinds(batch: pa.RecordBatch) -> np.ndarray:
    """Return the ``_kind`` column as int8[n], zero copy."""
    return batch.column(KIND).to_numpy(zero_copy_only=True)  # type: ignore[no-any-return]


def validate_items(stream: str, batch: pa.RecordBatch, schema: pa.Schema) -> None:
    """Check a batch where it enters the system, so that later code can rely on it.

    Text columns may be dictionaries (:mod:`rstream.items.dictionaries`).

    Raises:
        InvalidBatchError: wrong columns or types, an event with ``vs == ve``, an unknown kind.
    """
    given = batch.schema
    if not given.equals(schema, check_metadata=False) and not is_form_of(given, schema):
        raise InvalidBatchError(
            stream, f"expected columns {_describe(schema)}, got {_describe(batch.schema)}"
        )
    for name in (KIND, VS, VE):
        if batch.column(name).null_count:
            raise InvalidBatchError(stream, f"column {name} has nulls")
    kind = kinds(batch)
    event = kind == EVENT
    if not (event | (kind == CTI)).all():
        raise InvalidBatchError(stream, "column _kind holds a value that is neither 0 nor 1")
    bad = event & (int64_column(batch, VS) == int64_column(batch, VE))
    if bad.any():
        raise InvalidBatchError(stream, f"row {int(bad.argmax())}: an event has _vs == _ve")


def cti_batch(time: int, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch of one CTI at ``time`` (item schema)."""
    columns = [
        pa.array([CTI], pa.int8()),
        pa.array([time], pa.int64()),
        pa.array([time], pa.int64()),
    ]
    columns += [pa.nulls(1, f.type) for f in list(schema)[3:]]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def only_events(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the events of a batch of items, without ``_kind`` (zero copy if there is no CTI)."""
    mask = kinds(batch) == EVENT
    if not mask.all():
        batch = batch.filter(pa.array(mask))
    return batch.drop_columns([KIND])


@remembered_by_schema
def empty_events(payload: pa.Schema) -> pa.RecordBatch:
    """Return a batch without events that has the columns of ``payload``."""
    return pa.RecordBatch.from_pylist([], schema=event_schema(payload))


def _describe(schema: pa.Schema) -> str:
    return ", ".join(f"{f.name} {f.type}" for f in schema)


def is_wider(schema: pa.Schema, other: pa.Schema) -> bool:
    """Return whether ``schema`` has all columns of ``other``, and possibly more."""
    if schema.equals(other, check_metadata=False):
        return True
    names = set(schema.names)
    return all(f.name in names and schema.field(f.name).type == f.type for f in other)


def widened(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the batch with all columns of ``schema``; a missing column is null."""
    if batch.schema.names == schema.names:
        return batch
    names = set(batch.schema.names)
    columns = [
        batch.column(f.name) if f.name in names else pa.nulls(batch.num_rows, f.type)
        for f in schema
    ]
    fields = [f.with_type(column.type) for f, column in zip(schema, columns, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))
