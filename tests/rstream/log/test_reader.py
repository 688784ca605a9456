"""Readers: the border of memory and Parquet, rewinding, a stream with another writer."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from rstream import (
    Items,
    MemoryBlobs,
    RStream,
    SequenceDiscardedError,
    SequenceLostError,
    StoreError,
    ThreadBackground,
    open_reader,
    read_events,
)
from rstream.format.table import TableForm
from rstream.items.batch import only_events
from rstream.log.durable import DurableLog
from tests.support.content import PAYLOAD, items, open_inline, read_all, rows_of, small_limits


@given(st.integers(0, 100), st.integers(1, 40), st.integers(0, 3000))
def test_there_is_no_gap_or_repeat_between_memory_and_files(
    from_seq: int, items_max: int, tail: int
) -> None:
    limits = small_limits(tail_bytes_max=tail + 1)
    stream = open_inline(MemoryBlobs(), limits=limits)
    for lo in range(0, 100, 10):
        stream.append(items(lo, lo + 10))
    reader = stream.register(from_seq)
    got = read_all(reader, items_max)
    assert rows_of(got) == items(from_seq, 100).to_pylist()
    stream.append(items(100, 103))
    assert rows_of(read_all(reader)) == items(100, 103).to_pylist()


def test_many_readers_and_rereading() -> None:
    stream = open_inline(MemoryBlobs())
    readers = [stream.register(0) for _ in range(3)]
    stream.append(items(0, 30))
    readers[0].read_next(10)
    readers[1].read_next(20)
    assert [r.next_seq for r in readers] == [10, 20, 0]
    rewound = stream.register(5)
    for reader, seq in zip([*readers, rewound], (10, 20, 0, 5), strict=True):
        assert rows_of(read_all(reader)) == items(seq, 30).to_pylist()
        reader.close()


def test_items_in_memory_are_returned_by_reference() -> None:
    stream = open_inline(MemoryBlobs(), durability="volatile")
    batch = items(0, 2000)
    stream.append(batch)
    got = stream.register(0).read_next(5000)
    assert got is not None
    assert got.batch.column(1).buffers()[1].address == batch.column(1).buffers()[1].address


def test_a_reader_below_the_low_water_mark_gets_an_error() -> None:
    stream = open_inline(MemoryBlobs())
    stream.append(items(0, 32))
    stream.flush()
    reader = stream.register(0)
    stream.garbage_collect(20)
    with pytest.raises(SequenceDiscardedError):
        read_all(reader)


def test_a_deleted_segment_is_a_loss() -> None:
    store = MemoryBlobs()
    open_inline(store).append(items(0, 48))
    again = open_inline(store)
    reader = again.register(0)
    store.delete("00000000000000000016-00000000000000000032.parquet")
    assert reader.read_next() is not None
    with pytest.raises(SequenceLostError, match="seq 16"):
        reader.read_next()


def test_wait_ends_with_a_write_or_at_its_limit() -> None:
    stream = RStream.open(MemoryBlobs(), PAYLOAD, durability="volatile")
    reader = stream.register(0)
    assert not reader.wait(0.01)
    results: list[bool] = []
    thread = threading.Thread(target=lambda: results.append(reader.wait(60)))
    thread.start()
    stream.append(items(0, 1))
    thread.join(60)
    assert results == [True]


def test_a_writer_thread_and_a_reader_thread() -> None:
    background = ThreadBackground("flush", 2)
    limits = small_limits(tail_bytes_max=4000, segment_rows_max=50)
    stream = RStream.open(MemoryBlobs(), PAYLOAD, limits=limits, background=background)

    def write() -> None:
        for lo in range(0, 1000, 20):
            stream.append(items(lo, lo + 20))

    thread = threading.Thread(target=write)
    thread.start()
    reader = stream.register(0)
    got = []
    while reader.next_seq < 1000:
        part = reader.read_next(33)
        if part is None:
            assert reader.wait(60)
        else:
            got.append(part)
    thread.join(60)
    assert rows_of(got) == items(0, 1000).to_pylist()
    stream.check()
    stream.close()
    background.close()


def test_a_growing_folder_is_followed() -> None:
    store = MemoryBlobs()
    stream = open_inline(store)
    reader = open_reader(store)
    assert reader.read_schema() is None
    assert reader.read_next() is None
    assert not reader.wait(0)
    stream.append(items(0, 20))
    assert reader.wait(60)
    assert rows_of(read_all(reader)) == items(0, 16).to_pylist()
    stream.flush()
    assert rows_of(read_all(reader)) == items(16, 20).to_pylist()
    assert reader.durable_seq == 20
    reader.close()


def test_a_folder_reader_gets_an_error_for_deleted_items() -> None:
    store = MemoryBlobs()
    stream = open_inline(store)
    stream.append(items(0, 48))
    stream.flush()
    stream.garbage_collect(20)
    assert open_reader(store).next_seq == 20
    with pytest.raises(SequenceDiscardedError):
        open_reader(store, 3).read_next()
    other = MemoryBlobs()
    open_inline(other, durability="volatile", start_seq=30).append(items(30, 50))
    volatile = open_inline(other, durability="volatile", start_seq=30)
    volatile.append(items(30, 50))
    volatile.flush()
    with pytest.raises(SequenceLostError):
        open_reader(other, 3).read_next()


@pytest.mark.parametrize("form", [None, TableForm("start", "end")])
@pytest.mark.parametrize("verify", [True, False])
def test_columns_have_the_requested_order(form: TableForm | None, verify: bool) -> None:
    """Columns are returned in the requested order, not in that of the file."""
    store = MemoryBlobs()
    stream = RStream.open(store, PAYLOAD, form=form)
    stream.append(items(0, 40))
    stream.close()
    names = ["name", "number"]
    assert read_events(store, columns=names).column_names == ["_vs", "_ve", *names]
    reader = open_reader(store, columns=names, verify=verify)
    found = reader.read_next()
    assert found is not None
    assert found.batch.equals(items(0, 40).select(["_kind", "_vs", "_ve", *names]))


def test_read_events_returns_all_events_without_ctis() -> None:
    store = MemoryBlobs()
    with pytest.raises(StoreError, match="no segment"):
        read_events(store)
    stream = open_inline(store)
    stream.append(items(0, 40))
    stream.close()
    assert read_events(store).to_pylist() == only_events(items(0, 40)).to_pylist()
    some = read_events(store, columns=["name"])
    assert some.column_names == ["_vs", "_ve", "name"]
    assert some.num_rows == only_events(items(0, 40)).num_rows


class Glitching(MemoryBlobs):
    """Opened files return damaged bytes on request; a whole get is right."""

    glitches = 0

    def open(self, path: str) -> pa.NativeFile:
        data = bytearray(self.get(path))
        if self.glitches:
            self.glitches -= 1
            data[4:200] = bytes(196)
        return pa.BufferReader(bytes(data))


def test_a_failed_read_does_not_mean_a_damaged_file() -> None:
    store = Glitching()
    open_inline(store).append(items(0, 48))
    reader = open_inline(store).register(0)
    store.glitches = 2
    assert rows_of(read_all(reader, 16)) == items(0, 48).to_pylist()
    assert store.glitches == 0


def test_segments_that_were_replaced_during_a_read_are_found_again() -> None:
    store = MemoryBlobs()
    stream = open_inline(store)
    stream.append(items(0, 48))
    reader = open_reader(store)
    for name in store.list():
        store.delete(name)
    DurableLog(store, "s").write(Items(0, items(0, 48)))
    assert rows_of(read_all(reader, 16)) == items(0, 48).to_pylist()
