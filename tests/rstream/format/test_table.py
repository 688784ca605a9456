"""Segments as clean tables: what a plain reader gets, and that no item is lost.

Not covered: bugs of other Parquet readers.
"""

from __future__ import annotations

import itertools
import json
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given, strategies as st

import rstream.format.codec
from rstream import (
    INF_TIME,
    MIN_TIME,
    Items,
    MemoryBlobs,
    RStream,
    open_reader,
    open_store,
    read_events,
)
from rstream.errors import CorruptSegmentError
from rstream.format.codec import SegmentFile, encode_segment
from rstream.format.table import TIME_TYPE, PackedCtis, TableForm
from rstream.items.batch import CTI, EVENT, item_schema
from rstream.items.digest import StreamDigest
from rstream.log.durable import DurableLog
from rstream.log.overlap import seal
from rstream.store.blobs import remove_temporaries
from rstream.store.part_files import PartFiles, part_uri, split_part
from rstream.types import SeqRange
from tests.support.content import PAYLOAD, items, read_all, small_limits

FORM = TableForm("start", "end")
TEXT = pa.dictionary(pa.int32(), pa.string())


def opened(data: pa.Buffer, lo: int, hi: int, columns: list[str] | None = None) -> SegmentFile:
    return SegmentFile(pa.BufferReader(data), "x.parquet", SeqRange(lo, hi), columns=columns)


def all_items(file: SegmentFile, *, verify: bool = True) -> pa.RecordBatch:
    """Every item, row group by row group."""
    seq, found = file.info.seqs.lo, []
    while seq < file.info.seqs.hi:
        part = file.read_group(seq, verify=verify)
        found.append(part.batch)
        seq = part.next_seq
    return pa.concat_batches(found)


def batch_of(rows: list[tuple[Any, ...]], payload: pa.Schema = PAYLOAD) -> pa.RecordBatch:
    schema = item_schema(payload)
    columns = list(zip(*rows, strict=True))
    arrays = [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def test_a_plain_reader_sees_only_events_and_times() -> None:
    data = encode_segment("s", 7, [items(7, 60)], form=FORM)
    table = pq.read_table(pa.BufferReader(data))
    assert table.schema.names == ["start", "end", "number", "price", "name"]
    assert table.schema.field("start").type == table.schema.field("end").type == TIME_TYPE
    events = [row for row in items(7, 60).to_pylist() if row["_kind"] == EVENT]
    assert table["number"].to_pylist() == [row["number"] for row in events]
    assert table["start"].cast(pa.int64()).to_pylist() == [row["_vs"] for row in events]
    assert table["end"].cast(pa.int64()).to_pylist() == [row["_ve"] for row in events]


def test_every_item_is_restored() -> None:
    file = opened(encode_segment("s", 7, [items(7, 60)], form=FORM), 7, 60)
    assert file.schema.equals(item_schema(PAYLOAD))
    assert all_items(file).equals(items(7, 60))
    assert file.read_group(40, verify=True).batch.equals(items(40, 60))
    some = opened(encode_segment("s", 7, [items(7, 60)], form=FORM), 7, 60, ["name"])
    wanted = items(7, 60).select(["_kind", "_vs", "_ve", "name"])
    assert some.read_group(7, verify=False).batch.equals(wanted)
    assert some.read_group(7, verify=True).batch.equals(wanted)


def test_infinite_times_are_stored_as_null() -> None:
    rows = [
        (EVENT, MIN_TIME, 3, 1, 0.5, "a"),
        (CTI, MIN_TIME + 9, MIN_TIME + 9, None, None, None),
        (EVENT, -7, INF_TIME, 2, None, None),
        (CTI, INF_TIME, INF_TIME, None, None, None),
    ]
    data = encode_segment("s", 0, [batch_of(rows)], form=FORM)
    table = pq.read_table(pa.BufferReader(data))
    assert table["start"].is_null().to_pylist() == [True, False]
    assert table["end"].is_null().to_pylist() == [False, True]
    assert all_items(opened(data, 0, 4)).equals(batch_of(rows))


def test_a_segment_with_only_ctis_has_no_rows() -> None:
    rows = [(CTI, t, t, None, None, None) for t in (0, 5, INF_TIME)]
    data = encode_segment("s", 4, [batch_of(rows)], form=FORM)
    assert pq.read_metadata(pa.BufferReader(data)).num_row_groups == 0
    assert pq.read_table(pa.BufferReader(data)).num_rows == 0
    assert all_items(opened(data, 4, 7)).equals(batch_of(rows))


def test_payload_columns_replace_time_columns() -> None:
    payload = pa.schema([("k", pa.int64()), ("window_start", TIME_TYPE)])
    rows = [(EVENT, 10, 15, 1, 10), (CTI, 20, 20, None, None), (EVENT, 20, 25, 2, 20)]
    form = TableForm("window_start", None, 5)
    data = encode_segment("s", 0, [batch_of(rows, payload)], form=form)
    assert pq.read_table(pa.BufferReader(data)).schema.names == ["k", "window_start"]
    assert all_items(opened(data, 0, 3)).equals(batch_of(rows, payload))
    few = opened(data, 0, 3, ["k"]).read_group(0, verify=False).batch
    assert few["_vs"].to_pylist() == [10, 20, 20]


def test_row_groups_end_where_batches_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments without an event are read, too."""
    monkeypatch.setattr(rstream.format.codec, "ROW_GROUP_ROWS_MAX", 4)
    quiet = batch_of([(CTI, t, t, None, None, None) for t in range(100, 109)])
    given = pa.concat_batches([items(0, 9), quiet, items(18, 30)])
    file = opened(encode_segment("s", 0, [given], form=FORM), 0, 30)
    assert len(file.info.digests) == 8
    assert all_items(file).equals(given)
    for seq in range(30):
        part = file.read_group(seq, verify=False)
        assert part.batch.equals(given.slice(seq, part.batch.num_rows)), seq
    total = StreamDigest()
    for digest in file.info.digests:
        total.add(StreamDigest.from_bytes(bytes.fromhex(digest)))
    whole = StreamDigest()
    whole.update(0, given)
    assert total == whole


@given(
    kinds=st.lists(st.booleans(), min_size=1, max_size=40),
    group_rows=st.integers(1, 50),
    cuts=st.lists(st.integers(0, 40), max_size=4),
    carried=st.booleans(),
    data=st.data(),
)
def test_any_items_are_restored(
    kinds: list[bool], group_rows: int, cuts: list[int], carried: bool, data: st.DataObject
) -> None:
    times = st.integers(MIN_TIME, INF_TIME)
    rows: list[tuple[Any, ...]] = []
    for is_event in kinds:
        if is_event:
            vs, ve = sorted(data.draw(st.lists(times, min_size=2, max_size=2, unique=True)))
            word = data.draw(st.sampled_from(["a", "b", None]))
            rows.append((EVENT, vs, ve, data.draw(st.integers(0, 3)), 0.5, word))
        else:
            t = data.draw(times)
            rows.append((CTI, t, t, None, None, None))
    given = batch_of(rows)
    ends = sorted({min(c, len(rows)) for c in cuts} | {0, len(rows)})
    parts = [given.slice(a, b - a) for a, b in itertools.pairwise(ends)]
    if carried:
        parts = [p.set_column(5, "name", p.column(5).dictionary_encode()) for p in parts]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rstream.format.codec, "ROW_GROUP_ROWS_MAX", group_rows)
        segment = encode_segment("s", 3, parts, schema=given.schema, form=FORM)
    assert all_items(opened(segment, 3, 3 + len(rows))).equals(given)


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(MIN_TIME, INF_TIME)), max_size=30))
def test_packed_ctis_are_restored(found: list[tuple[int, int]]) -> None:
    rows, times, at = [], [], -1
    for step, t in found:
        at += step
        rows.append(at)
        times.append(t)
    words = [pa.array(w, pa.int64()).to_numpy() for w in (rows, times)]
    packed = PackedCtis(*words)
    again = PackedCtis.loads(packed.dumps().encode(), len(rows))
    assert again.rows.tolist() == rows
    assert again.times.tolist() == times


def test_regular_ctis_take_almost_no_space() -> None:
    n = 100_000
    batch = batch_of([(CTI, 5 * k, 5 * k, None, None, None) for k in range(n)])
    assert len(PackedCtis.of([batch]).dumps()) < n // 100


def test_damage_is_detected() -> None:
    """A flip of every seventh byte, and a footer with wrong facts."""
    data = bytes(encode_segment("s", 0, [items(0, 50)], form=FORM))
    wrong = 0
    for at in range(0, len(data), 7):
        broken = data[:at] + bytes([data[at] ^ 255]) + data[at + 1 :]
        try:
            assert all_items(opened(pa.py_buffer(broken), 0, 50)).equals(items(0, 50))
        except CorruptSegmentError:
            wrong += 1
    assert wrong > 20


@pytest.mark.parametrize("change", [{"ctis": 3}, {"ends": [20]}, {"ends": [10, 50]}])
def test_an_inconsistent_footer_is_rejected(
    change: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    dumps = json.dumps
    monkeypatch.setattr(json, "dumps", lambda f: dumps({**f, "table": {**f["table"], **change}}))
    data = encode_segment("s", 0, [items(0, 50)], form=FORM)
    with pytest.raises(CorruptSegmentError):
        all_items(opened(data, 0, 50))


def written(store: Any, lo: int, hi: int) -> RStream:
    stream = RStream.open(store, PAYLOAD, limits=small_limits(), form=FORM, durability="sync")
    for seq in range(lo, hi, 5):
        stream.write(seq, items(seq, min(seq + 5, hi)))
    return stream


def test_streams_share_a_folder_that_is_one_table(tmp_path: Any) -> None:
    """The name of one stream is a prefix of another's."""
    uris = [part_uri(str(tmp_path), f"part-{k}") for k in (0, 1, 10)]
    for k, uri in enumerate(uris):
        written(uri, 0, 10 + k).close()
    for k, uri in enumerate(uris):
        assert [i.next_seq for i in read_all(open_reader(uri))][-1] == 10 + k
        assert len(open_store(uri).list()) == 2 + (k > 0)
    events = sum(read_events(uri).num_rows for uri in uris)
    table = ds.dataset(str(tmp_path)).to_table()
    assert table.num_rows == events
    assert table.schema.names == ["start", "end", "number", "price", "name"]


def test_a_stream_deletes_only_its_own_files(tmp_path: Any) -> None:
    zero, one = (part_uri(str(tmp_path), f"part-{k}") for k in (0, 1))
    first, second = written(zero, 0, 20), written(one, 0, 20)
    first.garbage_collect(20)
    first.close()
    second.close()
    assert open_store(zero).list() == ["_low_water_mark"]
    assert open_store(str(tmp_path)).list()[0] == "_part-0-low_water_mark"
    assert [i.next_seq for i in read_all(open_reader(one))][-1] == 20
    for name in (".part-0-x.parquet.1.1.tmp", ".part-1-x.parquet.1.1.tmp"):
        (tmp_path / name).write_bytes(b"x")
    assert remove_temporaries(open_store(zero)) == 1
    assert not (tmp_path / ".part-0-x.parquet.1.1.tmp").exists()
    assert (tmp_path / ".part-1-x.parquet.1.1.tmp").exists()


def test_overlapping_segments_of_two_writers_are_still_a_table(tmp_path: Any) -> None:
    """The part that is written again has the form of the rest."""
    uri = part_uri(str(tmp_path), "part-0")
    written(uri, 0, 20).close()
    DurableLog(open_store(uri), "s", form=FORM).write(Items(12, items(12, 26)))
    names = seal(uri)
    assert names[-1] == "00000000000000000015-00000000000000000026.parquet"
    assert pa.concat_batches([i.batch for i in read_all(open_reader(uri))]).equals(items(0, 26))
    table = ds.dataset(str(tmp_path)).to_table()
    assert table.schema.names == ["start", "end", "number", "price", "name"]
    assert table.num_rows == read_events(uri).num_rows


def test_a_part_of_a_table_has_its_own_uri() -> None:
    assert part_uri("/data/out/", "part-3") == "/data/out/part-3-*"
    assert split_part("/data/out/part-3-*") == ("/data/out", "part-3")
    assert split_part("/data/out") == ("/data/out", "")
    blobs = MemoryBlobs()
    part = PartFiles(blobs, "part-3")
    assert part.put_new("_sealed", b"x")
    assert part.exists("_sealed")
    assert part.size("_sealed") == 1
    assert blobs.list() == ["_part-3-sealed"]
    assert part.list() == ["_sealed"]
    assert list(part.get_many(["_sealed", "_none"])) == [b"x", None]
    assert part.list("folder") == []
