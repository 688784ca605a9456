"""Text stored as dictionaries is the same text everywhere."""

from __future__ import annotations

import gc

import pyarrow as pa
from hypothesis import given, strategies as st

from rstream import RStream
from rstream.format.codec import SegmentFile, encode_segment
from rstream.items.batch import Items, empty_events, item_schema, item_schema_of
from rstream.items.dictionaries import (
    VALUES_MAX,
    Known,
    as_declared,
    batch_bytes,
    has_dictionaries,
    is_form_of,
    join_batches,
    nulls,
)
from rstream.items.digest import StreamDigest, content_hashes
from rstream.items.hashing import partition_of
from rstream.log.tail import BATCH_OVERHEAD_BYTES, VolatileTail
from rstream.store.memory_blobs import MemoryBlobs
from rstream.transport.wire import (
    KEPT_BYTES_MAX,
    MESSAGE_BYTES_MAX,
    SLOTS,
    WireDecoder,
    WireEncoder,
    in_messages,
)
from rstream.types import SeqRange
from tests.support.budget import examples

TEXT = pa.dictionary(pa.int32(), pa.string())
PLAIN = item_schema(pa.schema([("word", pa.string()), ("n", pa.int64())]))
CARRIED = item_schema(pa.schema([("word", TEXT), ("n", pa.int64())]))

Words = list[str | None]
#: Values of a dictionary (including a null, unused and long ones), and rows with them.
words = st.lists(
    st.one_of(st.none(), st.sampled_from(["", "a", "bb", "a long text of more than a word"])),
    min_size=1,
    max_size=12,
)


def carried(values: Words, spare: list[str] = [], *, first: int = 0) -> pa.RecordBatch:  # noqa: B006
    """Values as a dictionary in another order, with values that do not occur."""
    distinct = [*spare, *dict.fromkeys(v for v in reversed(values) if v is not None)]
    index = [None if v is None else distinct.index(v) for v in values]
    column = pa.DictionaryArray.from_arrays(
        pa.array(index, pa.int32()), pa.array(distinct, pa.string())
    )
    return with_times(column, first, CARRIED)


def plain(values: Words, *, first: int = 0) -> pa.RecordBatch:
    return with_times(pa.array(values, pa.string()), first, PLAIN)


def with_times(column: pa.Array, first: int, schema: pa.Schema) -> pa.RecordBatch:
    n = len(column)
    vs = pa.array(range(first, first + n), pa.int64())
    ve = pa.array(range(first + 1, first + n + 1), pa.int64())
    return pa.RecordBatch.from_arrays(
        [pa.nulls(n).cast(pa.int8()).fill_null(0), vs, ve, column, vs], schema=schema
    )


@examples(30)
@given(st.lists(st.tuples(words, st.sampled_from([[], ["x"], ["y", "z"]])), min_size=1, max_size=5))
def test_joined_batches_equal_those_of_plain_text(parts: list[tuple[Words, list[str]]]) -> None:
    given_parts = [carried(values, spare) for values, spare in parts]
    joined = join_batches(given_parts)
    joined.validate(full=True)
    expected = pa.concat_batches([plain(values) for values, _ in parts])
    assert as_declared(joined, PLAIN).equals(expected)
    assert joined.schema.equals(CARRIED)
    mixed = join_batches([given_parts[0], plain(parts[-1][0]), *given_parts])
    assert mixed.schema.equals(PLAIN)
    hashes = content_hashes(joined).tolist()
    assert hashes == content_hashes(expected).tolist()
    keys = [partition_of([b.column("word")], 7).tolist() for b in (joined, expected)]
    assert keys[0] == keys[1]


def test_a_joined_dictionary_does_not_grow_with_the_stream() -> None:
    kept = carried(["same"])
    for i in range(4):
        spare = [f"{i} {k}" for k in range(VALUES_MAX // 2)]
        kept = join_batches([kept, carried(["a", None], spare)]).slice(0, 3)
        assert len(kept.column("word").dictionary) <= VALUES_MAX + VALUES_MAX // 2
    assert as_declared(kept, PLAIN).column("word").to_pylist() == ["same", "a", None]


def test_a_dictionary_shared_by_all_batches_is_kept() -> None:
    """Batches keep a common large dictionary: a new one would be sent and stored again."""
    first = carried(["a", None], [f"spare {k}" for k in range(VALUES_MAX)])
    second = first.slice(1)
    joined = join_batches([first, second]).column("word")
    assert joined.to_pylist() == ["a", None, None]
    given, kept = (c.dictionary.buffers()[2] for c in (first.column("word"), joined))
    assert kept.address == given.address


def test_slices_of_one_array_are_different_dictionaries() -> None:
    """Two slices of one array are different dictionaries, although they share buffers."""
    whole = pa.array([f"w{k}" for k in range(8)])
    parts = [whole.slice(k, 3) for k in range(6)]
    for other in parts[1:]:
        assert Known(parts[0]) != Known(other)
    columns = [pa.DictionaryArray.from_arrays(pa.array([0, 2, 1]), part) for part in parts]
    batches = [pa.RecordBatch.from_arrays([column], names=["w"]) for column in columns]
    joined = join_batches(batches)
    assert joined["w"].to_pylist() == [w for column in columns for w in column.to_pylist()]


def test_nulls_are_joined_without_another_dictionary() -> None:
    column = carried(["a", "b"]).column("word")
    both = pa.concat_arrays([column, nulls(column, 2)])
    assert both.to_pylist() == ["a", "b", None, None]
    assert both.dictionary.buffers()[2].address == column.dictionary.buffers()[2].address
    assert nulls(pa.array([1]), 1).to_pylist() == [None]


@examples(30)
@given(st.lists(words, min_size=1, max_size=4), st.integers(1, 40))
def test_a_segment_of_dictionary_text_is_one_of_text(parts: list[Words], repeat: int) -> None:
    batches = [carried(values * repeat) for values in parts]
    whole = pa.concat_batches([plain(values * repeat) for values in parts])
    data = encode_segment("s", 5, batches, schema=PLAIN)
    file = SegmentFile(
        pa.BufferReader(data), "p/x.parquet", SeqRange(5, 5 + whole.num_rows), columns=None
    )
    assert file.schema.equals(PLAIN)
    got = file.read_group(5, verify=True)
    assert got.batch.equals(whole.slice(0, got.batch.num_rows))
    digest = StreamDigest()
    digest.update(5, got.batch)
    assert file.info.digests[0] == digest.hexdigest()
    kept = encode_segment("s", 5, batches, schema=CARRIED)
    again = SegmentFile(
        pa.BufferReader(kept), "p/x.parquet", SeqRange(5, 5 + whole.num_rows), columns=None
    )
    assert again.schema.equals(CARRIED)
    assert as_declared(again.read_group(5, verify=True).batch, PLAIN).equals(got.batch)


def test_a_segment_may_contain_plain_and_dictionary_text() -> None:
    few, many = carried(["a", "b"] * (1 << 16)), plain(["b", None, "c"] * 100)
    data = encode_segment("s", 0, [few, many], schema=PLAIN)
    rows = few.num_rows + many.num_rows
    file = SegmentFile(pa.BufferReader(data), "p/x.parquet", SeqRange(0, rows), columns=None)
    assert as_declared(file.read_group(0, verify=True).batch, PLAIN).equals(as_declared(few, PLAIN))
    assert file.read_group(few.num_rows, verify=True).batch.equals(many)


def test_a_stream_of_text_accepts_dictionaries() -> None:
    store = MemoryBlobs()
    stream = RStream.open(store, pa.schema([("word", pa.string()), ("n", pa.int64())]))
    assert is_form_of(CARRIED, PLAIN)
    assert not is_form_of(PLAIN, CARRIED)
    stream.append(carried(["a", "b", None]))
    reader = stream.register(0)
    assert reader.read_next().batch.equals(plain(["a", "b", None]))  # type: ignore[union-attr]
    stream.append(plain(["c"], first=3))
    stream.append(carried(["a", "c"], first=4))
    stream.flush()
    assert stream.durable_seq == 6
    stream.close()
    again = RStream.open(store, stream.payload)
    items = again.register(0).read_next()
    assert items is not None
    assert items.batch.column("word").to_pylist() == ["a", "b", None, "c", "a", "c"]
    again.close()


@examples(30)
@given(st.lists(st.tuples(words, st.integers(0, 2 * SLOTS)), min_size=1, max_size=40))
def test_sent_batches_arrive_unchanged(parts: list[tuple[Words, int]]) -> None:
    batches = [carried(values, [f"spare {k}"]) for values, k in parts]
    batches += batches[::-1]
    for schema, sent in ((CARRIED, batches), (PLAIN, [as_declared(b, PLAIN) for b in batches])):
        encoder = WireEncoder(schema)
        decoder = WireDecoder(encoder.schema)
        for seq, batch in enumerate(sent):
            got = decoder.decode(*encoder.encode(Items(seq, batch)))
            assert got.first_seq == seq
            assert got.batch.equals(batch)
            assert got.batch.schema.equals(batch.schema)


def test_a_dictionary_is_sent_once() -> None:
    batch = carried(["a", "b"] * 50, [f"{i} is a text that is not there" for i in range(1000)])
    encoder = WireEncoder(CARRIED)
    first, *rest = [len(encoder.encode(Items(i, batch.slice(i, 10)))[1]) for i in range(5)]
    assert first > 20_000
    assert max(rest) < 30
    assert batch_bytes(batch.slice(0, 10)) < 1000


def test_the_dictionaries_kept_by_a_connection_are_limited_in_bytes() -> None:
    text = "x" * (KEPT_BYTES_MAX // 8)
    encoder = WireEncoder(CARRIED)
    decoder = WireDecoder(encoder.schema)
    before = pa.total_allocated_bytes()
    many = (carried([f"{k}"], [f"{k} {i} {text}" for i in range(3)]) for k in range(6))
    for seq, batch in enumerate(many):
        got = decoder.decode(*encoder.encode(Items(seq, batch)))
        assert got.batch.equals(batch)
    del batch, got
    gc.collect()
    # The other end keeps the messages themselves, which Arrow does not count.
    assert pa.total_allocated_bytes() - before <= KEPT_BYTES_MAX
    huge = carried(["a"], [2 * text * 8])
    sent = [len(encoder.encode(Items(seq, huge))[1]) for seq in range(2)]
    assert sent[0] > KEPT_BYTES_MAX > 30 > sent[1]


def test_large_items_are_sent_in_several_messages() -> None:
    batch = plain(["x" * (MESSAGE_BYTES_MAX // 4)] * 10 + ["y"] * 5)
    parts = list(in_messages(Items(7, batch)))
    assert len(parts) > 2
    assert [part.first_seq for part in parts[1:]] == [part.next_seq for part in parts[:-1]]
    assert parts[0].first_seq == 7
    assert pa.Table.from_batches(p.batch for p in parts).combine_chunks().to_batches()[0] == batch
    small = Items(7, batch.slice(11))
    assert list(in_messages(small)) == [small]


def test_a_tail_counts_a_dictionary_at_most_like_its_rows() -> None:
    batch = carried(["a", "b"] * 50, [f"{i} is a text that is not there" for i in range(1000)])
    tail = VolatileTail(0)
    for _ in range(4):
        tail.append(batch)
    rows_bytes = 4 * (batch_bytes(batch) + BATCH_OVERHEAD_BYTES)
    assert tail.bytes == rows_bytes < batch.nbytes
    tail.mark_durable(150)
    tail.drop_below(150)
    tail.check()
    assert tail.bytes < rows_bytes
    assert tail.unflushed_bytes < rows_bytes


def test_merged_results_of_many_large_dictionaries_are_not_cached() -> None:
    before = pa.total_allocated_bytes()
    for turn in range(3):
        parts = [carried(["a"], [f"{turn} {k} {i:040d}" for i in range(30_000)]) for k in range(4)]
        assert join_batches(parts).num_rows == 4
        del parts
    gc.collect()
    assert pa.total_allocated_bytes() - before < 1 << 20


def test_schemas_of_files_may_have_metadata() -> None:
    """Arrow 19 cannot hash such a schema."""
    plain = pa.schema({"k": pa.int64(), "t": pa.dictionary(pa.int32(), pa.string())})
    told = plain.with_metadata({"from": "a file"})
    assert has_dictionaries(told)
    assert empty_events(told).schema.equals(empty_events(plain).schema, check_metadata=True)
    items = item_schema_of(empty_events(plain).schema.with_metadata({"from": "a file"}))
    assert items.equals(item_schema(plain), check_metadata=True)
