"""Small segments are merged: numbers and contents stay the same for readers, despite crashes.

Not covered: a plain reader of the folder, which may see rows twice for a moment; so outputs are
not compacted.
"""

from __future__ import annotations

import contextlib
import itertools
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, strategies as st

from rstream import InlineBackground, MemoryBlobs, StoreError, open_reader
from rstream.limits import StreamLimits
from rstream.log.compaction import Compactor, next_run
from rstream.log.durable import DurableLog
from rstream.log.overlap import seal
from rstream.log.reader import SegmentReader
from rstream.store.seals import CLOSING_NAME, SEAL_NAME, break_seal
from rstream.store.segment_names import parse_segment_name, segment_name
from rstream.types import SeqRange
from tests.support.budget import examples
from tests.support.content import items, open_inline, read_all, rows_of, small_limits
from tests.support.crashing_store import CrashingBlobs, DiedError, Life, deaths
from tests.support.interrupted_store import Interrupted

if TYPE_CHECKING:
    from rstream import BlobStore

LIMITS = small_limits(segment_rows_max=1_000, compact_segments_min=4)
ROWS = 36


def segments(store: BlobStore) -> list[SeqRange]:
    return [seqs for name in store.list() if (seqs := parse_segment_name(name)) is not None]


def grow(
    store: BlobStore, lo: int, hi: int, *, rows: int = 1, limits: StreamLimits = LIMITS
) -> None:
    """Append this number of items as segments of ``step`` items."""
    stream = open_inline(store, start_seq=lo, limits=limits)
    for seq in range(lo, hi, rows):
        stream.write(seq, items(seq, min(seq + rows, hi)))
        stream.flush(0)
    stream.close()


def compactor(store: BlobStore, limits: StreamLimits = LIMITS) -> Compactor:
    return Compactor(DurableLog(store, "s"), limits, InlineBackground(), lambda: False)


def check_all(store: BlobStore, hi: int, lo: int = 0) -> None:
    found = rows_of(read_all(open_reader(store, lo)))
    assert found == items(lo, hi).to_pylist()


# ---- which are merged


def test_the_number_of_files_is_logarithmic_in_the_rows() -> None:
    store = MemoryBlobs()
    grow(store, 0, 40)
    assert len(segments(store)) <= 3 * 3, "at most three of each class of 1, 4, 16 rows"
    check_all(store, 40)


def test_without_a_limit_nothing_is_merged() -> None:
    store = MemoryBlobs()
    grow(store, 0, 40, limits=small_limits())
    assert len(segments(store)) == 40


def sized(ranges: list[tuple[int, int]], limits: StreamLimits, size: int = 1) -> list[SeqRange]:
    chain = [SeqRange(lo, hi) for lo, hi in ranges]
    return next_run(chain, limits, lambda seqs: size) or []


def test_merged_segments_have_their_own_limits() -> None:
    four = [(k, k + 1) for k in range(4)]
    assert sized(four, StreamLimits(compact_segments_min=4)) == [SeqRange(*r) for r in four]
    assert sized(four, StreamLimits(compact_segments_min=5)) == []
    assert sized(four, StreamLimits(compact_segments_min=4, segment_rows_max=3)) == []
    assert sized(four, StreamLimits(compact_segments_min=4, compact_bytes_max=3)) == []


def test_a_run_has_no_hole_and_includes_smaller_segments() -> None:
    limits = StreamLimits(compact_segments_min=3)
    assert sized([(0, 1), (1, 2), (3, 4), (4, 5)], limits) == []
    mixed = [(0, 5), (5, 6), (6, 11), (11, 40)]
    assert sized(mixed, limits) == [SeqRange(0, 5), SeqRange(5, 6), SeqRange(6, 11)]


# ---- who is disturbed by it


@pytest.mark.slow
@examples(40)
@given(st.data())
def test_readers_writers_and_merges_in_any_order(data: st.DataObject) -> None:
    """Regardless of the steps between two reads, each reader gets each item once."""
    store = MemoryBlobs()
    readers: list[tuple[SegmentReader, list[dict[str, object]]]] = []
    end, mark = 0, 0
    tools: list[Compactor] = []
    for _ in range(data.draw(st.integers(1, 40))):
        match data.draw(st.sampled_from(["write", "write", "read", "open", "step", "tool", "gc"])):
            case "write":
                more = data.draw(st.integers(1, 5))
                grow(store, end, end + more, limits=small_limits())
                end += more
            case "open":
                readers.append((SegmentReader(store, mark), []))
            case "tool":  # as another writer of the stream opens it, which may know less
                tools.append(compactor(store))
            case "step" if tools:
                with contextlib.suppress(FileNotFoundError):
                    data.draw(st.sampled_from(tools)).step()
            case "gc" if all(reader.next_seq >= end for reader, _ in readers):
                mark = end
                DurableLog(store, "s").collect(mark)
            case "read" if readers:
                reader, found = data.draw(st.sampled_from(readers))
                got = reader.read_next(data.draw(st.integers(1, 4)))
                found.extend(rows_of([got]) if got is not None else [])
    for reader, found in readers:
        start = reader.next_seq - len(found)
        found += rows_of(read_all(reader))
        assert found == items(start, max(end, start)).to_pylist()


def compact_all(tool: Compactor) -> None:
    while tool.step():
        pass


def seal_while(
    blobs: dict[str, bytes], at: int, *, who_wakes: str
) -> tuple[tuple[str, ...], Interrupted]:
    """One process seals while a stale writer compacts; one runs at call ``at`` of the other."""
    found: list[tuple[str, ...]] = []
    if who_wakes == "writer":
        zombie = compactor(MemoryBlobs(blobs))
        store = Interrupted(blobs, at, lambda: compact_all(zombie))
        found.append(seal(store))
    else:
        store = Interrupted(blobs, at, lambda: found.append(seal(MemoryBlobs(blobs))))
        zombie = compactor(store)
    compact_all(zombie)
    return found[0] if found else seal(MemoryBlobs(blobs)), store


@pytest.mark.parametrize("who_wakes", ["writer", "sealer"])
def test_a_sealed_stream_keeps_the_segments_in_its_seal(who_wakes: str) -> None:
    for at in itertools.count():
        blobs: dict[str, bytes] = {}
        grow(MemoryBlobs(blobs), 0, ROWS, limits=small_limits(), rows=7)
        names, interrupted = seal_while(blobs, at, who_wakes=who_wakes)
        store = MemoryBlobs(blobs)
        assert [name for name in names if not store.exists(name)] == [], at
        assert seal(store) == names
        check_all(store, ROWS)
        if interrupted.calls <= at:  # the other one had ended before
            break
    assert at > 3


@pytest.mark.parametrize("name", [CLOSING_NAME, SEAL_NAME])
def test_nothing_is_deleted_after_sealing_has_started(name: str) -> None:
    """While a stream is sealed, compaction deletes nothing."""
    store = MemoryBlobs()
    grow(store, 0, 4, limits=small_limits())
    store.put(name, b"")
    tool = compactor(store)
    tool.step()
    assert len(segments(store)) == 5
    check_all(store, 4)
    break_seal(store)
    tool.step()
    assert len(segments(store)) == 1
    check_all(store, 4)


# ---- crashes and damage


@pytest.mark.slow
def test_a_process_dies_at_every_call() -> None:
    def compact(store: BlobStore) -> None:
        tool = compactor(store)
        while tool.step():
            pass

    store, undisturbed = MemoryBlobs(), Life()
    grow(store, 0, 17, limits=small_limits())
    compact(CrashingBlobs(store, undisturbed))
    final = segments(store)
    for at, how in deaths(undisturbed.calls, is_atomic=True):
        store = MemoryBlobs()
        grow(store, 0, 17, limits=small_limits())
        life = Life(at, how)
        with contextlib.suppress(DiedError):
            compact(CrashingBlobs(store, life))
        assert life.is_dead
        check_all(store, 17)
        compact(store)
        assert segments(store) == final, (at, how)
        check_all(store, 17)


def test_unreadable_segments_are_left_to_readers() -> None:
    store = MemoryBlobs()
    grow(store, 0, 9, limits=small_limits())
    broken = segment_name(SeqRange(1, 2))
    data = bytearray(store.get(broken))
    data[len(data) // 2] ^= 0xFF
    store.put(broken, bytes(data))
    stream = open_inline(store, start_seq=9, limits=LIMITS)
    for seq in range(9, 30):
        stream.write(seq, items(seq, seq + 1))
        stream.flush(0)
    stream.close()
    assert SeqRange(1, 2) in segments(store)
    assert len(segments(store)) < 30


def test_a_failed_merge_is_retried_with_the_next_segment() -> None:
    class Fragile(MemoryBlobs):
        is_broken = False

        def delete(self, path: str) -> None:
            if self.is_broken:
                raise StoreError(path, "busy")
            super().delete(path)

    store = Fragile()
    store.is_broken = True
    grow(store, 0, 5)
    assert len(segments(store)) == 6
    store.is_broken = False
    grow(store, 5, 6)
    assert len(segments(store)) <= 3
    check_all(store, 6)


@pytest.mark.parametrize("number", [1, -1])
def test_a_single_segment_is_not_merged(number: int) -> None:
    with pytest.raises(AssertionError):
        StreamLimits(compact_segments_min=number)
