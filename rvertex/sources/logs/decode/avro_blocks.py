"""Avro records decoded many at once: their bytes as one block of a container file.

The block does not say where a record ends. A record that is too short would take bytes of the next
one. So :mod:`rvertex.sources.logs.decode.avro_bytes` checks the bytes of each record before.
"""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING

from rvertex.sources.logs.decode.avro_bytes import malformed
from rvertex.sources.logs.decode.conform import conformed
from rvertex.sources.logs.decode.decoded import Bad, Refused

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import pyarrow as pa

    from rvertex.sources.logs.decode.avro_schema import AvroSchema

_COUNT = "__count"
_SYNC = bytes(range(16))
_MASK = (1 << 64) - 1


class AvroBlocks:
    """Records of one writer's schema, into the columns of ``schema``."""

    def __init__(self, writer: AvroSchema, schema: pa.Schema) -> None:
        import polars  # that it is missing is said here, not with the first message

        del polars
        self._schema = schema
        self._writer = writer
        # A column that nobody asks for says how many rows there are.
        count = {"name": _COUNT, "type": "boolean"}
        text = json.dumps({**writer, "fields": [*writer["fields"], count]}).encode()
        meta = {b"avro.schema": text, b"avro.codec": b"null"}
        entries = [_bytes(name) + _bytes(value) for name, value in meta.items()]
        self._head = b"Obj\x01" + _long(len(entries)) + b"".join(entries) + _long(0) + _SYNC

    def are_bad(self, bodies: Sequence[bytes]) -> np.ndarray:
        """Whether each of the bodies is no such record, bool[n]."""
        return malformed(bodies, self._writer)

    def read(self, bodies: Sequence[bytes]) -> pa.RecordBatch:
        """A row for each of the bodies.

        Raises:
            Refused: one or more of them are no such record.
        """
        import polars
        from polars.exceptions import PanicException, PolarsError

        if self.are_bad(bodies).any():  # polars would panic, or take a wrong branch for right
            raise Refused
        data = b"\0".join([*bodies, b""])
        block = b"".join([self._head, _long(len(bodies)), _long(len(data)), data, _SYNC])
        try:
            table = polars.read_avro(io.BytesIO(block)).to_arrow()
        except (PolarsError, PanicException, OSError, ValueError) as error:
            raise Refused from error
        if table.num_rows != len(bodies):
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
