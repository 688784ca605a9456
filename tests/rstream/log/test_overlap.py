"""When the writers have ended, each item is in one file, whatever they wrote."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from rstream import MemoryBlobs, open_reader, read_events
from rstream.errors import SequenceLostError
from rstream.items.batch import Items, item_schema
from rstream.log.durable import DurableLog
from rstream.log.overlap import remove_overlap, seal
from rstream.log.reader import SegmentReader
from rstream.store.seals import sealed_names
from rstream.store.segment_names import parse_segment_name, segment_name
from rstream.types import SeqRange

SCHEMA = item_schema(pa.schema([("x", pa.int64())]))


def items(lo: int, hi: int) -> Items:
    n = hi - lo
    columns = [
        pa.array([0] * n, pa.int8()),
        pa.array(range(lo, hi), pa.int64()),
        pa.array(range(lo + 1, hi + 1), pa.int64()),
        pa.array(range(lo, hi), pa.int64()),
    ]
    return Items(lo, pa.RecordBatch.from_arrays(columns, schema=SCHEMA))


cuts = st.sets(st.integers(1, 39), max_size=8).map(lambda inner: [0, *sorted(inner), 40])


@given(st.lists(cuts, min_size=1, max_size=3))
def test_each_item_is_in_one_segment_and_none_is_lost(writers: list[list[int]]) -> None:
    store = MemoryBlobs()
    log = DurableLog(store, "s")
    for ends in writers:
        for lo, hi in itertools.pairwise(ends):
            log.write(items(lo, hi))
    remove_overlap(store)
    covered = sorted(
        (seqs.lo, seqs.hi) for name in store.list() if (seqs := parse_segment_name(name))
    )
    assert covered[0][0] == 0
    assert covered[-1][1] == 40
    assert all(a[1] == b[0] for a, b in itertools.pairwise(covered)), covered
    reader = open_reader(store)
    seen: list[int] = []
    while (found := reader.read_next()) is not None:
        seen.extend(found.batch.column("x").to_pylist())
    assert seen == list(range(40))


def test_disjoint_segments_are_not_changed() -> None:
    store = MemoryBlobs()
    log = DurableLog(store, "s")
    log.write(items(0, 7))
    log.write(items(7, 9))
    before = store.list()
    assert remove_overlap(store) == 0
    assert store.list() == before


def test_segments_flushed_by_a_zombie_during_sealing_are_not_listed() -> None:
    class Haunted(MemoryBlobs):
        """After each listing an old writer adds a segment that overlaps."""

        def list(self, folder: str = "") -> list[str]:
            found = super().list(folder)
            if found:
                zombie.write(items(len(found), 15))
            return found

    blobs: dict[str, bytes] = {}
    zombie = DurableLog(MemoryBlobs(blobs), "s")
    for lo, hi in ((0, 7), (5, 12), (12, 15)):
        zombie.write(items(lo, hi))
    names = seal(Haunted(blobs))
    ranges = [(s.lo, s.hi) for name in names if (s := parse_segment_name(name))]
    assert ranges == [(0, 7), (7, 12), (12, 15)]
    assert read_events(MemoryBlobs(blobs))["x"].to_pylist() == list(range(15))


def test_a_sealed_stream_contains_only_the_listed_segments() -> None:
    store = MemoryBlobs()
    log = DurableLog(store, "s")
    for lo, hi in ((0, 7), (5, 12), (12, 15)):
        log.write(items(lo, hi))
    names = seal(store)
    assert [(s.lo, s.hi) for n in names if (s := parse_segment_name(n))] == [
        (0, 7),
        (7, 12),
        (12, 15),
    ]
    log.write(items(6, 15))  # a stale writer flushes
    log.write(items(15, 20))
    assert seal(store) == names
    reader = open_reader(store)
    assert isinstance(reader, SegmentReader)
    assert reader.durable_seq == 15
    assert read_events(store)["x"].to_pylist() == list(range(15))
    again = DurableLog(store, "s")
    assert again.end() == 15


@pytest.mark.parametrize(("ranges", "lost"), [([(0, 7), (8, 9)], 7), ([(1, 7)], 0)])
def test_a_stream_with_a_hole_is_not_sealed(ranges: list[tuple[int, int]], lost: int) -> None:
    """A stream with a missing item is not sealed, even if it is the first item."""
    store = MemoryBlobs()
    log = DurableLog(store, "s")
    for lo, hi in ranges:
        log.write(items(lo, hi))
    with pytest.raises(SequenceLostError, match=rf"\b{lost}\b"):
        seal(store)
    assert sealed_names(store) is None


def test_deleted_segments_that_reappear_are_not_listed() -> None:
    """A power loss may undo a deletion; the hole behind it then is no loss."""
    store = MemoryBlobs()
    log = DurableLog(store, "s")
    for lo, hi in ((0, 2), (2, 5), (5, 7), (7, 9)):
        log.write(items(lo, hi))
    names = store.list()
    again = {name: store.get(name) for name in names}
    log.collect(5)
    for collected in (SeqRange(0, 2), SeqRange(2, 5)):
        store.put(segment_name(collected), again[segment_name(collected)])
    assert seal(store) == (segment_name(SeqRange(5, 7)), segment_name(SeqRange(7, 9)))


def test_a_partly_deleted_segment_is_listed() -> None:
    """A segment across the low-water mark is listed, although its first items are collected."""
    store = MemoryBlobs()
    log = DurableLog(store, "s")
    for lo, hi in ((0, 5), (5, 8), (3, 9)):
        log.write(items(lo, hi))
    log.collect(5)
    assert seal(store) == (segment_name(SeqRange(3, 9)),)
    assert read_events(store)["x"].to_pylist()[-4:] == [5, 6, 7, 8]
