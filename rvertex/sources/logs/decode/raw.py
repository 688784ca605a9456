"""Decodes raw bytes: a message is one row with one column of bytes or text. Null stays null."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rstream.items.text_failures import not_utf8
from rvertex.sources.formats.rows.bad_rows import NO_TEXT
from rvertex.sources.logs.decode.decoded import (
    Bad,
    Decoded,
    Refused,
    decode_one_row_each,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class RawDecoder:
    """Returns values unchanged. A schema without columns ignores them."""

    def __init__(self, schema: pa.Schema) -> None:
        assert len(schema) <= 1, schema
        self._schema = schema

    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        everything = np.arange(len(values))
        if not len(self._schema):
            rows = pa.RecordBatch.from_struct_array(pa.array([{}] * len(values), pa.struct([])))
            return Decoded(rows, everything, {})
        if pa.types.is_binary(self._schema.types[0]):
            rows = pa.record_batch([pa.array(values, pa.binary())], schema=self._schema)
            return Decoded(rows, everything, {})
        # null is not bad text, so it must not be checked as a value
        decoded = decode_one_row_each(
            [b"" if value is None else value for value in values],
            self._schema,
            self._parse,
            _all_bad,
            _bad,
        )
        is_null = np.array([values[i] is None for i in decoded.value_of], bool)
        (texts,) = decoded.rows.columns
        texts = pa.compute.if_else(pa.array(is_null), pa.scalar(None, texts.type), texts)
        return Decoded(pa.record_batch([texts], schema=self._schema), decoded.value_of, decoded.bad)

    def _parse(self, values: Sequence[bytes]) -> pa.RecordBatch:
        try:
            texts = pa.array(values, pa.binary()).cast(self._schema.types[0])
        except pa.ArrowInvalid as error:
            raise Refused from error
        return pa.record_batch([texts], schema=self._schema)


def _all_bad(values: Sequence[bytes]) -> Iterator[dict[int, Bad]]:
    is_bad = not_utf8(pa.array(values, pa.binary()))
    yield {k: Bad(NO_TEXT) for k in np.flatnonzero(is_bad).tolist()}


def _bad(_: bytes) -> Bad:
    return Bad(NO_TEXT)
