"""Writes batches of items as Parquet segments; :class:`SegmentFile` reads them.

A segment inside a job has the column ``_seq`` first, then the item columns. A segment for users is
a table (:mod:`rstream.format.table`). The footer contains JSON under :data:`FOOTER_KEY`: format
version, stream, ``lo``, ``hi``, columns, the content digest of each row group
(:mod:`rstream.items.digest`; over items, not over file bytes) and the checksum of the file's bytes
(:mod:`rstream.format.checksum`). The footer of a table also contains its CTIs (watermarks). Older
versions: 1 had one number of rows for all row groups but the last, whereas row groups now end where
batches do; 2 had no tables; 3 had no checksum.

Invariants: (1) row groups contain consecutive seqs; a row group of a table without events exists
only in the footer; (2) the sum of the row group digests is the digest of ``[lo, hi)``; (3) the
writer copies a batch's digest and does not compute it from the bytes it writes, so a later read
detects any damage in between.
"""

from __future__ import annotations

import base64
import functools
import itertools
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rstream.format import checksum
from rstream.format.row_groups import (
    REPEATS_MIN,
    decoded_row_bytes,
    digest_of,
    have_one_dictionary,
    pays,
    row_groups,
)
from rstream.format.segment_file import CTIS_KEY, FOOTER_KEY, SegmentFile, describe
from rstream.format.table import PackedCtis, only_rows, with_few_ctis
from rstream.items.batch import KIND, SEQ, VS, Items, payload_schema
from rstream.items.dictionaries import (
    batch_bytes,
    compact,
    is_dictionary,
    is_form_of,
    join_batches,
    plain_array,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rstream.format.table import TableForm

__all__ = ["FORMAT_VERSION", "SegmentEncoder", "SegmentFile", "encode_segment"]

FORMAT_VERSION = 4
#: Key under which Arrow's readers find the types of the columns.
_ARROW_KEY = "ARROW:schema"
ROW_GROUP_ROWS_MAX = 1 << 17
ROW_GROUP_BYTES_MAX = 8 << 20
#: Most bytes of a row group's dictionary values once they are decoded to plain text, estimated by
#: the mean length. By the greatest length, they must still fit into Arrow's 32-bit offsets.
ROW_GROUP_DECODED_BYTES_MAX = 64 << 20
ROW_GROUP_LONGEST_BYTES_MAX = 1 << 30
#: Number of rows sampled to choose dictionaries and compression.
_SAMPLE_ROWS = 1 << 14
#: A column is compressed if it shrinks at least to this share.
_PAYING_SHARE = 0.8
#: Dictionaries and compression are chosen again after this many segments.
_SEGMENTS_PER_LOOK = 16


class SegmentEncoder:
    """Encodes the segments of a stream; chooses dictionaries and compression from samples.

    Files declare the columns of ``schema`` (None: of the batches), even if text is written as
    dictionaries. With a ``form`` they are tables for users.
    """

    def __init__(
        self, stream: str, schema: pa.Schema | None = None, form: TableForm | None = None
    ) -> None:
        self._stream = stream
        self._schema = schema
        self._form = form
        #: Types and write options of the item columns, as last chosen.
        self._written: pa.Schema | None = None
        self._options: dict[str, Any] = {}
        self._segments = 0

    def encode(
        self,
        first_seq: int,
        batches: Sequence[pa.RecordBatch],
        digests: Sequence[bytes] = (),
    ) -> pa.Buffer:
        """Encode consecutive ``batches`` as a segment. There must be at least one row.

        ``digests``: digests of the batches, empty if unknown. Only small batches are copied.
        """
        rows = sum(batch.num_rows for batch in batches)
        assert rows > 0
        group_rows = _group_rows(batches, rows)
        sink = pa.BufferOutputStream()
        digests_of_groups: list[str] = []
        ends: list[int] = []
        groups = row_groups(first_seq, batches, digests, group_rows)
        first = next(groups)
        schema = self._schema or first[0].batch.schema
        declared = _file_schema(schema, self._form)
        items, options = self._options_for(max(first, key=lambda p: p.batch.num_rows), schema)
        written = _file_schema(items, self._form)
        is_declared = written.equals(declared)
        with pq.ParquetWriter(sink, written, store_schema=is_declared, **options) as writer:
            for parts in itertools.chain([first], groups):
                digests_of_groups.append(digest_of(parts).hexdigest())
                ends.append(parts[-1].next_seq)
                table = _table(parts, items, self._form)
                if table.num_rows:
                    writer.write_table(table, group_rows)
            footer = {
                "version": FORMAT_VERSION,
                "stream": self._stream,
                "lo": first_seq,
                "hi": first_seq + rows,
                "columns": describe(declared),
                "digests": digests_of_groups,
            }
            if self._form is not None:
                ctis = PackedCtis.of(batches)
                table_info = self._form.to_json(payload_schema(schema).names)
                footer["table"] = {**table_info, "ends": ends, "ctis": len(ctis.rows)}
                writer.add_key_value_metadata({CTIS_KEY.decode(): ctis.dumps()})
            footer[checksum.CRC] = checksum.UNKNOWN
            writer.add_key_value_metadata({FOOTER_KEY.decode(): json.dumps(footer)})
            if not is_declared:
                types = base64.b64encode(declared.serialize().to_pybytes()).decode()
                writer.add_key_value_metadata({_ARROW_KEY: types})
        data = sink.getvalue()
        checksum.write_checksum(data)
        return data

    def _options_for(self, part: Items, schema: pa.Schema) -> tuple[pa.Schema, dict[str, Any]]:
        """Return the type of each item column in the file, and the write options."""
        written = _written(part.batch, schema)
        is_known = self._written is not None and written.equals(self._written)
        if not is_known or self._segments % _SEGMENTS_PER_LOOK == 0:
            sample = part.head(_SAMPLE_ROWS)
            self._segments = 0
            options = _writer_options(written, sample, self._form)
            self._written, self._options = written, options
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
    form: TableForm | None = None,
) -> pa.Buffer:
    """Encode a single segment; see :class:`SegmentEncoder`."""
    return SegmentEncoder(stream, schema, form).encode(first_seq, batches)


def _group_rows(batches: Sequence[pa.RecordBatch], rows: int) -> int:
    """Return the most rows of a row group, which limits its encoded and its decoded size."""
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


def _file_schema(items: pa.Schema, form: TableForm | None) -> pa.Schema:
    if form is not None:
        return form.file_schema(items)
    return pa.schema([pa.field(SEQ, pa.int64(), nullable=False), *items])


def _table(parts: list[Items], written: pa.Schema, form: TableForm | None) -> pa.Table:
    """Return a row group in the form of the file. ``written``: types of the item columns."""
    schema = _file_schema(written, form)
    batches = [part.batch for part in parts]
    if form is not None:
        batches = [few for batch in batches if (few := with_few_ctis(batch)).num_rows]
    if batches and not have_one_dictionary(batches):
        batches = [join_batches(batches)]
    seq = parts[0].first_seq
    chunks: list[pa.RecordBatch] = []
    for batch in batches:
        columns = _columns(batch, written)
        if form is not None:
            columns = form.columns(batch, columns[3:])
            chunks += only_rows(batch, pa.RecordBatch.from_arrays(columns, schema=schema))
            continue
        columns.insert(0, pa.array(np.arange(seq, seq + batch.num_rows)))
        chunks.append(pa.RecordBatch.from_arrays(columns, schema=schema))
        seq += batch.num_rows
    return pa.Table.from_batches(chunks, schema=schema)


def _written(first: pa.RecordBatch, declared: pa.Schema) -> pa.Schema:
    """Return the type of each column in a file. Dictionaries with repeated values are kept."""
    assert is_form_of(first.schema, declared), (first.schema, declared)
    kinds = [
        column.type if is_dictionary(column.type) and pays(column) else field.type
        for column, field in zip(first.columns, declared, strict=True)
    ]
    return pa.schema([f.with_type(kind) for f, kind in zip(declared, kinds, strict=True)])


def _columns(batch: pa.RecordBatch, written: pa.Schema) -> list[pa.Array]:
    """Return the columns of a row group in the types in which they are written."""
    columns = []
    for column, field in zip(batch.columns, written, strict=True):
        if not is_dictionary(field.type):
            columns.append(plain_array(column))
        elif not is_dictionary(column.type):
            columns.append(column.cast(field.type))
        else:
            columns.append(column if pays(column) else compact(column))
    return columns


def _repeating(sample: pa.RecordBatch, written: pa.Schema) -> list[str]:
    """Return the text columns with repeated values, which are smaller as dictionaries."""
    rows = sample.num_rows
    return [
        field.name
        for field in written
        if pa.types.is_string(field.type)
        and rows >= _SAMPLE_ROWS
        and pc.count_distinct(plain_array(sample.column(field.name))).as_py() * REPEATS_MIN <= rows
    ]


def _writer_options(written: pa.Schema, sample: Items, form: TableForm | None) -> dict[str, Any]:
    """Return fast options: integers as deltas with lz4, which is faster and smaller than lz4 alone.

    It takes a third less time and half the space. Dictionaries are used if the batches have them,
    and for repeated text, where they halve the time. Columns that lz4 hardly shrinks are not
    compressed, because trying takes up to four times as long as writing. BYTE_STREAM_SPLIT would be
    faster, but not every reader supports it for integers. The kind of items, nearly always the
    same, is compressed by lz4 only.
    """
    schema = _file_schema(written, form)
    dictionaries = [f.name for f in schema if pa.types.is_dictionary(f.type)]
    dictionaries += _repeating(sample.batch, written)
    integers = [f.name for f in schema if _is_stored_as_integer(f.type) and f.name != KIND]
    options = {
        "compression": "lz4",
        # Without it, list items are read back under another name, which changes the schema.
        "use_compliant_nested_type": False,
        "use_dictionary": dictionaries or False,
        "write_statistics": [SEQ, VS] if form is None else [n for n in (form.start, form.end) if n],
        "column_encoding": dict.fromkeys(integers, "DELTA_BINARY_PACKED"),
    }
    if sample.batch.num_rows >= _SAMPLE_ROWS:
        options["compression"] = _compression(_table([sample], written, form), options)
    return options


def _compression(sample: pa.Table, options: dict[str, Any]) -> str | dict[str, str]:
    """Choose the compression of each flat column: lz4 if a sample shrinks enough."""
    schema = sample.schema
    if sample.num_rows == 0 or any(pa.types.is_nested(f.type) for f in schema):
        return "lz4"
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, schema, **options) as writer:
        writer.write_table(sample)
    group = pq.read_metadata(pa.BufferReader(sink.getvalue())).row_group(0)
    columns = [group.column(k) for k in range(group.num_columns)]
    return {
        name: "lz4"
        if c.total_compressed_size <= c.total_uncompressed_size * _PAYING_SHARE
        else "none"
        for name, c in zip(schema.names, columns, strict=True)
    }


def _is_stored_as_integer(kind: pa.DataType) -> bool:
    is_time = pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_time(kind)
    return bool(pa.types.is_integer(kind) or is_time)


@functools.cache
def kept_type(kind: pa.DataType) -> pa.DataType | None:
    """Return the type in which streams store ``kind``; None if they cannot.

    A CTI has null in every column, so fields of structs must be nullable.
    """
    if pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_binary_view(kind):
        return pa.binary()
    if pa.types.is_decimal32(kind) or pa.types.is_decimal64(kind):
        return pa.decimal128(kind.precision, kind.scale)
    if isinstance(kind, pa.BaseExtensionType):
        return kept_type(kind.storage_type)
    if pa.types.is_nested(kind):
        return _kept_nested(kind)
    sink = pa.BufferOutputStream()
    try:
        pq.write_table(pa.schema([("column", kind)]).empty_table(), sink)
        return pq.read_schema(pa.BufferReader(sink.getvalue())).field(0).type
    except MemoryError:
        raise
    except (pa.ArrowException, NotImplementedError):
        return None


def _kept_nested(kind: pa.DataType) -> pa.DataType | None:
    def kept(part: pa.Field) -> pa.Field | None:
        inner = kept_type(part.type)
        return None if inner is None else part.with_type(inner)

    if pa.types.is_struct(kind):
        fields = [kept(part) for part in kind]
        known = [part.with_nullable(True) for part in fields if part is not None]
        return pa.struct(known) if known and len(known) == len(fields) else None
    if pa.types.is_map(kind):
        key, item = kept(kind.key_field), kept(kind.item_field)
        none = key is None or item is None
        return None if none else pa.map_(key, item, keys_sorted=kind.keys_sorted)
    if not _has_elements(kind):
        return None
    element = kept(kind.value_field)
    if element is None:
        return None
    if pa.types.is_fixed_size_list(kind) and kind.list_size:
        return pa.list_(element.with_nullable(True), kind.list_size)
    return pa.large_list(element) if pa.types.is_large_list(kind) else pa.list_(element)


def _has_elements(kind: pa.DataType) -> bool:
    types = pa.types
    is_view = types.is_list_view(kind) or types.is_large_list_view(kind)
    is_long = types.is_large_list(kind) or types.is_fixed_size_list(kind)
    return bool(types.is_list(kind) or is_long or is_view)
