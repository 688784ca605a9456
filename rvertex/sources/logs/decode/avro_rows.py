"""Decodes Avro records one by one: slower, for schemas with types that blocks do not support."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from rvertex.sources.files import first_line
from rvertex.sources.logs.decode.avro_blocks import has_elements_without_bytes, malformed
from rvertex.sources.logs.decode.avro_schema import AvroTypes, UnreadableAvroError
from rvertex.sources.logs.decode.decoded import Bad, Refused, conformed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rvertex.sources.logs.decode.avro_schema import AvroColumn, AvroSchema


class AvroRows:
    """Decodes records of one writer's schema to the columns of ``schema``."""

    def __init__(self, writer: AvroSchema, schema: pa.Schema) -> None:
        """Read records of ``writer``.

        Raises UnreadableAvroError if a required field fits no column.
        """
        import fastavro
        from fastavro.schema import SchemaParseException

        self._schema = schema
        types = AvroTypes(writer)
        self._columns = {name: types.column(name) for name in types.names if name in schema.names}
        self._read = fastavro.schemaless_reader
        try:
            self._writer = fastavro.parse_schema(types.wire)
        except (SchemaParseException, ValueError, KeyError, TypeError) as error:
            raise UnreadableAvroError(f"not an Avro schema ({first_line(error)})") from error
        self._wire = types.wire
        #: Whether to check records first, because a few bytes can encode more than fastavro can
        #: read.
        self._is_checked = types.is_recursive or has_elements_without_bytes(types.wire)

    def read(self, bodies: Sequence[bytes]) -> pa.RecordBatch:
        """Return a row per body.

        Raises:
            Refused: one or more bodies are not such a record.
        """
        if self._are_malformed(bodies).any():
            raise Refused
        rows = [self._row(body) for body in bodies]
        columns = [_array(name, column, rows) for name, column in self._columns.items()]
        # A batch without columns needs this column for its row count.
        count = pa.nulls(len(rows))
        table = pa.Table.from_arrays([*columns, count], names=[*self._columns, ""])
        rows_or_bad = conformed(table, self._schema)
        if isinstance(rows_or_bad, Bad):
            raise Refused(str(rows_or_bad))
        return rows_or_bad

    def are_bad(self, bodies: Sequence[bytes]) -> np.ndarray:
        """Return which bodies are not such a record, bool[n]."""
        bad = self._are_malformed(bodies)
        for k in np.flatnonzero(~bad).tolist():
            try:
                self._row(bodies[k])
            except Refused:
                bad[k] = True
        return bad

    def _are_malformed(self, bodies: Sequence[bytes]) -> np.ndarray:
        """Return which bodies must not be read, bool[n]."""
        if not self._is_checked:
            return np.zeros(len(bodies), np.bool_)
        try:
            return malformed(bodies, self._wire)
        except RecursionError:  # many arrays between a record and the next record within it
            if len(bodies) == 1:
                return np.ones(1, np.bool_)
        return np.concatenate([self._are_malformed([body]) for body in bodies])

    def _row(self, body: bytes) -> dict[str, Any]:
        stream = io.BytesIO(body)
        try:
            record = self._read(stream, self._writer, None)
        except Exception as error:  # untrusted bytes may cause any error
            raise Refused from error
        if not isinstance(record, dict) or stream.tell() != len(body):
            raise Refused
        return record


def _array(name: str, column: AvroColumn, rows: Sequence[dict[str, Any]]) -> pa.Array:
    values = [row[name] for row in rows]
    try:
        if column.convert is not None:
            values = [column.convert(value) for value in values]
        return pa.array(values, column.arrow)
    except MemoryError:
        raise
    except (pa.ArrowException, Refused, OverflowError) as error:
        raise Refused(f"column {name!r}: {first_line(error)}") from error
