"""Segments: every item can be read back, in part or in full; damage is detected and named."""

from __future__ import annotations

import datetime as dt
import itertools
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rstream.format.checksum
import rstream.format.codec
from rstream import CorruptSegmentError, SeqRange, StreamDigest, item_schema
from rstream.errors import SegmentFormatError
from rstream.format.codec import SegmentEncoder, SegmentFile, encode_segment
from rstream.format.table import TableForm
from rstream.items.dictionaries import as_declared
from tests.support.content import SCHEMA, items


def opened(
    data: pa.Buffer | bytes,
    lo: int,
    hi: int,
    columns: list[str] | None = None,
    *,
    checked: bool = False,
) -> SegmentFile:
    source, seqs = pa.BufferReader(data), SeqRange(lo, hi)
    return SegmentFile(source, "p/x.parquet", seqs, columns=columns, checked=checked)


@pytest.fixture(autouse=True)
def _small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rstream.format.codec, "ROW_GROUP_ROWS_MAX", 16)


def test_row_groups_and_projection() -> None:
    file = opened(encode_segment("s", 100, [items(100, 150)]), 100, 150)
    assert file.schema.equals(SCHEMA)
    assert file.info.stream == "s"
    assert len(file.info.digests) == 4
    got = file.read_group(120, verify=True)
    assert (got.first_seq, got.next_seq) == (120, 132)
    assert got.batch.equals(items(120, 132))
    assert file.read_group(149, verify=False).batch.equals(items(149, 150))
    some = opened(encode_segment("s", 100, [items(100, 150)]), 100, 150, ["name"])
    for verify in (True, False):
        got = some.read_group(101, verify=verify)
        assert got.batch.schema.names == ["_kind", "_vs", "_ve", "name"]
        assert got.batch.equals(items(101, 116).select(got.batch.schema.names))


def test_a_segment_is_plain_parquet_with_seq_first() -> None:
    table = pq.read_table(pa.BufferReader(encode_segment("s", 7, [items(7, 60)])))
    assert table.schema.names[:4] == ["_seq", "_kind", "_vs", "_ve"]
    assert table["_seq"].to_pylist() == list(range(7, 60))


def test_batch_boundaries_do_not_affect_segments() -> None:
    whole = encode_segment("s", 7, [items(7, 60)])
    cut = encode_segment("s", 7, [items(7, 9), items(9, 40), items(40, 41), items(41, 60)])
    assert whole.equals(cut)


def test_group_digests_add_up() -> None:
    file = opened(encode_segment("s", 3, [items(3, 60)]), 3, 60)
    total, whole = StreamDigest(), StreamDigest()
    for digest in file.info.digests:
        total.add(StreamDigest.from_bytes(bytes.fromhex(digest)))
    whole.update(3, items(3, 60))
    assert total == whole


def test_every_type_is_read_back() -> None:
    payload = pa.schema(
        [
            ("u8", pa.uint8()),
            ("f32", pa.float32()),
            ("flag", pa.bool_()),
            ("day", pa.date32()),
            ("at", pa.timestamp("ns", "UTC")),
            ("money", pa.decimal128(20, 3)),
            ("raw", pa.binary()),
            ("list", pa.list_(pa.int64())),
            ("deep", pa.struct([("x", pa.int32())])),
            ("dict", pa.dictionary(pa.int32(), pa.string())),
            ("took", pa.duration("us")),
            ("counts", pa.map_(pa.string(), pa.int64())),
            ("maps", pa.list_(pa.map_(pa.string(), pa.list_(pa.int64())))),
            (
                "named",
                pa.map_(pa.field("k", pa.string(), nullable=False), pa.field("v", pa.int8())),
            ),
        ]
    )
    row = {"u8": 255, "f32": 0.5, "flag": True, "day": dt.date(2020, 1, 1), "raw": b"\0"}
    row |= {"at": dt.datetime(2020, 1, 1, tzinfo=dt.UTC), "money": 1, "list": [1, None]}
    row |= {"deep": {"x": 3}, "dict": "a", "took": dt.timedelta(seconds=1)}
    row |= {"counts": [("a", 1)], "maps": [[("a", [1, None])], []], "named": [("a", 1)]}
    head = {"_kind": 0, "_vs": 1, "_ve": 2}
    rows = [{**head, **row}, {**head, **dict.fromkeys(row)}]
    batch = pa.RecordBatch.from_pylist(rows * 9, schema=item_schema(payload))
    got = opened(encode_segment("s", 0, [batch]), 0, 18).read_group(0, verify=True)
    assert got.batch.schema.equals(batch.schema)
    assert got.batch.to_pylist() == batch.slice(0, 16).to_pylist()


def repeating(values: list[str], indices: list[int]) -> pa.RecordBatch:
    """Rows with a text column stored as a dictionary."""
    rows = items(0, len(indices))
    text = pa.DictionaryArray.from_arrays(pa.array(indices, pa.int32()), pa.array(values))
    columns = [*rows.columns[:3], text]
    return pa.RecordBatch.from_arrays(columns, [*rows.schema.names[:3], "text"])


def group_rows(batch: pa.RecordBatch) -> list[int]:
    """The rows of each row group of a file with plain text; all are read."""
    rows = batch.num_rows
    declared = item_schema(pa.schema([("text", pa.string())]))
    file = opened(encode_segment("s", 0, [batch], schema=declared), 0, rows)
    found, seq = [], 0
    while seq < rows:
        group = file.read_group(seq, verify=True)
        assert group.batch.equals(as_declared(batch, declared).slice(seq, group.batch.num_rows))
        found.append(group.batch.num_rows)
        seq = group.next_seq
    return found


def test_a_row_group_is_limited_by_its_decoded_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Repeated long values are small as dictionaries, but a reader gets each one in full."""
    monkeypatch.setattr(rstream.format.codec, "ROW_GROUP_ROWS_MAX", 1 << 17)
    batch = repeating(["a" * 996, "b" * 996, "c" * 996], [k % 3 for k in range(300)])
    assert group_rows(batch) == [300]
    monkeypatch.setattr(rstream.format.codec, "ROW_GROUP_DECODED_BYTES_MAX", 128_000)
    rows = group_rows(batch)
    assert len(rows) == 3
    assert max(rows) * 996 <= 128_000
    assert group_rows(repeating(["a", "b" * 1_000_000], [0] * 10)) == [1] * 10


def test_values_of_very_different_lengths_do_not_make_a_row_group_unreadable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The longest value, not the mean length, limits the rows of a row group.

    A rare long value may still be in all rows of one group.
    """
    monkeypatch.setattr(rstream.format.codec, "ROW_GROUP_ROWS_MAX", 1 << 17)
    batch = repeating(["x" * 1000, *map(str, range(99))], [k % 100 for k in range(200)] + [0] * 100)
    assert group_rows(batch) == [300]
    monkeypatch.setattr(rstream.format.codec, "ROW_GROUP_LONGEST_BYTES_MAX", 60_000)
    assert group_rows(batch) == [60] * 5


def test_a_row_group_too_large_for_one_batch_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small dictionary may be gigabytes as plain text; such a row group is an error."""
    file = opened(encode_segment("s", 0, [items(0, 5)]), 0, 5)
    places = pa.array(range(100), pa.int8())
    halves = [pa.array([f"{half}{k}" for k in range(100)]) for half in "ab"]
    chunks = [pa.DictionaryArray.from_arrays(places, values) for values in halves]
    table = pa.table({"text": pa.chunked_array(chunks)})
    monkeypatch.setattr(pq.ParquetFile, "read_row_group", lambda *_, **__: table)
    with pytest.raises(CorruptSegmentError, match=r"x\.parquet.*row group 0: .*larger index"):
        file.read_group(0, verify=True)


def test_truncated_or_foreign_files_are_named() -> None:
    data = bytes(encode_segment("s", 0, [items(0, 50)]))
    foreign = pa.BufferOutputStream()
    pq.write_table(pa.table({"a": [1]}), foreign)
    for bad in (b"", data[:-10], data[: len(data) // 2], b"x" * 100, foreign.getvalue()):
        with pytest.raises(CorruptSegmentError, match=r"p/x\.parquet"):
            opened(bad, 0, 50)


def test_a_wrong_file_name_is_detected() -> None:
    with pytest.raises(CorruptSegmentError, match="its footer declares"):
        opened(encode_segment("s", 0, [items(0, 50)]), 0, 51)


def test_other_content_under_the_same_footer_is_detected() -> None:
    good = bytes(encode_segment("s", 0, [items(0, 50)]))
    footer = pq.ParquetFile(pa.BufferReader(good)).metadata.metadata[b"rstream"]
    sink = pa.BufferOutputStream()
    table = pq.read_table(pa.BufferReader(encode_segment("s", 0, [items(0, 50, salt=1)])))
    with pq.ParquetWriter(sink, table.schema) as writer:
        writer.write_table(table, 16)
        writer.add_key_value_metadata({"rstream": footer.decode()})
    file = opened(sink.getvalue(), 0, 50)
    with pytest.raises(CorruptSegmentError, match="digest"):
        file.read_group(20, verify=True)


def test_any_flipped_byte_is_detected_or_harmless() -> None:
    data = bytes(encode_segment("s", 0, [items(0, 40)]))
    wrong = 0
    for at in range(4, len(data) - 8, 7):
        bad = bytearray(data)
        bad[at] ^= 0x41
        try:
            file = opened(bytes(bad), 0, 40)
            got = [file.read_group(lo, verify=True) for lo in (0, 16, 32)]
        except CorruptSegmentError:
            wrong += 1
            continue
        for part in got:
            assert part.batch.to_pylist() == items(part.first_seq, part.next_seq).to_pylist()
    assert wrong > 20


@pytest.mark.slow
@pytest.mark.parametrize("form", [None, TableForm("start", "end")])
@pytest.mark.parametrize("bit", [0x01, 0x80])
def test_any_flipped_bit_of_a_footer_is_detected_or_harmless(
    form: TableForm | None, bit: int
) -> None:
    """A count of rows became negative, which failed as an assertion about our own code."""
    data = bytes(encode_segment("s", 3, [items(3, 40)], form=form))
    footer_bytes = int.from_bytes(data[-8:-4], "little")
    wrong = 0
    for at in range(len(data) - footer_bytes - 8, len(data)):
        bad = bytearray(data)
        bad[at] ^= bit
        try:
            file = opened(bytes(bad), 3, 40)
            got = [file.read_group(lo, verify=True) for lo in (3, 19, 35)]
        except (CorruptSegmentError, SegmentFormatError):  # a digit of the version
            wrong += 1
            continue
        for part in got:
            assert part.batch.to_pylist() == items(part.first_seq, part.next_seq).to_pylist()
    assert wrong > 100


@pytest.mark.parametrize("form", [None, TableForm("start", "end")])
def test_the_checksum_detects_any_flipped_bit(
    form: TableForm | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rstream.format.checksum, "_CHUNK_BYTES", 1000)
    data = bytes(encode_segment("s", 3, [items(3, 40)], form=form))
    whole = opened(data, 3, 40, checked=True)
    assert whole.read_group(3, verify=True).batch.equals(items(3, 19))
    for at in range(len(data)):  # the bits in turn: eight times as many show no more
        bad = bytearray(data)
        bad[at] ^= 1 << at % 8
        with pytest.raises(CorruptSegmentError, match=r"p/x\.parquet"):
            opened(bytes(bad), 3, 40, checked=True)


def test_a_newer_format_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rstream.format.codec, "FORMAT_VERSION", 5)
    data = encode_segment("s", 0, [items(0, 5)])
    with pytest.raises(SegmentFormatError, match="format version 5, this version reads up to 4"):
        opened(data, 0, 5)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_the_first_formats_are_read(version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The footer of the first version has the facts of the row groups, too."""
    dumps = json.dumps
    monkeypatch.setattr(json, "dumps", lambda f: dumps({**f, "group_rows": 16}))
    monkeypatch.setattr(rstream.format.codec, "FORMAT_VERSION", version)
    file = opened(encode_segment("s", 3, [items(3, 60)]), 3, 60)
    got = file.read_group(40, verify=True)
    assert got.batch.equals(items(40, 51))
    assert file.read_group(51, verify=True).batch.equals(items(51, 60))


def test_row_groups_end_where_batches_with_digests_do() -> None:
    """The digest of a cut batch is computed again; small batches without one are joined."""
    bounds = [0, 3, 12, 21, 60, 61, 62, 75]
    known = [False, True, True, True, False, False, True]
    batches = [items(lo, hi) for lo, hi in itertools.pairwise(bounds)]
    digests = []
    for lo, batch, is_known in zip(bounds, batches, known, strict=False):
        digest = StreamDigest()
        digest.update(lo, batch)
        digests.append(digest.to_bytes() if is_known else b"")
    data = SegmentEncoder("s").encode(0, batches, digests)
    file = opened(data, 0, 75)
    ends, seq = [], 0
    while seq < 75:
        group = file.read_group(seq, verify=True)
        assert group.batch.equals(items(seq, group.next_seq))
        seq = group.next_seq
        ends.append(seq)
    assert ends == [12, 21, 37, 53, 62, 75]


def test_an_existing_digest_is_reused() -> None:
    """A reader detects a batch that was damaged in memory."""
    digest = StreamDigest()
    digest.update(0, items(0, 10))
    data = SegmentEncoder("s").encode(0, [items(0, 10, salt=1)], [digest.to_bytes()])
    with pytest.raises(CorruptSegmentError, match="digest"):
        opened(data, 0, 10).read_group(0, verify=True)


def test_columns_that_compress_badly_are_not_compressed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rstream.format.codec, "_SAMPLE_ROWS", 16)
    noise = np.random.default_rng(1).random(60)
    schema = item_schema(pa.schema([("noise", pa.float64()), ("even", pa.float64())]))
    reserved = items(0, 60).columns[:3]
    columns = [*reserved, pa.array(noise), pa.array(np.full(60, 0.5))]
    batch = pa.RecordBatch.from_arrays(columns, schema=schema)
    data = encode_segment("s", 0, [batch])
    group = pq.read_metadata(pa.BufferReader(data)).row_group(0)
    packed = {group.column(k).path_in_schema: group.column(k).compression for k in range(6)}
    assert (packed["noise"], packed["even"]) == ("UNCOMPRESSED", "LZ4")
    assert opened(data, 0, 60).read_group(0, verify=True).batch.equals(batch.slice(0, 16))
