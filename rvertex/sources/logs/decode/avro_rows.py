"""Avro records decoded one by one: slower, for schemas with maps or unions of several types."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from rstream.items.exact import exact_rows
from rvertex.sources.logs.decode.decoded import Refused

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from rvertex.sources.logs.decode.avro_schema import AvroSchema


class AvroRows:
    """Records of one writer's schema, into the columns of ``schema``."""

    def __init__(self, writer: AvroSchema, schema: pa.Schema) -> None:
        import fastavro

        self._schema = schema
        self._read = fastavro.schemaless_reader
        self._writer = fastavro.parse_schema(writer)

    def read(self, bodies: Sequence[bytes]) -> pa.RecordBatch:
        """A row for each of the bodies.

        Raises:
            Refused: one or more of them are no such record.
        """
        try:
            rows = [self._row(body) for body in bodies]
            return exact_rows(rows, self._schema)
        except Exception as error:  # of whatever kind the bytes of a stranger call forth
            raise Refused from error

    def _row(self, body: bytes) -> dict[str, object]:
        stream = io.BytesIO(body)
        found = self._read(stream, self._writer, None)
        if not isinstance(found, dict) or stream.tell() != len(body):
            raise Refused
        return found
