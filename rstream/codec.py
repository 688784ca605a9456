"""Batches of items as Parquet segments and back. The only file that knows Parquet.

A segment has the column ``_seq`` first, then the item columns. Its footer says, as JSON under
:data:`FOOTER_KEY`: format version, stream, ``lo``, ``hi``, columns and the content digest of each
row group (see :mod:`rstream.digest`; over items, not over file bytes). Version 1 said a number of
rows too, that of all row groups but the last; since then they end where batches do.

Invariants: (1) row groups hold consecutive seqs; (2) the sum of the row group digests is the digest
of ``[lo, hi)``; (3) a digest that came with a batch is taken over, not made from what is written:
what changed on the way is found when it is read.
"""

from __future__ import annotations

import base64
import itertools
import json
from bisect import bisect_right
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
from rstream.row_groups import (
    REPEATS_MIN,
    decoded_row_bytes,
    digest_of,
    have_one_dictionary,
    pays,
    row_groups,
)
from rstream.types import SeqRange

if TYPE_CHECKING:
    from collections.abc import Sequence

FORMAT_VERSION = 2
_READ_VERSIONS = (1, 2)
FOOTER_KEY = b"rstream"
#: Where Arrow's readers look for the types of the columns.
_ARROW_KEY = "ARROW:schema"
ROW_GROUP_ROWS_MAX = 1 << 17
ROW_GROUP_BYTES_MAX = 8 << 20
#: What the values of dictionaries in a row group may take once it is read: the file says plain. By
#: their mean length, and if all were the longest; then Arrow still counts their bytes in 32 bits.
ROW_GROUP_DECODED_BYTES_MAX = 64 << 20
ROW_GROUP_LONGEST_BYTES_MAX = 1 << 30
#: Rows that are looked at to see what pays.
_SAMPLE_ROWS = 1 << 14
#: A column is compressed where that takes a fifth away.
_PAYING_SHARE = 0.8
#: What pays for a column is looked at again after so many segments.
_SEGMENTS_PER_LOOK = 16


@dataclass(frozen=True, slots=True)
class SegmentInfo:
    """What a footer says. ``digests``: one per row group; ``columns``: their names and types."""

    stream: str
    seqs: SeqRange
    columns: tuple[str, ...]
    digests: tuple[str, ...]


class SegmentEncoder:
    """Makes the segments of a stream; what pays for its columns it asks now and then.

    The files say that their columns are those of ``schema`` (None: of the batches), also where text
    is written as the dictionaries that it came in.
    """

    def __init__(self, stream: str, schema: pa.Schema | None = None) -> None:
        self._stream = stream
        self._schema = schema
        #: The form of the columns in a file and how they are written, as last found out.
        self._written: pa.Schema | None = None
        self._options: dict[str, Any] = {}
        self._segments = 0

    def encode(
        self,
        first_seq: int,
        batches: Sequence[pa.RecordBatch],
        digests: Sequence[bytes] = (),
    ) -> pa.Buffer:
        """The bytes of a segment that holds consecutive ``batches``, at least one row.

        ``digests``: those of the batches, empty where it is not known. Copies only what is small.
        """
        rows = sum(batch.num_rows for batch in batches)
        assert rows > 0
        group_rows = _group_rows(batches, rows)
        sink = pa.BufferOutputStream()
        told: list[str] = []
        groups = row_groups(first_seq, batches, digests, group_rows)
        first = next(groups)
        schema = self._schema or first[0].batch.schema
        declared = _file_schema(schema)
        written, options = self._form(max(first, key=lambda part: part.batch.num_rows), schema)
        is_declared = written.equals(declared)
        with pq.ParquetWriter(sink, written, store_schema=is_declared, **options) as writer:
            for parts in itertools.chain([first], groups):
                told.append(digest_of(parts).hexdigest())
                writer.write_table(_table(parts, written), group_rows)
            footer = {
                "version": FORMAT_VERSION,
                "stream": self._stream,
                "lo": first_seq,
                "hi": first_seq + rows,
                "columns": _describe(declared),
                "digests": told,
            }
            writer.add_key_value_metadata({FOOTER_KEY.decode(): json.dumps(footer)})
            if not is_declared:
                types = base64.b64encode(declared.serialize().to_pybytes()).decode()
                writer.add_key_value_metadata({_ARROW_KEY: types})
        return sink.getvalue()

    def _form(self, part: Items, schema: pa.Schema) -> tuple[pa.Schema, dict[str, Any]]:
        """The form of each column, and how it is written."""
        written = _file_schema(_written(part.batch, schema))
        is_known = self._written is not None and written.equals(self._written)
        if not is_known or self._segments % _SEGMENTS_PER_LOOK == 0:
            sample = part.head(_SAMPLE_ROWS)
            self._segments = 0
            self._written, self._options = written, _writer_options(written, sample)
            if sample.batch.num_rows < _SAMPLE_ROWS:
                return written, self._options
        self._segments += 1
        return written, self._options


def encode_segment(
    stream: str,
    first_seq: int,
    batches: Sequence[pa.RecordBatch],
    *,
    schema: pa.Schema | None = None,
) -> pa.Buffer:
    """One segment alone; see :class:`SegmentEncoder`."""
    return SegmentEncoder(stream, schema).encode(first_seq, batches)


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
            self._group_ends = _group_ends(self._file.metadata, self.info.seqs.lo)
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
        group = bisect_right(self._group_ends, seq)
        first = self._group_ends[group - 1] if group else seqs.lo
        wanted = self._columns
        if verify or wanted is None:
            wanted = [f.name for f in self._file.schema_arrow if f.name != SEQ]
        try:
            table = self._file.read_row_group(group, columns=wanted, use_threads=False)
            items = Items(first, _one_batch(table))
        except (pa.ArrowException, OSError, ValueError) as error:
            raise CorruptSegmentError(self._path, f"row group {group}: {error}") from error
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


def _group_rows(batches: Sequence[pa.RecordBatch], rows: int) -> int:
    """How many rows a row group has at most: bounded as they are carried, and as they are read."""
    row_bytes = max(sum(map(batch_bytes, batches)) // rows, 1)
    mean, longest = decoded_row_bytes(batches)
    return max(
        min(
            ROW_GROUP_ROWS_MAX,
            ROW_GROUP_BYTES_MAX // row_bytes,
            ROW_GROUP_DECODED_BYTES_MAX // max(mean, 1),
            ROW_GROUP_LONGEST_BYTES_MAX // max(longest, 1),
        ),
        1,
    )


def _describe(schema: pa.Schema) -> list[str]:
    return [f"{f.name} {f.type}" for f in schema]


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    batches = table.combine_chunks().to_batches()
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def _file_schema(schema: pa.Schema) -> pa.Schema:
    return pa.schema([pa.field(SEQ, pa.int64(), nullable=False), *schema])


def _group_ends(metadata: pq.FileMetaData, lo: int) -> list[int]:
    """The seq after the last one of each row group."""
    rows = (metadata.row_group(k).num_rows for k in range(metadata.num_row_groups))
    return list(itertools.accumulate(rows, initial=lo))[1:]


def _table(parts: list[Items], written: pa.Schema) -> pa.Table:
    """A row group with its sequence numbers, in the form in which it is written."""
    batches = [part.batch for part in parts]
    if not have_one_dictionary(batches):
        batches = [join_batches(batches)]
    seq = parts[0].first_seq
    chunks: list[pa.RecordBatch] = []
    for batch in batches:
        seqs = pa.array(np.arange(seq, seq + batch.num_rows))
        columns = [seqs, *_columns(batch, written)]
        chunks.append(pa.RecordBatch.from_arrays(columns, schema=written))
        seq += batch.num_rows
    return pa.Table.from_batches(chunks)


def _written(first: pa.RecordBatch, declared: pa.Schema) -> pa.Schema:
    """The form of each column in a file: a dictionary whose values come again is taken over."""
    assert is_form_of(first.schema, declared), (first.schema, declared)
    kinds = [
        column.type if is_dictionary(column.type) and pays(column) else field.type
        for column, field in zip(first.columns, declared, strict=True)
    ]
    return pa.schema([f.with_type(kind) for f, kind in zip(declared, kinds, strict=True)])


def _columns(batch: pa.RecordBatch, written: pa.Schema) -> list[pa.Array]:
    """The columns of a row group in the form in which they are written."""
    columns = []
    for column, field in zip(batch.columns, list(written)[1:], strict=True):
        if not is_dictionary(field.type):
            columns.append(plain_array(column))
        elif not is_dictionary(column.type):
            columns.append(column.cast(field.type))
        else:
            columns.append(column if pays(column) else compact(column))
    return columns


def _repeating(sample: pa.RecordBatch, written: pa.Schema) -> list[str]:
    """The columns of text whose values come again and again: as dictionaries they cost less."""
    rows = sample.num_rows
    return [
        field.name
        for field in list(written)[1:]
        if pa.types.is_string(field.type)
        and rows >= _SAMPLE_ROWS
        and pc.count_distinct(plain_array(sample.column(field.name))).as_py() * REPEATS_MIN <= rows
    ]


def _writer_options(schema: pa.Schema, sample: Items) -> dict[str, Any]:
    """Cheap first: integers as deltas and lz4, a third faster than plain lz4 and half the size.

    Dictionaries where the data has them, and for text that repeats: there they halve the time.
    Columns that lz4 makes little of are left as they are: to try costs up to four times what it is
    to write them. BYTE_STREAM_SPLIT would be faster still, but not every reader knows it for
    integers. What an item is, nearly always the same, is left to lz4 alone.
    """
    dictionaries = [f.name for f in schema if pa.types.is_dictionary(f.type)]
    dictionaries += _repeating(sample.batch, schema)
    integers = [f.name for f in schema if _is_stored_as_integer(f.type) and f.name != KIND]
    options = {
        "compression": "lz4",
        # Else the items of a list come back under another name, and the schema as another one.
        "use_compliant_nested_type": False,
        "use_dictionary": dictionaries or False,
        "write_statistics": [SEQ, VS],
        "column_encoding": dict.fromkeys(integers, "DELTA_BINARY_PACKED"),
    }
    if sample.batch.num_rows >= _SAMPLE_ROWS:
        options["compression"] = _compression(schema, sample, options)
    return options


def _compression(schema: pa.Schema, sample: Items, options: dict[str, Any]) -> str | dict[str, str]:
    """By column, where all are flat: whether lz4 makes enough of it is tried out."""
    if any(pa.types.is_nested(f.type) for f in schema):
        return "lz4"
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, schema, **options) as writer:
        writer.write_table(_table([sample], schema))
    found = pq.read_metadata(pa.BufferReader(sink.getvalue())).row_group(0)
    columns = [found.column(k) for k in range(found.num_columns)]
    return {
        name: "lz4"
        if c.total_compressed_size <= c.total_uncompressed_size * _PAYING_SHARE
        else "none"
        for name, c in zip(schema.names, columns, strict=True)
    }


def _is_stored_as_integer(kind: pa.DataType) -> bool:
    is_time = pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_time(kind)
    return bool(pa.types.is_integer(kind) or is_time)


def _parse_footer(metadata: dict[bytes, bytes]) -> SegmentInfo:
    footer = json.loads(metadata[FOOTER_KEY])
    if footer["version"] not in _READ_VERSIONS:
        raise ValueError(f"format version {footer['version']}, this is {FORMAT_VERSION}")
    seqs = SeqRange(int(footer["lo"]), int(footer["hi"]))
    digests = tuple(str(d) for d in footer["digests"])
    return SegmentInfo(
        stream=str(footer["stream"]),
        seqs=seqs,
        columns=tuple(str(c) for c in footer["columns"]),
        digests=digests,
    )
