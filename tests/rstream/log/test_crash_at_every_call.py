"""A process dies at every store call of every public operation that writes.

For each operation: its calls are counted once; then it runs again for each call and each way to die
in it (:mod:`tests.support.crashing_store`). Another process checks the remaining files, and
completes the operation. Laws: acknowledged items can be read; no needed item was deleted; no seq
has two contents; deleted items are known as collected, not as lost; the repeated operation ends
like an undisturbed one.

Not covered: a store that loses acknowledged writes (tests/rstream/store/test_blobs.py checks
syncs, the simulation has power losses), and two processes that die during each other's calls.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from rstream import (
    BackPressureError,
    InlineBackground,
    MemoryBlobs,
    RStream,
    SequenceDiscardedError,
    StoreError,
    open_reader,
    open_store,
)
from rstream.errors import CorruptSegmentError
from rstream.format.codec import SegmentFile
from rstream.items.batch import Items
from rstream.log.durable import DurableLog
from rstream.log.overlap import remove_overlap, seal
from rstream.store.seals import SEAL_NAME, sealed_names
from rstream.store.segment_names import parse_segment_name
from tests.support.content import SCHEMA, items, open_inline, read_all, small_limits
from tests.support.crashing_store import CrashingBlobs, DiedError, Life, deaths

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rstream import BlobStore
    from rstream.limits import Durability


@dataclass
class Facts:
    """The confirmations that the process got, and the deletions that it allowed, before it died."""

    #: All items below were acknowledged as durable.
    durable: int = 0
    #: Items below are not needed.
    obsolete_below: int = 0
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Operation:
    """``prepare`` runs undisturbed.

    Then ``run`` in the process that dies, and once more after it.
    """

    name: str
    run: Callable[[BlobStore, Facts], None]
    prepare: Callable[[BlobStore, Facts], None] = lambda store, facts: None
    durability: Durability = "async"
    facts: Facts = field(default_factory=Facts)


def write(store: BlobStore, facts: Facts, durability: Durability = "async", end: int = 50) -> None:
    """Segments of 16 items and a rest; items are acknowledged only when durable."""
    stream = open_inline(store, durability=durability, start_seq=facts.durable)
    while stream.next_seq < end:
        seq = stream.next_seq
        stream.write(seq, items(seq, min(seq + 25, end)))
        facts.durable = max(facts.durable, stream.durable_seq)
    if durability == "async":
        facts.durable = max(facts.durable, stream.flush(0))
    stream.close(flush=False)


def write_synchronously(store: BlobStore, facts: Facts) -> None:
    write(store, facts, "sync")


def write_as_a_replica(store: BlobStore, facts: Facts) -> None:
    """Write after another replica, which has written the same items in other segments."""
    limits = small_limits(segment_rows_max=13)
    stream = open_inline(store, shared=True, verify=True, limits=limits, start_seq=0)
    stream.write(0, items(0, 60))
    facts.durable = max(facts.durable, stream.flush(0))
    stream.close(flush=False)


def write_again_from_the_start(store: BlobStore, facts: Facts) -> None:
    stream = open_inline(store, start_seq=0)
    stream.write(0, items(0, 70))
    facts.durable = max(facts.durable, stream.flush(0))
    stream.close(flush=False)


def collect(store: BlobStore, facts: Facts) -> None:
    stream = open_inline(store, start_seq=facts.durable)
    for mark in (20, 40, 45):
        facts.obsolete_below = max(facts.obsolete_below, mark)
        stream.garbage_collect(mark)
        facts.durable = max(facts.durable, stream.durable_seq)
    stream.close(flush=False)


def collect_by_another(store: BlobStore, facts: Facts) -> None:
    """Delete files as ``jobmanager gc`` does, without a stream."""
    facts.obsolete_below = 33
    DurableLog(store, "s").collect(33)


def collect_while_writing(store: BlobStore, facts: Facts) -> None:
    stream = open_inline(store, start_seq=facts.durable)
    for step in range(2):
        end = 60 + 20 * step
        stream.write(stream.next_seq, items(stream.next_seq, end))
        facts.durable = max(facts.durable, stream.flush(0))
        facts.obsolete_below = max(facts.obsolete_below, end - 30)
        stream.garbage_collect(end - 30)
    stream.close(flush=False)


def spill(store: BlobStore, facts: Facts) -> None:
    """A volatile stream need not keep spilled items, but those that exist must be right."""
    background = InlineBackground()
    limits = small_limits(
        tail_bytes_max=2000, spill_after_s=0, segment_rows_max=16, write_wait_s=0.01
    )
    stream = RStream.open(
        store,
        items(0, 1).schema.remove(0).remove(0).remove(0),
        stream_id="s",
        durability="volatile",
        background=background,
        limits=limits,
        start_seq=0,
    )
    for lo in range(0, 80, 20):
        stream.write(lo, items(lo, lo + 20))
        stream.has_room()
        background.run_delayed()
    facts.obsolete_below = 30
    stream.garbage_collect(30)
    stream.request_flush()
    stream.close(flush=False)


def overlapping(store: BlobStore, facts: Facts) -> None:
    log = DurableLog(store, "s", schema=SCHEMA)
    for lo, hi in ((0, 14), (7, 20), (9, 12), (20, 33), (25, 50), (30, 45)):
        log.write(Items(lo, items(lo, hi)))
    facts.durable = 50


def make_disjoint(store: BlobStore, facts: Facts) -> None:
    remove_overlap(store)


def seal_it(store: BlobStore, facts: Facts) -> None:
    facts.names = seal(store)


OPERATIONS = [
    Operation("write", write),
    Operation("write synchronously", write_synchronously, durability="sync"),
    Operation("go on writing", write_again_from_the_start, write),
    Operation("write beside another", write_as_a_replica, write),
    Operation("collect", collect, write),
    Operation("collect by another", collect_by_another, write),
    Operation("collect while writing", collect_while_writing, write),
    Operation("spill", spill, durability="volatile"),
    Operation("remove overlap", make_disjoint, overlapping),
    Operation("seal", seal_it, overlapping),
]


@pytest.fixture(params=["memory", pytest.param("disk", marks=pytest.mark.slow)])
def fresh(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], BlobStore]:
    """Return a function that makes a new empty store of one kind."""
    made: list[BlobStore] = []

    def make() -> BlobStore:
        path = str(tmp_path / f"{len(made)}")
        made.append(MemoryBlobs() if request.param == "memory" else open_store(path))
        return made[-1]

    return make


def seen(store: BlobStore) -> dict[int, object]:
    """Return the item of each seq in all undamaged segments; two that differ are an error."""
    held: dict[int, object] = {}
    for name in store.list():
        seqs = parse_segment_name(name)
        if seqs is None:
            continue
        try:
            file = SegmentFile(store.open(name), name, seqs, columns=None)
        except CorruptSegmentError:
            assert seqs.hi > 0
            continue  # half a blob: a reader gets an error, a writer replaces it by a whole one
        found = file.read_group(seqs.lo, verify=True)
        assert found.batch.equals(items(found.first_seq, found.next_seq)), name
        file.close()
        held.update(dict.fromkeys(range(found.first_seq, found.next_seq)))
    return held


def first_kept(store: BlobStore) -> int:
    """Return the result of a reader that starts at 0."""
    try:
        open_reader(store, 0).read_next()
    except SequenceDiscardedError as error:
        return error.first_seq
    return 0


def check_laws(store: BlobStore, facts: Facts, operation: Operation) -> None:
    held = seen(store)
    if operation.durability == "volatile":
        return
    assert held.keys() >= set(range(facts.obsolete_below, facts.durable))
    stream = open_inline(store, start_seq=facts.durable, durability=operation.durability)
    stream.check()
    assert stream.first_seq <= facts.obsolete_below
    assert stream.next_seq >= facts.durable
    for part in read_all(stream.register(stream.first_seq)):
        assert part.batch.equals(items(part.first_seq, part.next_seq))
    stream.close(flush=False)
    first_seq = first_kept(store)
    assert first_seq <= facts.obsolete_below
    read_to = first_seq
    for part in read_all(open_reader(store, first_seq)):
        assert part.batch.equals(items(part.first_seq, part.next_seq))
        read_to = part.next_seq
    assert read_to >= facts.durable
    if facts.names:
        assert sealed_names(store) == facts.names


def outcome(store: BlobStore) -> tuple[object, ...]:
    """Return the effect of an operation, regardless of segment boundaries."""
    log = DurableLog(store, "s")
    return log.mark, log.end(), sorted(seen(store)), store.exists(SEAL_NAME)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_a_process_dies_at_every_call(operation: Operation, fresh: Callable[[], BlobStore]) -> None:
    def begin() -> tuple[BlobStore, Facts]:
        store, facts = fresh(), Facts()
        operation.prepare(store, facts)
        return store, facts

    store, facts = begin()
    undisturbed = Life()
    operation.run(CrashingBlobs(store, undisturbed), facts)
    wanted = outcome(store)
    assert any(call.startswith(("put", "delete")) for call in undisturbed.calls)
    for at, how in deaths(undisturbed.calls):
        store, facts = begin()
        life = Life(at, how)
        with contextlib.suppress(DiedError, StoreError, BackPressureError):
            operation.run(CrashingBlobs(store, life), facts)
        assert life.is_dead
        try:
            check_laws(store, facts, operation)
            operation.run(store, facts)
            assert outcome(store) == wanted
        except BaseException as error:
            error.add_note(f"{how} call {at}, {life.calls[-1]}")
            raise
