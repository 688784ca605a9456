"""Batches of items as Parquet segments and back. The only file that knows Parquet.

A segment has the column ``_seq`` first, then the item columns. Its footer says, as JSON under
:data:`FOOTER_KEY`: format version, stream, ``lo``, ``hi``, columns, rows per row group and the
content digest of each row group (see :mod:`rstream.digest`; over items, not over file bytes).

Invariants: (1) row groups hold consecutive seqs, all but the last the same number; (2) the sum of
the row group digests is the digest of ``[lo, hi)``.
"""

from __future__ import annotations

import base64
import itertools
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rstream.batch import KIND, SEQ, VE, VS, Items
from rstream.dictionaries import (
    batch_bytes,
    compact,
    is_dictionary,
    is_form_of,
    join_batches,
    plain_array,
)
from rstream.digest import StreamDigest
from rstream.errors import CorruptSegmentError
from rstream.hashing import value_buffer
from rstream.types import SeqRange

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

FORMAT_VERSION = 1
FOOTER_KEY = b"rstream"
#: Where Arrow's readers look for the types of the columns.
_ARROW_KEY = "ARROW:schema"
ROW_GROUP_ROWS_MAX = 1 << 16
ROW_GROUP_BYTES_MAX = 8 << 20
#: Text is written as a dictionary where so many rows have each value so often on average.
_SAMPLE_ROWS = 1 << 14
_REPEATS_MIN = 3
#: Floats are compressed where that takes a fifth away.
_PAYING_SHARE = 0.8


@dataclass(frozen=True, slots=True)
class SegmentInfo:
    """What a footer says. ``digests``: one per row group; ``columns``: their names and types."""

    stream: str
    seqs: SeqRange
    columns: tuple[str, ...]
    group_rows: int
    digests: tuple[str, ...]


def encode_segment(
    stream: str,
    first_seq: int,
    batches: Sequence[pa.RecordBatch],
    *,
    schema: pa.Schema | None = None,
) -> pa.Buffer:
    """The bytes of a segment that holds consecutive ``batches``, at least one row.

    The file says that its columns are those of ``schema`` (None: of the batches), also where text
    is written as the dictionaries that it came in. Copies one row group at a time.
    """
    rows = sum(batch.num_rows for batch in batches)
    assert rows > 0
    row_bytes = max(sum(map(batch_bytes, batches)) // rows, 1)
    group_rows = max(min(ROW_GROUP_ROWS_MAX, ROW_GROUP_BYTES_MAX // row_bytes), 1)
    sink = pa.BufferOutputStream()
    digests: list[str] = []
    groups = _groups(batches, group_rows)
    first = next(groups)
    declared = _file_schema(schema or first.schema)
    written = _file_schema(_written(first, schema or first.schema))
    options = _writer_options(written, first.slice(0, _SAMPLE_ROWS))
    is_declared = written.equals(declared)
    with pq.ParquetWriter(sink, written, store_schema=is_declared, **options) as writer:
        seq = first_seq
        for batch in itertools.chain([first], groups):
            digest = StreamDigest()
            digest.update(seq, batch)
            digests.append(digest.hexdigest())
            seqs = pa.array(np.arange(seq, seq + batch.num_rows))
            columns = [seqs, *_columns(batch, written)]
            writer.write_table(pa.Table.from_arrays(columns, schema=written), group_rows)
            seq += batch.num_rows
        footer = {
            "version": FORMAT_VERSION,
            "stream": stream,
            "lo": first_seq,
            "hi": first_seq + rows,
            "columns": _describe(declared),
            "group_rows": group_rows,
            "digests": digests,
        }
        writer.add_key_value_metadata({FOOTER_KEY.decode(): json.dumps(footer)})
        if not is_declared:
            told = base64.b64encode(declared.serialize().to_pybytes()).decode()
            writer.add_key_value_metadata({_ARROW_KEY: told})
    return sink.getvalue()


class SegmentFile:
    """An open segment. ``columns`` selects payload columns (None: all); reserved ones always come.

    Raises:
        CorruptSegmentError: the file is not what its name promises. Any method may raise it.
    """

    def __init__(self, source: Any, path: str, seqs: SeqRange, *, columns: Sequence[str] | None):
        self._path = path
        try:
            self._file = pq.ParquetFile(source, pre_buffer=False)
            self.info = _parse_footer(self._file.metadata.metadata or {})
        except (pa.ArrowException, OSError, ValueError, KeyError, TypeError) as error:
            raise CorruptSegmentError(path, f"unreadable footer: {error}") from error
        self._columns = None if columns is None else [KIND, VS, VE, *columns]
        self._check(seqs)

    @property
    def schema(self) -> pa.Schema:
        """The item schema."""
        schema = self._file.schema_arrow
        return pa.schema([f for f in schema if f.name != SEQ])

    def read_group(self, seq: int, *, verify: bool) -> Items:
        """The items from ``seq`` to the end of its row group."""
        seqs = self.info.seqs
        assert seq in seqs, (seq, seqs)
        group = (seq - seqs.lo) // self.info.group_rows
        first = seqs.lo + group * self.info.group_rows
        wanted = self._columns
        if verify or wanted is None:
            wanted = [f.name for f in self._file.schema_arrow if f.name != SEQ]
        try:
            table = self._file.read_row_group(group, columns=wanted, use_threads=False)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise CorruptSegmentError(self._path, f"row group {group}: {error}") from error
        items = Items(first, _one_batch(table))
        if verify:
            self._verify(group, items)
            if self._columns is not None:
                items = Items(first, items.batch.select(self._columns))
        return items.from_seq(seq)

    def close(self) -> None:
        """Release the file."""
        self._file.close(force=True)

    def _check(self, seqs: SeqRange) -> None:
        info, rows = self.info, self._file.metadata.num_rows
        if info.seqs != seqs or rows != len(seqs):
            reason = f"its footer says {info.seqs} and {rows} rows"
            raise CorruptSegmentError(self._path, reason)
        if list(info.columns) != _describe(self._file.schema_arrow):
            raise CorruptSegmentError(self._path, "its columns are not those of its footer")
        if len(info.digests) != self._file.metadata.num_row_groups:
            raise CorruptSegmentError(self._path, "its footer lacks digests")

    def _verify(self, group: int, items: Items) -> None:
        digest = StreamDigest()
        digest.update(items.first_seq, items.batch)
        if digest.hexdigest() != self.info.digests[group]:
            raise CorruptSegmentError(self._path, f"row group {group}: its content digest differs")


def _describe(schema: pa.Schema) -> list[str]:
    return [f"{f.name} {f.type}" for f in schema]


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    batches = table.combine_chunks().to_batches()
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def _file_schema(schema: pa.Schema) -> pa.Schema:
    return pa.schema([pa.field(SEQ, pa.int64(), nullable=False), *schema])


def _groups(batches: Sequence[pa.RecordBatch], rows_max: int) -> Iterator[pa.RecordBatch]:
    """The rows of ``batches``, so many at a time."""
    parts: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        lo = 0
        while lo < batch.num_rows:
            part = batch.slice(lo, rows_max - rows)
            parts.append(part)
            lo += part.num_rows
            rows += part.num_rows
            if rows == rows_max:
                yield join_batches(parts)
                parts, rows = [], 0
    if parts:
        yield join_batches(parts)


def _written(first: pa.RecordBatch, declared: pa.Schema) -> pa.Schema:
    """The form of each column in a file: a dictionary whose values come again is taken over."""
    assert is_form_of(first.schema, declared), (first.schema, declared)
    kinds = [
        column.type if is_dictionary(column.type) and _pays(column) else field.type
        for column, field in zip(first.columns, declared, strict=True)
    ]
    return pa.schema([f.with_type(kind) for f, kind in zip(declared, kinds, strict=True)])


def _pays(column: pa.DictionaryArray) -> bool:
    return len(column.dictionary) * _REPEATS_MIN <= len(column)


def _columns(batch: pa.RecordBatch, written: pa.Schema) -> list[pa.Array]:
    """The columns of a row group in the form in which they are written."""
    columns = []
    for column, field in zip(batch.columns, list(written)[1:], strict=True):
        if not is_dictionary(field.type):
            columns.append(plain_array(column))
        elif not is_dictionary(column.type):
            columns.append(column.cast(field.type))
        else:
            columns.append(column if _pays(column) else compact(column))
    return columns


def _repeating(sample: pa.RecordBatch, written: pa.Schema) -> list[str]:
    """The columns of text whose values come again and again: as dictionaries they cost less."""
    rows = sample.num_rows
    return [
        field.name
        for field in list(written)[1:]
        if pa.types.is_string(field.type)
        and rows >= _SAMPLE_ROWS
        and pc.count_distinct(plain_array(sample.column(field.name))).as_py() * _REPEATS_MIN <= rows
    ]


def _writer_options(schema: pa.Schema, sample: pa.RecordBatch) -> dict[str, Any]:
    """Cheap first: integers as deltas and lz4, a third faster than plain lz4 and half the size.

    Dictionaries where the data has them, and for text that repeats: there they halve the time.
    Floats that lz4 makes little of are left as they are: to try costs four times what it is to
    write them. BYTE_STREAM_SPLIT would be faster still, but not every reader knows it for integers.
    """
    dictionaries = [f.name for f in schema if pa.types.is_dictionary(f.type)]
    dictionaries += _repeating(sample, schema)
    deltas = {f.name: "DELTA_BINARY_PACKED" for f in schema if _is_stored_as_integer(f.type)}
    return {
        "compression": _compression(schema, sample),
        # Else the items of a list come back under another name, and the schema as another one.
        "use_compliant_nested_type": False,
        "use_dictionary": dictionaries or False,
        "write_statistics": [SEQ, VS],
        "column_encoding": deltas,
    }


def _compression(schema: pa.Schema, sample: pa.RecordBatch) -> str | dict[str, str]:
    """By column where all are flat."""
    if any(pa.types.is_nested(f.type) for f in schema) or sample.num_rows < _SAMPLE_ROWS:
        return "lz4"
    given = [sample.column(f.name) for f in list(schema)[1:]]
    noise = {f.name for f, c in zip(list(schema)[1:], given, strict=True) if _is_noise(f.type, c)}
    return {name: "none" if name in noise else "lz4" for name in schema.names} if noise else "lz4"


def _is_noise(kind: pa.DataType, sample: pa.Array) -> bool:
    """Whether lz4 would make little of such values."""
    if not pa.types.is_float64(kind) and not pa.types.is_float32(kind):
        return False
    data = value_buffer(sample, kind.to_pandas_dtype()).tobytes()
    packed = pa.compress(data, codec="lz4_raw", asbytes=True)
    return len(packed) > len(data) * _PAYING_SHARE


def _is_stored_as_integer(kind: pa.DataType) -> bool:
    is_time = pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_time(kind)
    return bool(pa.types.is_integer(kind) or is_time)


def _parse_footer(metadata: dict[bytes, bytes]) -> SegmentInfo:
    footer = json.loads(metadata[FOOTER_KEY])
    if footer["version"] != FORMAT_VERSION:
        raise ValueError(f"format version {footer['version']}, this is {FORMAT_VERSION}")
    seqs = SeqRange(int(footer["lo"]), int(footer["hi"]))
    digests = tuple(str(d) for d in footer["digests"])
    return SegmentInfo(
        stream=str(footer["stream"]),
        seqs=seqs,
        columns=tuple(str(c) for c in footer["columns"]),
        group_rows=int(footer["group_rows"]),
        digests=digests,
    )
