"""Decodes Arrow: a message is one IPC stream of any number of rows, which share its offset.

A message is atomic: all of its rows become events, or none. A missing column is null, columns that
were not declared are ignored, and a column of another type is converted if no value changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rvertex.sources.files import first_line
from rvertex.sources.logs.decode.decoded import NO_VALUE, Bad, Decoded, conformed, joined

if TYPE_CHECKING:
    from collections.abc import Sequence


class ArrowDecoder:
    """Reads IPC streams into the columns of ``schema``."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        pieces: list[pa.RecordBatch] = []
        bad: dict[int, Bad] = {}
        counts = np.zeros(len(values), np.int64)
        for i, value in enumerate(values):
            rows_or_bad = Bad(NO_VALUE) if value is None else self._read(value)
            if isinstance(rows_or_bad, Bad):
                bad[i] = rows_or_bad
            elif rows_or_bad.num_rows:
                pieces.append(rows_or_bad)
                counts[i] = rows_or_bad.num_rows
        value_of = np.repeat(np.arange(len(values)), counts)
        return Decoded(joined(pieces, self._schema), value_of, bad)

    def _read(self, value: bytes) -> pa.RecordBatch | Bad:
        try:
            with pa.ipc.open_stream(value) as reader:
                table = reader.read_all().combine_chunks()
            table.validate(full=True)  # the data is untrusted
        except MemoryError:
            raise
        except (pa.ArrowException, OSError, ValueError) as error:
            return Bad(f"not an Arrow IPC stream: {first_line(error)}")
        return conformed(table, self._schema)
