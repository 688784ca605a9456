"""The head of an output is deleted in whole segments, and its digest is kept, despite crashes."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, strategies as st

from rstream import InlineBackground, MemoryBlobs, StreamDigest, open_reader
from rstream.errors import SequenceDiscardedError, StoreError
from rstream.log.compaction import Compactor
from rstream.log.damage import find_damage, first_hole
from rstream.log.durable import DurableLog
from rstream.log.overlap import seal
from rstream.log.prefix_digest import PrefixDigest
from rstream.log.retention import collect
from rstream.log.stream import RStream
from rstream.store.marks import beginnings, put_beginning
from rstream.store.segment_names import parse_segment_name
from rstream.types import SeqRange
from tests.support.budget import examples
from tests.support.content import PAYLOAD, items, read_all, rows_of, small_limits
from tests.support.crashing_store import CrashingBlobs, DiedError, Life, deaths

if TYPE_CHECKING:
    from rstream import BlobStore
    from rstream.limits import StreamLimits

ROWS, STEP = 24, 4


def opened(store: BlobStore, seq: int = 0, limits: StreamLimits | None = None) -> RStream:
    return RStream.open(
        store,
        PAYLOAD,
        stream_id="s",
        start_seq=seq,
        limits=limits or small_limits(),
        background=InlineBackground(),
        keeps_digest=True,
    )


def grown(rows: int = ROWS, step: int = STEP) -> MemoryBlobs:
    """A segment for every ``step`` items."""
    store = MemoryBlobs()
    stream = opened(store)
    for seq in range(0, rows, step):
        stream.write(seq, items(seq, min(seq + step, rows)))
        stream.flush(0)
    stream.close()
    return store


def log_of(store: BlobStore) -> DurableLog:
    log = DurableLog(store, "s")
    log.keeps_digest = True
    return log


def segments(store: BlobStore) -> list[SeqRange]:
    return [seqs for name in store.list() if (seqs := parse_segment_name(name)) is not None]


def digest_of(rows: int) -> StreamDigest:
    digest = StreamDigest()
    if rows:
        digest.update(0, items(0, rows))
    return digest


def check_kept(store: BlobStore, rows: int = ROWS) -> int:
    """Check that all items from the start of the stream exist.

    Return the digest of the deleted ones.
    """
    log = log_of(store)
    first = log.mark
    assert rows_of(read_all(open_reader(store, first))) == items(first, rows).to_pylist()
    past = PrefixDigest(store)
    assert past.reach(rows)
    assert past.digest == digest_of(rows)
    assert find_damage(store, "s", rows, contents=True) == []
    assert first_hole(store, "s", rows) is None
    return first


def test_whole_segments_are_deleted_except_the_newest() -> None:
    store = grown()
    collect(log_of(store), 10)
    assert check_kept(store) == 8
    collect(log_of(store), ROWS)
    assert check_kept(store) == ROWS - STEP
    assert segments(store) == [SeqRange(ROWS - STEP, ROWS)]
    assert beginnings(store.list()) == [ROWS - STEP]


def test_a_reader_of_deleted_items_is_told_the_first_kept_seq() -> None:
    store = grown()
    collect(log_of(store), 10)
    with pytest.raises(SequenceDiscardedError) as caught:
        open_reader(store, 3).read_next()
    assert (caught.value.seq, caught.value.first_seq) == (3, 8)


def test_an_open_stream_deletes_whole_segments() -> None:
    store = grown()
    stream = opened(store, ROWS)
    stream.garbage_collect(10)
    assert stream.first_seq == 8
    reader = stream.register(8)
    assert rows_of(list(iter(reader.read_next, None))) == items(8, ROWS).to_pylist()
    stream.garbage_collect(ROWS)
    assert stream.first_seq == ROWS - STEP
    stream.close()
    check_kept(store)


def test_a_writer_that_starts_before_the_kept_items_repeats_nothing() -> None:
    store = grown()
    collect(log_of(store), 10)
    stream = opened(store, 2)
    stream.write(2, items(2, ROWS + 3))
    stream.flush(0)
    stream.close()
    assert stream.duplicates == ROWS - 2
    assert check_kept(store, ROWS + 3) == 8


def test_a_stream_with_deleted_items_can_be_sealed() -> None:
    store = grown()
    collect(log_of(store), 10)
    assert len(seal(store)) == 4
    assert check_kept(store) == 8


def test_an_incomplete_beginning_is_ignored() -> None:
    """A truncated mark is ignored; it was written before the first deletion."""
    store = grown()
    collect(log_of(store), 10)
    whole = dict(store.blobs)
    put_beginning(store, 16, b"\1" * 16)
    (name,) = set(store.blobs) - set(whole)
    store.put(name, store.get(name)[:7])
    assert check_kept(store) == 8


@pytest.mark.slow
def test_a_process_dies_at_every_call() -> None:
    def act(store: BlobStore) -> None:
        collect(log_of(store), 6)
        collect(log_of(store), 13)

    undisturbed, before = Life(), grown()
    act(CrashingBlobs(MemoryBlobs(dict(before.blobs)), undisturbed))
    for at, how in deaths(undisturbed.calls):
        store = MemoryBlobs(dict(before.blobs))
        with contextlib.suppress(DiedError):
            act(CrashingBlobs(store, Life(at, how)))
        check_kept(store)
        stream = opened(store, 1)  # the next process also deletes the leftovers of the crash
        stream.write(1, items(1, ROWS + 1))
        stream.garbage_collect(13)
        stream.close()
        assert check_kept(store, ROWS + 1) == 12, (at, how)
        assert min(segments(store)).lo == 12, (at, how)


@pytest.mark.slow
@examples(25)
@given(st.data())
def test_several_collectors_and_compactors_in_any_order(data: st.DataObject) -> None:
    """Replaced writers know less, and undo nothing."""
    store = grown(14, 1)
    limits = small_limits(segment_rows_max=1_000, compact_segments_min=3)
    logs, tools, asked = [log_of(store)], [], 0
    for _ in range(data.draw(st.integers(1, 25))):
        match data.draw(st.sampled_from(["collect", "collect", "log", "tool", "step", "step"])):
            case "log":
                logs.append(log_of(store))
            case "tool":
                log = log_of(store)
                tools.append(Compactor(log, limits, InlineBackground(), lambda: False))
            case "step" if tools:
                with contextlib.suppress(FileNotFoundError):
                    data.draw(st.sampled_from(tools)).step()
            case "collect":
                mark = data.draw(st.integers(0, 14))
                asked = max(asked, mark)
                with contextlib.suppress(FileNotFoundError):
                    collect(data.draw(st.sampled_from(logs)), mark)
    assert check_kept(store, 14) <= asked


def test_items_whose_digest_cannot_be_computed_are_kept() -> None:
    """If a segment is lost, the remaining items could not be compared with anything."""
    store = grown()
    first, *others = [name for name in store.list() if name.endswith(".parquet")]
    log = log_of(store)
    store.delete(first)
    with pytest.raises(StoreError, match="its items from 0 on are missing"):
        collect(log, ROWS)
    assert [name for name in store.list() if name.endswith(".parquet")] == others
    assert beginnings(store.list()) == []
