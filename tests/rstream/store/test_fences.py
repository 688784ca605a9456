"""Segments of a former generation count only up to the fence of the next one.

Not covered: a job manager that is suspended while it commits a change.
"""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest
from hypothesis import example, given, strategies as st

from jobmanager.driver.running.changes.ends import truncate
from rstream import MemoryBlobs, open_reader
from rstream.items.batch import Items, item_schema
from rstream.log.durable import DurableLog
from rstream.log.overlap import remove_overlap, seal
from rstream.store.fences import Fence, put_fence, reaches_beyond, remove_fences, valid_segments
from rstream.store.segment_names import parse_segment_name, segment_name
from rstream.types import SeqRange

SCHEMA = item_schema(pa.schema([("x", pa.int64())]))
CUT, END = 20, 40
NEXT = Fence(CUT, 1, 7)


def items(lo: int, hi: int, generation: int) -> Items:
    """Return the items of a generation; up to the cut, all generations have the same."""
    count = hi - lo
    values = [seq + (100 * generation if seq >= CUT else 0) for seq in range(lo, hi)]
    columns = [
        pa.array([0] * count, pa.int8()),
        pa.array(range(lo, hi), pa.int64()),
        pa.array(range(lo + 1, hi + 1), pa.int64()),
        pa.array(values, pa.int64()),
    ]
    return Items(lo, pa.RecordBatch.from_arrays(columns, schema=SCHEMA))


def values(store: MemoryBlobs) -> list[int]:
    reader, found = open_reader(store), []
    while (read := reader.read_next(7)) is not None:
        found += read.batch.column("x").to_pylist()
    reader.close()
    return found


RIGHT = [*range(CUT), *range(CUT + 100, END + 100)]
ranges = st.tuples(st.integers(0, END - 1), st.integers(1, END)).filter(lambda r: r[0] < r[1])


def changed(inner: list[int]) -> tuple[MemoryBlobs, DurableLog]:
    """A stream with a change at the cut, and the writer of the former generation."""
    store = MemoryBlobs()
    suspended = DurableLog(store, "s")
    for lo, hi in itertools.pairwise([0, *sorted({k for k in inner if 0 < k < CUT}), CUT]):
        suspended.write(items(lo, hi, 0))
    put_fence(store, NEXT)
    return store, suspended


@example([], [(0, CUT + 1)], False)  # the head of a cut segment was not copied before the deletion
@given(st.lists(st.integers(1, END - 1), max_size=6), st.lists(ranges, max_size=4), st.booleans())
def test_late_segments_of_a_suspended_writer_do_not_count(
    inner: list[int], late: list[tuple[int, int]], is_first: bool
) -> None:
    store, suspended = changed(inner)
    ends = [CUT, *sorted({k for k in inner if CUT < k < END}), END]

    def wake_up() -> None:
        for lo, hi in late:
            suspended.write(items(lo, hi, 0))
            suspended.delete_covered(suspended.layout()[1])

    if is_first:
        wake_up()
        assert values(store) == RIGHT[:CUT]
    log = DurableLog(store, "s", generation=1)
    for lo, hi in itertools.pairwise(ends):
        log.write(items(lo, hi, 1))
    if not is_first:
        suspended.refresh()  # it may have listed the segments of its successor
        wake_up()
    assert values(store) == RIGHT
    remove_overlap(store)
    files = [s for name in store.list() if (s := parse_segment_name(name))]
    assert sorted(seq for s in files for seq in range(s.lo, s.hi)) == list(range(END))
    assert values(store) == RIGHT
    assert len(seal(store)) == len(files)


def test_an_uncommitted_change_hides_nothing() -> None:
    store, writer = changed([])
    writer.write(items(CUT, END, 0))
    assert reaches_beyond(store, NEXT)
    remove_fences(store, 1, epoch=6)
    assert values(store) == list(range(CUT))  # a later job manager has put the fence
    remove_fences(store, 1, epoch=7)
    assert values(store) == list(range(END))
    assert not reaches_beyond(store, Fence(END, 1, 7))


def test_late_fences_of_a_replaced_job_manager_are_void() -> None:
    store, writer = changed([])
    remove_fences(store, 1, epoch=8)  # its successor gives up the change
    writer.write(items(CUT, END, 0))
    put_fence(store, NEXT)
    assert values(store) == list(range(END))
    put_fence(store, Fence(CUT, 1, 8))  # the next attempt of the successor
    assert values(store) == list(range(CUT))
    put_fence(store, Fence(CUT - 5, 2, 7))  # of a change committed earlier
    assert values(store) == list(range(CUT - 5))


def test_a_rollback_deletes_the_segments_that_its_fence_hides() -> None:
    store, _ = changed([])
    log = DurableLog(store, "s", generation=1)
    log.write(items(CUT, END, 1))
    put_fence(store, Fence(CUT - 5, 2, 9))
    for _ in range(2):
        truncate(store, CUT - 5, 2)
        assert sorted(n for n in store.list() if n.endswith(".parquet")) == [
            segment_name(SeqRange(0, CUT - 5))
        ]
    assert values(store) == list(range(CUT - 5))
    DurableLog(store, "s", generation=2).write(items(CUT - 5, END, 2))
    truncate(store, CUT - 5, 2)
    assert len(values(store)) == END


def test_a_rollback_to_an_earlier_seq_applies_to_all_earlier_generations() -> None:
    names = [segment_name(SeqRange(0, 20)), segment_name(SeqRange(20, 40, 1))]
    names += [Fence(20, 1, 3).name, Fence(10, 2, 3).name, segment_name(SeqRange(10, 30, 2))]
    assert list(valid_segments(names)) == [SeqRange(0, 10), SeqRange(10, 30, 2)]


@pytest.mark.parametrize("generation", [0, 1, 999_999])
def test_a_segment_name_contains_the_generation(generation: int) -> None:
    seqs = SeqRange(3, 5, generation)
    assert parse_segment_name(segment_name(seqs)) == seqs
