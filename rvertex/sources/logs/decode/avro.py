"""Decodes Avro: a message is one record, plain or after a header with the number of its schema.

The header is one byte 0 and the schema's number in the registry, in four bytes. The source declares
the columns: a field that the writer lacks is null, and fields that were not declared are ignored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa

from rvertex.sources.logs.decode.avro_blocks import AvroBlocks
from rvertex.sources.logs.decode.avro_rows import AvroRows
from rvertex.sources.logs.decode.avro_schema import AvroTypes, UnreadableAvroError
from rvertex.sources.logs.decode.decoded import Bad, Decoded, Refused, decode_one_row_each, joined
from rvertex.sources.logs.errors import DecoderMissingError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rvertex.sources.logs.decode.avro_schema import AvroSchema

HEADER_BYTES = 5
NO_RECORD = "not an Avro record of the writer's schema"
NO_HEADER = "no header of a schema registry (a byte 0 and the schema's number)"


class Registry(Protocol):
    """Returns the schemas whose numbers are in headers."""

    def schema(self, number: int) -> AvroSchema | None:
        """Return the schema with that number; None if there is none.

        Raises:
            LogUnreachableError: the registry does not answer.
        """


class AvroDecoder:
    """Decodes records into the columns of ``schema``.

    The writer's schema is fixed or registered.
    """

    def __init__(self, schema: pa.Schema, writer: AvroSchema | Registry) -> None:
        self._schema = schema
        self._registry = None if isinstance(writer, dict) else writer
        self._readers: dict[bytes, AvroBlocks | AvroRows] = {}
        if isinstance(writer, dict):
            self._readers[b""] = self._reader(writer)

    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        return decode_one_row_each(values, self._schema, self._parse, self._inspect, self._explain)

    def _parse(self, values: Sequence[bytes]) -> pa.RecordBatch:
        if self._registry is None:
            return self._readers[b""].read(values)
        heads = [value[:HEADER_BYTES] for value in values]
        first = heads[0]
        if heads.count(first) == len(heads):
            return self._of_header(first).read([value[HEADER_BYTES:] for value in values])
        return self._mixed(heads, values)

    def _mixed(self, heads: list[bytes], values: Sequence[bytes]) -> pa.RecordBatch:
        """Decode the values of each writer together, and restore their order."""
        pieces, places = [], []
        for head in dict.fromkeys(heads):
            rows = [i for i, other in enumerate(heads) if other == head]
            bodies = [values[i][HEADER_BYTES:] for i in rows]
            pieces.append(self._of_header(head).read(bodies))
            places.append(np.array(rows))
        order = np.argsort(np.concatenate(places), kind="stable")
        return joined(pieces, self._schema).take(pa.array(order))

    def _of_header(self, head: bytes) -> AvroBlocks | AvroRows:
        if head not in self._readers:
            assert self._registry is not None
            if len(head) < HEADER_BYTES or head[0] != 0:
                raise Refused(NO_HEADER)
            number = int.from_bytes(head[1:], "big")
            writer = self._registry.schema(number)
            if writer is None:
                raise Refused(f"the schema registry has no schema {number}")
            try:
                self._readers[head] = self._reader(writer)
            except UnreadableAvroError as error:
                raise Refused(f"schema {number} of the registry: {error}") from error
        return self._readers[head]

    def _reader(self, writer: AvroSchema) -> AvroBlocks | AvroRows:
        try:
            kind = AvroBlocks if AvroTypes(writer).are_in_blocks else AvroRows
            return kind(writer, self._schema)
        except ImportError as error:
            raise DecoderMissingError(str(error)) from error

    def _inspect(self, values: Sequence[bytes]) -> Iterator[dict[int, Bad]]:
        """Yield values whose bytes are not a record, with reasons.

        Other bad values may be missing.
        """
        yield self._bad_values(values)

    def _bad_values(self, values: Sequence[bytes]) -> dict[int, Bad]:
        width = 0 if self._registry is None else HEADER_BYTES
        places: dict[bytes, list[int]] = {}
        for k, value in enumerate(values):
            places.setdefault(value[:width], []).append(k)
        bad: dict[int, Bad] = {}
        for head, places_of_head in places.items():
            try:
                reader = self._of_header(head)
            except Refused as error:
                bad |= {k: Bad(str(error)) for k in places_of_head}
                continue
            is_bad = reader.are_bad([values[k][width:] for k in places_of_head])
            bad |= {places_of_head[k]: Bad(NO_RECORD) for k in np.flatnonzero(is_bad).tolist()}
        return bad

    def _explain(self, value: bytes) -> Bad:
        try:
            self._parse([value])
        except Refused as error:
            return Bad(str(error) or NO_RECORD)
        raise AssertionError("a value was rejected once and then accepted")
