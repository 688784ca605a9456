"""The laws of RStream, one by one: uniqueness, gaps, limits, durability, recovery, collection.

The model machine in test_stream_model.py combines them.
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import rstream.format.codec
from rstream import (
    BackPressureError,
    CorruptSegmentError,
    InlineBackground,
    InvalidBatchError,
    ManualClock,
    MemoryBlobs,
    RStream,
    SequenceConflictError,
    SequenceDiscardedError,
    SequenceGapError,
    SequenceLostError,
    SequenceNotReadyError,
    StoreError,
    ThreadBackground,
    open_reader,
    open_store,
)
from rstream.errors import SegmentFormatError
from rstream.format.codec import FORMAT_VERSION
from rstream.items.digest import StreamDigest
from rstream.log.damage import find_damage
from tests.support.content import PAYLOAD, items, open_inline, read_all, rows_of, small_limits
from tests.support.interrupted_store import Interrupted

if TYPE_CHECKING:
    from pathlib import Path


class Failing(MemoryBlobs):
    """A store whose puts fail on request, or wait at a gate."""

    def __init__(self) -> None:
        super().__init__()
        self.is_full = False
        self.gate = threading.Event()
        self.gate.set()

    def put(self, path: str, data: bytes | pa.Buffer) -> None:
        assert self.gate.wait(60)
        if self.is_full:
            raise StoreError(path, "no space left")
        super().put(path, data)


def test_write_read_flush_reopen() -> None:
    store = MemoryBlobs()
    stream = open_inline(store)
    assert stream.write(0, items(0, 40)) == 40
    assert stream.append(items(40, 50)) == 10
    stream.check()
    assert (stream.durable_seq, stream.next_seq) == (48, 50)
    assert stream.flush() == 50
    again = open_inline(store)
    assert (again.first_seq, again.durable_seq, again.next_seq) == (0, 50, 50)
    expected = items(0, 50).to_pylist()
    assert rows_of(read_all(stream.register(0))) == expected
    assert rows_of(read_all(again.register(0))) == expected


def test_first_write_wins_and_repeats_are_counted() -> None:
    stream = open_inline(MemoryBlobs())
    stream.write(0, items(0, 10))
    assert stream.write(0, items(0, 10, salt=1)) == 0
    assert stream.write(5, items(5, 15)) == 5
    assert stream.duplicates == 15
    assert rows_of(read_all(stream.register(0))) == items(0, 15).to_pylist()


@pytest.mark.parametrize("durability", ["async", "sync"])
def test_a_digest_of_partly_repeated_items_is_not_used_for_the_rest(durability: Any) -> None:
    """A writer continues within a batch; with a wrong digest its segment would count as damaged."""
    store = MemoryBlobs()
    with contextlib.closing(open_inline(store, durability=durability)) as stream:
        stream.write(0, items(0, 5))
        digest = StreamDigest()
        digest.update(0, items(0, 12))
        assert stream.write(0, items(0, 12), digest=digest.to_bytes()) == 7
        stream.flush()
    assert rows_of(read_all(open_reader(store))) == items(0, 12).to_pylist()
    assert find_damage(store, "s", 12, contents=True) == []


@pytest.mark.parametrize("is_durable", [False, True])
def test_verify_names_the_first_differing_seq(is_durable: bool) -> None:
    store = MemoryBlobs()
    stream = open_inline(store, verify=True)
    stream.write(0, items(0, 30))
    if is_durable:
        stream.flush()
        stream = open_inline(store, verify=True)
    assert stream.write(3, items(3, 30)) == 0
    bad = pa.concat_batches([items(3, 21), items(21, 30, salt=1)])
    with pytest.raises(SequenceConflictError) as caught:
        stream.write(3, bad)
    assert caught.value.seq == 21
    assert caught.value.kept == "[21, 26) number=63, price=2.625, name=''"
    assert caught.value.given.startswith("[21, 26) number=64,")


def test_verify_skips_lost_and_deleted_items() -> None:
    stream = open_inline(MemoryBlobs(), verify=True, durability="volatile", start_seq=20)
    stream.write(20, items(20, 30))
    stream.garbage_collect(25)
    assert stream.write(10, items(10, 30)) == 0
    assert stream.duplicates == 20


def test_three_distinct_errors() -> None:
    stream = open_inline(MemoryBlobs())
    stream.write(0, items(0, 20))
    with pytest.raises(SequenceGapError, match="next seq to write is 20"):
        stream.write(21, items(21, 22))
    with pytest.raises(SequenceNotReadyError):
        stream.register(21)
    stream.flush()
    stream.garbage_collect(5)
    with pytest.raises(SequenceDiscardedError, match="first seq still kept is 5"):
        stream.register(4)
    assert stream.register(20).read_next() is None


def test_batches_of_another_schema_are_rejected() -> None:
    stream = open_inline(MemoryBlobs())
    with pytest.raises(InvalidBatchError, match="expected columns"):
        stream.append(items(0, 5).drop_columns(["price"]))
    assert stream.next_seq == 0


def test_a_folder_of_another_schema_is_rejected() -> None:
    store = MemoryBlobs()
    stream = open_inline(store)
    stream.append(items(0, 5))
    stream.close()
    with pytest.raises(InvalidBatchError, match="expected"):
        RStream.open(store, pa.schema([("other", pa.int64())]))


def test_a_restarted_writer_continues() -> None:
    store = MemoryBlobs()
    stream = open_inline(store)
    stream.append(items(0, 20))
    stream.flush()
    stream.append(items(20, 25))
    crashed = open_inline(store, start_seq=10)
    assert crashed.next_seq == 20
    assert crashed.write(10, items(10, 30)) == 10
    assert crashed.duplicates == 10
    with pytest.raises(SequenceGapError):
        open_inline(store, start_seq=21)


def test_a_volatile_stream_may_start_at_any_seq() -> None:
    stream = open_inline(MemoryBlobs(), durability="volatile", start_seq=100)
    assert stream.next_seq == 100
    reader = stream.register(90)
    with pytest.raises(SequenceLostError):
        reader.read_next()
    ahead = stream.register(105, ahead=True)
    assert ahead.read_next() is None
    assert not ahead.wait(0)
    stream.write(100, items(100, 110))
    assert ahead.wait(0)
    assert rows_of(read_all(ahead)) == items(105, 110).to_pylist()


def test_incomplete_temporary_files_are_removed(tmp_path: Path) -> None:
    stream = open_inline(str(tmp_path))
    stream.append(items(0, 20))
    stream.close()
    half = tmp_path / "00000000000000000020-00000000000000000030.parquet.77.1.tmp"
    half.write_bytes(b"PAR1half")
    again = open_inline(str(tmp_path))
    assert again.next_seq == 20
    assert not half.exists()


def test_a_corrupt_segment_is_named(tmp_path: Path) -> None:
    stream = open_inline(str(tmp_path))
    stream.append(items(0, 48))
    stream.close()
    segments = sorted(tmp_path.glob("*.parquet"))
    assert len(segments) == 3
    data = segments[1].read_bytes()
    segments[1].write_bytes(data[: len(data) // 2])
    again = open_inline(str(tmp_path))
    reader = again.register(0)
    assert reader.read_next() is not None
    with pytest.raises(CorruptSegmentError, match=segments[1].name):
        reader.read_next()
    segments[2].write_bytes(b"")
    with pytest.raises(CorruptSegmentError, match=segments[2].name):
        open_inline(str(tmp_path))


def test_a_damaged_last_segment_is_set_aside_by_the_writer_that_repeats_it(tmp_path: Path) -> None:
    open_inline(str(tmp_path)).append(items(0, 48))
    last = sorted(tmp_path.glob("*.parquet"))[-1]
    last.write_bytes(last.read_bytes()[:100])
    again = open_inline(str(tmp_path), start_seq=20)
    assert again.next_seq == 32
    again.write(20, items(20, 48))
    assert rows_of(read_all(again.register(0))) == items(0, 48).to_pylist()
    assert (tmp_path / f"_damaged-{last.name}.aside").read_bytes()


def test_a_segment_of_a_later_version_is_not_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_inline(str(tmp_path)).append(items(0, 16))
    with monkeypatch.context() as later:
        later.setattr(rstream.format.codec, "FORMAT_VERSION", FORMAT_VERSION + 1)
        open_inline(str(tmp_path)).append(items(16, 32))
    before = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(SegmentFormatError, match="use the version that wrote it"):
        open_inline(str(tmp_path), start_seq=20)
    with pytest.raises(SegmentFormatError):
        find_damage(open_store(str(tmp_path)), "s", 32, contents=True, set_aside=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == before


@pytest.mark.parametrize("mark", [b"32\n", b"32"])
def test_a_stream_continues_after_its_deleted_items(tmp_path: Path, mark: bytes) -> None:
    """A stream continues after deleted items, also if an earlier version wrote the mark."""
    stream = open_inline(str(tmp_path))
    stream.append(items(0, 32))
    stream.garbage_collect(32)
    assert not list(tmp_path.glob("*.parquet"))
    (tmp_path / "_low_water_mark").write_bytes(mark)
    assert open_inline(str(tmp_path)).next_seq == 32


def test_a_replica_opens_while_another_one_writes_and_deletes() -> None:
    """Listed files may be gone; it writes the needed items, and none is missing."""
    alone = open_beside_a_collector(-1)
    assert alone > 2
    for at in range(alone):
        open_beside_a_collector(at)


def open_beside_a_collector(at: int) -> int:
    """The other writes and collects before call ``at`` of the opening.

    Return the number of calls.
    """
    shared = MemoryBlobs()
    other = open_inline(shared, shared=True)
    other.write(0, items(0, 32))
    other.flush()

    def go_on() -> None:
        other.write(32, items(32, 64))
        other.flush()
        other.garbage_collect(48)

    store = Interrupted(shared.blobs, at, go_on)
    mine = open_inline(store, shared=True, start_seq=16)
    calls = store.calls
    mine.write(16, items(16, 80))
    mine.flush()
    found = rows_of(read_all(open_reader(shared, 48)))
    assert found == items(48, 80).to_pylist(), at
    return calls


def test_sync_items_are_durable_before_they_are_visible() -> None:
    store = Failing()
    stream = open_inline(store, durability="sync")
    store.is_full = True
    with pytest.raises(StoreError, match="no space left"):
        stream.append(items(0, 10))
    assert stream.next_seq == 0
    store.is_full = False
    stream.append(items(0, 12))
    assert stream.durable_seq == 12
    assert open_inline(store).next_seq == 12


def test_a_failed_flush_is_raised_once_and_retried() -> None:
    store = Failing()
    stream = open_inline(store)
    store.is_full = True
    stream.append(items(0, 20))
    with pytest.raises(StoreError, match="no space left"):
        stream.append(items(20, 25))
    assert stream.next_seq == 20
    store.is_full = False
    stream.append(items(20, 25))
    assert stream.flush() == 25
    stream.check()


@pytest.mark.parametrize("is_torn", [True, False])
def test_a_failed_put_removes_only_its_own_part(is_torn: bool) -> None:
    class Racing(MemoryBlobs):
        """A put fails while another writer's file, or half of this one, appears."""

        def put(self, path: str, data: bytes | pa.Buffer) -> None:
            whole = bytes(data)
            super().put(path, whole[: len(whole) // 2] if is_torn else whole)
            raise StoreError(path, "no answer")

    store = Racing()
    stream = open_inline(store)
    stream.append(items(0, 16))
    with pytest.raises(StoreError, match="no answer"):
        stream.flush()
    assert len(store.list()) == (0 if is_torn else 1)
    assert open_inline(MemoryBlobs(store.blobs)).next_seq == (0 if is_torn else 16)


def test_close_retries_a_failed_flush() -> None:
    store = Failing()
    stream = open_inline(store)
    store.is_full = True
    stream.append(items(0, 20))
    store.is_full = False
    stream.close()
    assert open_inline(store).next_seq == 20


def test_the_interval_flushes_the_remaining_items() -> None:
    changed = threading.Event()
    stream = RStream.open(
        MemoryBlobs(), PAYLOAD, limits=small_limits(flush_interval_ms=1), on_change=changed.set
    )
    stream.append(items(0, 5))
    while stream.durable_seq < 5:
        assert changed.wait(60)
        changed.clear()
    stream.close()


def test_a_full_tail_blocks_until_the_flush_is_done() -> None:
    store = Failing()
    store.gate.clear()
    background = ThreadBackground("flush")
    limits = small_limits(tail_bytes_max=2000)
    stream = RStream.open(store, PAYLOAD, limits=limits, background=background)
    stream.append(items(0, 60))
    assert not stream.has_room()
    done = threading.Event()

    def write() -> None:
        stream.append(items(60, 70))
        done.set()

    thread = threading.Thread(target=write)
    thread.start()
    assert not done.wait(0.05)
    assert stream.next_seq == 60
    store.gate.set()
    assert done.wait(60)
    thread.join()
    stream.flush()
    stream.check()
    assert stream.tail_bytes <= 2000
    assert rows_of(read_all(stream.register(0))) == items(0, 70).to_pylist()
    background.close()


def test_back_pressure_has_a_limit() -> None:
    store = Failing()
    store.gate.clear()
    background = ThreadBackground("flush")
    limits = small_limits(tail_bytes_max=100, write_wait_s=0.05)
    stream = RStream.open(store, PAYLOAD, limits=limits, background=background)
    stream.append(items(0, 20))
    with pytest.raises(BackPressureError):
        stream.append(items(20, 21))
    assert stream.next_seq == 20
    store.gate.set()
    stream.close()
    background.close()


def test_consumption_frees_a_volatile_tail() -> None:
    clock = ManualClock()
    limits = small_limits(tail_bytes_max=100)
    store = MemoryBlobs()
    changes: list[int] = []
    stream = open_inline(
        store,
        durability="volatile",
        limits=limits,
        clock=clock,
        on_change=lambda: changes.append(1),
    )
    stream.append(items(0, 20))
    assert not stream.has_room()
    before = len(changes)
    stream.garbage_collect(20)
    assert len(changes) == before + 1
    assert stream.has_room()
    assert stream.tail_bytes == 0
    assert store.list() == []


def test_a_volatile_tail_without_consumption_spills() -> None:
    clock = ManualClock()
    limits = small_limits(tail_bytes_max=3000, segment_rows_max=1000)
    store = MemoryBlobs()
    stream = open_inline(store, durability="volatile", limits=limits, clock=clock)
    while stream.has_room():
        stream.append(items(stream.next_seq, stream.next_seq + 10))
    end = stream.next_seq
    clock.advance(500_000)
    assert not stream.has_room()
    assert store.list() == []
    clock.advance(600_000)
    assert stream.has_room()
    assert len(store.list()) == 1
    assert stream.tail_first_seq > 0
    stream.check()
    assert rows_of(read_all(stream.register(0))) == items(0, end).to_pylist()


def test_batches_far_larger_than_a_volatile_tail_are_not_slow() -> None:
    clock = ManualClock()
    limits = small_limits(tail_bytes_max=1000, segment_rows_max=1000)
    store = MemoryBlobs()
    stream = open_inline(store, durability="volatile", limits=limits, clock=clock)
    for lo in (0, 400, 800):
        assert stream.has_room()
        stream.append(items(lo, lo + 400))
        assert stream.tail_bytes > 10 * limits.tail_bytes_max
        if lo == 0:
            assert not stream.has_room()
            clock.advance(1_100_000)
    assert stream.has_room()
    stream.check()
    assert rows_of(read_all(stream.register(0))) == items(0, 1200).to_pylist()
    stream.append(items(1200, 1600))
    stream.garbage_collect(30)
    assert not stream.has_room(), "something is consumed: the writer waits again"


def test_deleted_items_of_a_volatile_stream_can_be_recomputed_and_spilled_again() -> None:
    clock = ManualClock()
    store = MemoryBlobs()
    limits = small_limits(tail_bytes_max=3000, segment_rows_max=1000)
    for start, consumed in ((0, 60), (20, 0)):
        stream = open_inline(
            store, durability="volatile", limits=limits, clock=clock, start_seq=start
        )
        while stream.tail_first_seq < start + 30:
            if stream.has_room():
                stream.append(items(stream.next_seq, stream.next_seq + 10))
            clock.advance(2_000_000)
        stream.garbage_collect(consumed)
        stream.check()
    reader = stream.register(20)
    stream._log.refresh()
    assert rows_of(read_all(reader)) == items(20, stream.next_seq).to_pylist()


def test_a_replaced_writer_does_not_lower_the_mark() -> None:
    store = MemoryBlobs()
    open_inline(store).write(0, items(0, 48))
    zombie, successor = open_inline(store), open_inline(store)
    successor.garbage_collect(48)
    zombie.garbage_collect(16)
    assert open_inline(store, start_seq=48).first_seq == 48


def test_a_full_tail_reports_its_failed_flush() -> None:
    store = Failing()
    stream = open_inline(store, limits=small_limits(tail_bytes_max=1000))
    store.is_full = True
    stream.write(0, items(0, 40))
    with pytest.raises(StoreError):
        stream.has_room()
    store.is_full = False
    assert stream.flush() == 40
    assert stream.has_room()


def test_spilling_unblocks_a_volatile_writer() -> None:
    limits = small_limits(tail_bytes_max=3000, spill_after_s=0.02)
    stream = RStream.open(MemoryBlobs(), PAYLOAD, durability="volatile", limits=limits)
    for lo in range(0, 200, 10):
        stream.append(items(lo, lo + 10))
    stream.check()
    assert rows_of(read_all(stream.register(0))) == items(0, 200).to_pylist()
    stream.close()


def test_garbage_collection_deletes_whole_segments_and_survives_reopening() -> None:
    store = MemoryBlobs()
    stream = open_inline(store)
    stream.append(items(0, 64))
    assert len(store.list()) == 4
    stream.garbage_collect(33)
    assert [n for n in store.list() if n.endswith("parquet")] == [
        "00000000000000000032-00000000000000000048.parquet",
        "00000000000000000048-00000000000000000064.parquet",
    ]
    stream.garbage_collect(10)
    assert stream.first_seq == 33
    again = open_inline(store)
    assert again.first_seq == 33
    assert rows_of(read_all(again.register(33))) == items(33, 64).to_pylist()
    again.garbage_collect(1000)
    assert open_inline(store).next_seq == 64


def test_durable_items_stay_in_memory_only_for_readers() -> None:
    stream = open_inline(MemoryBlobs())
    stream.append(items(0, 10))
    stream.flush()
    assert stream.tail_bytes == 0
    stream.register(0)
    stream.append(items(10, 20))
    stream.flush()
    assert stream.tail_first_seq == 10


def test_garbage_collection_keeps_items_that_are_not_durable() -> None:
    stream = open_inline(MemoryBlobs())
    stream.append(items(0, 10))
    stream.register(0)
    stream.garbage_collect(8)
    assert stream.tail_first_seq == 0
    assert stream.flush() == 10
    assert stream.tail_first_seq == 8
    assert rows_of(read_all(stream.register(8))) == items(8, 10).to_pylist()


def test_a_late_replica_below_the_mark_leaves_no_hole() -> None:
    store = MemoryBlobs()
    first, second = open_inline(store), open_inline(store)
    first.append(items(0, 64))
    first.garbage_collect(50)
    second.append(items(0, 16))
    again = open_inline(store)
    assert (again.first_seq, again.next_seq) == (50, 64)


def test_two_writers_with_different_segments_have_the_same_items() -> None:
    store = MemoryBlobs()
    one = open_inline(store)
    two = open_inline(store, limits=small_limits(segment_rows_max=11))
    one.append(items(0, 40))
    two.append(items(0, 60))
    one.flush()
    two.flush()
    again = open_inline(store)
    assert again.next_seq == 60
    assert rows_of(read_all(again.register(0))) == items(0, 60).to_pylist()


def test_a_closed_stream_accepts_no_items_but_can_be_read() -> None:
    store = MemoryBlobs()
    stream = open_inline(store)
    stream.append(items(0, 5))
    stream.close()
    stream.close()
    with pytest.raises(StoreError, match="closed"):
        stream.append(items(5, 6))
    assert rows_of(read_all(stream.register(0))) == items(0, 5).to_pylist()
    assert open_inline(store).next_seq == 5


def test_closing_without_a_flush_equals_a_crash() -> None:
    store = MemoryBlobs()
    background = InlineBackground()
    stream = open_inline(store, background=background)
    stream.append(items(0, 5))
    stream.close(flush=False)
    background.run_delayed()
    assert store.list() == []
    assert open_inline(store).next_seq == 0


def test_a_flush_that_takes_too_long_is_an_error() -> None:
    store = Failing()
    store.gate.clear()
    background = ThreadBackground("flush")
    stream = RStream.open(store, PAYLOAD, limits=small_limits(), background=background)
    stream.append(items(0, 20))
    with pytest.raises(StoreError, match=r"flush took longer than 0\.02 s"):
        stream.flush(0.02)
    store.gate.set()
    assert stream.flush() == 20
    stream.request_flush()
    stream.close()
    background.close()
