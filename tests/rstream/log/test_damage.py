"""Any damage to any segment of a stream is detected, and the segment is written again.

Not covered: the writer's side (tests/jobmanager/manager/test_damage.py).
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rstream import MemoryBlobs, SeqRange, StreamDigest, open_reader
from rstream.format.codec import SegmentEncoder
from rstream.log.damage import MISSING, find_damage, first_hole, set_aside_damaged
from rstream.log.overlap import copy_range, seal
from rstream.store.seals import sealed_names
from rstream.store.segment_names import parse_segment_name, segment_name
from tests.support.content import items, open_inline, read_all, rows_of
from tests.support.crashing_store import CrashingBlobs, DiedError, Life, deaths

if TYPE_CHECKING:
    from collections.abc import Callable

    from rstream import BlobStore


def flipped(data: bytes) -> bytes:
    """Flip a bit of a column's last value, which no footer reveals."""
    group = pq.read_metadata(pa.BufferReader(data)).row_group(0)
    column = group.column(group.num_columns - 1)
    at = column.data_page_offset + column.total_compressed_size - 1
    return data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :]


ROWS = 40
SEGMENTS = [SeqRange(0, 16), SeqRange(16, 32), SeqRange(32, ROWS)]
HARMS: dict[str, Callable[[bytes], bytes | None]] = {
    "delete": lambda data: None,
    "empty": lambda data: b"",
    "cut": lambda data: data[:-9],
    "flip": flipped,
}
IS_SEALED = pytest.mark.parametrize("is_sealed", [False, True])
HARM = pytest.mark.parametrize("harm", HARMS)
SEGMENT = pytest.mark.parametrize("segment", SEGMENTS, ids=str)


def written(*, is_sealed: bool) -> MemoryBlobs:
    store = MemoryBlobs()
    write(store, 0)
    if is_sealed:
        assert seal(store) == tuple(map(segment_name, SEGMENTS))
    return store


def write(store: BlobStore, seq: int) -> None:
    stream = open_inline(store, start_seq=seq)
    stream.write(seq, items(seq, ROWS))
    stream.close()


def do_harm(store: BlobStore, segment: SeqRange, harm: str) -> None:
    name = segment_name(segment)
    left = HARMS[harm](store.get(name))
    if left is None:
        store.delete(name)
    else:
        store.put(name, left)


class OverANetwork:
    """A store that is neither in memory nor on a disk; it records complete reads."""

    def __init__(self, store: MemoryBlobs) -> None:
        self._store = store
        self.copied: list[str] = []

    def get(self, path: str) -> bytes:
        self.copied.append(path)
        return self._store.get(path)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


@IS_SEALED
@HARM
@SEGMENT
@pytest.mark.parametrize("contents", [False, True])
def test_damage_is_detected_and_repaired_by_the_writer(
    contents: bool, segment: SeqRange, harm: str, is_sealed: bool
) -> None:
    """The seal of a stream includes its end."""
    store = written(is_sealed=is_sealed)
    end = None if is_sealed else ROWS
    assert find_damage(store, "s", end, contents=contents) == []
    do_harm(store, segment, harm)
    (told,) = find_damage(store, "s", end, contents=contents)
    assert told.seqs == segment
    assert told.path.endswith(segment_name(segment))
    assert (told.reason == MISSING) == (harm == "delete")
    assert find_damage(store, "s", end, contents=contents, set_aside=True) == [told]
    assert not store.exists(segment_name(segment))
    assert sealed_names(store) is None, "what its writer puts there is named by nothing yet"
    write(store, segment.lo)
    assert rows_of(read_all(open_reader(store, 0))) == items(0, ROWS).to_pylist()
    seal(store)
    assert find_damage(store, "s", ROWS, contents=True) == []


def test_items_that_do_not_match_their_digest_are_found_on_request() -> None:
    """The checksum is the file's; it does not show whether the file has the right items."""
    store = MemoryBlobs()
    other = StreamDigest()
    other.update(0, items(0, 16, salt=1))
    store.put(
        segment_name(SEGMENTS[0]),
        SegmentEncoder("s").encode(0, [items(0, 16)], [other.to_bytes()]),
    )
    assert find_damage(store, "s", 16, contents=False) == []
    (told,) = find_damage(store, "s", 16, contents=True)
    assert "digest differs" in told.reason


class MergedMeanwhile(OverANetwork):
    """A store in which a writer merges all segments after they were listed."""

    def get(self, path: str) -> bytes:
        if parse_segment_name(path) is not None and not self.copied:
            self.copied.append(path)
            copy_range(self._store, SeqRange(0, ROWS))
            for name in SEGMENTS:
                self._store.delete(segment_name(name))
        return self._store.get(path)


def test_segments_merged_during_the_check_are_not_missing() -> None:
    store = MergedMeanwhile(written(is_sealed=False))
    assert find_damage(store, "s", ROWS, contents=True, set_aside=True) == []
    assert store.copied
    store.delete(segment_name(SeqRange(0, ROWS)))
    (told,) = find_damage(store, "s", ROWS, contents=True)
    assert (told.seqs, told.reason) == (SeqRange(0, ROWS), MISSING)


def test_over_a_network_only_footers_are_read_unless_contents_are_requested() -> None:
    there = written(is_sealed=False)
    do_harm(there, SEGMENTS[1], "flip")
    far = OverANetwork(there)
    assert find_damage(far, "s", ROWS, contents=False) == []
    assert not any(parse_segment_name(path) for path in far.copied)
    (told,) = find_damage(far, "s", ROWS, contents=True)
    assert told.seqs == SEGMENTS[1]


@HARM
@SEGMENT
def test_a_reader_that_finds_damage_sets_the_segment_aside(segment: SeqRange, harm: str) -> None:
    store = written(is_sealed=False)
    for seq in range(ROWS):
        set_aside_damaged(store, "s", seq)
    assert first_hole(store, "s", ROWS) is None, "what is whole stays"
    do_harm(store, segment, harm)
    set_aside_damaged(store, "s", segment.hi - 1)
    hole = first_hole(store, "s", ROWS)
    assert hole is not None
    assert (hole.seqs, hole.reason) == (segment, MISSING)


@SEGMENT
def test_damage_covered_by_another_segment_is_no_loss_and_keeps_the_seal(segment: SeqRange) -> None:
    store = written(is_sealed=True)
    lone = SeqRange(segment.lo, segment.lo + 3)
    store.put(segment_name(lone), b"half")
    assert find_damage(store, "s", None, contents=True, set_aside=True) == []
    assert sealed_names(store) == tuple(map(segment_name, SEGMENTS))


def test_several_losses_are_listed_in_order() -> None:
    store = written(is_sealed=True)
    for segment in (SEGMENTS[2], SEGMENTS[0]):
        do_harm(store, segment, "cut")
    found = find_damage(store, "s", None, contents=False)
    assert [damage.seqs for damage in found] == [SEGMENTS[0], SEGMENTS[2]]


@SEGMENT
def test_intact_parts_of_a_damaged_segment_survive_any_crash(segment: SeqRange) -> None:
    """The segment is renamed before it is deleted, so a successor detects the damage, too."""
    undisturbed = Life()
    find_and_set_aside(harmed(segment), undisturbed)
    for at, how in deaths(undisturbed.calls, is_atomic=True):
        store, life = harmed(segment), Life(at, how)
        left = store.get(segment_name(segment))
        with contextlib.suppress(DiedError):
            find_and_set_aside(store, life)
        assert life.is_dead
        assert left in store.blobs.values(), life.calls[-1]
        (damage,) = find_damage(store, "s", ROWS, contents=True, set_aside=True)
        assert damage.seqs == segment, life.calls[-1]
        assert sealed_names(store) is None, life.calls[-1]


def harmed(segment: SeqRange) -> MemoryBlobs:
    store = written(is_sealed=True)
    do_harm(store, segment, "flip")
    return store


def find_and_set_aside(store: MemoryBlobs, life: Life) -> None:
    find_damage(CrashingBlobs(store, life), "s", ROWS, contents=True, set_aside=True)
