"""Avro records decoded many at once: their bytes as one block of a container file.

The block does not say where a record ends. A record that is too short would take bytes of the next
one. So each record gets one more field, a guard of ten fixed bytes behind it: if it is not found
where the record ends, the record is not one.
"""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from rvertex.sources.logs.decode.conform import conformed
from rvertex.sources.logs.decode.decoded import Bad, Refused

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rvertex.sources.logs.decode.avro_schema import AvroSchema

_GUARD = "__guard"
_GUARD_VALUE = -6_148_914_691_236_517_206
_SYNC = bytes(range(16))
_MASK = (1 << 64) - 1


class AvroBlocks:
    """Records of one writer's schema, into the columns of ``schema``."""

    def __init__(self, writer: AvroSchema, schema: pa.Schema) -> None:
        import polars  # that it is missing is said here, not with the first message

        del polars
        self._schema = schema
        guard = {"name": _GUARD, "type": "long"}
        text = json.dumps({**writer, "fields": [*writer["fields"], guard]}).encode()
        meta = {b"avro.schema": text, b"avro.codec": b"null"}
        entries = [_bytes(name) + _bytes(value) for name, value in meta.items()]
        self._head = b"Obj\x01" + _long(len(entries)) + b"".join(entries) + _long(0) + _SYNC
        self._guard = _long(_GUARD_VALUE)

    def read(self, bodies: Sequence[bytes]) -> pa.RecordBatch:
        """A row for each of the bodies.

        Raises:
            Refused: one or more of them are no such record.
        """
        import polars
        from polars.exceptions import PanicException, PolarsError

        data = self._guard.join(bodies) + self._guard
        block = b"".join([self._head, _long(len(bodies)), _long(len(data)), data, _SYNC])
        try:
            table = polars.read_avro(io.BytesIO(block)).to_arrow()
        except (PolarsError, PanicException, OSError, ValueError) as error:
            raise Refused from error
        if table.num_rows != len(bodies):
            raise Refused
        if not pc.all(pc.equal(table.column(_GUARD), _GUARD_VALUE)).as_py():
            raise Refused
        found = conformed(table, self._schema)
        if isinstance(found, Bad):
            raise Refused(str(found))
        return found


def _bytes(data: bytes) -> bytes:
    return _long(len(data)) + data


def _long(value: int) -> bytes:
    """A number as Avro has it: zigzag, seven bits a byte."""
    left = ((value << 1) ^ (value >> 63)) & _MASK
    out = bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    out.append(left)
    return bytes(out)
