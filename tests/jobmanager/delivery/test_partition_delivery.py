"""The delivery of one partition: each row once, in order, and never after a different history.

Not covered: errors of real destinations (tests/rvertex/sinks), or a killed process.
"""

from __future__ import annotations

import itertools
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from jobmanager.delivery.checked_output import CheckedOutput
from jobmanager.delivery.claim import DeliveryClaim, folder_name
from jobmanager.delivery.clean_rows import CleanRows
from jobmanager.delivery.output_tap import Endpoints
from jobmanager.delivery.partition_delivery import PartitionDelivery
from jobmanager.delivery.refused_rows import RefusedRows, read_refused
from jobmanager.delivery.wiring import ThreadWiring
from rstream import (
    INF_TIME,
    InlineBackground,
    Items,
    ManualClock,
    MemoryBlobs,
    RStream,
    StreamDigest,
    item_schema,
)
from rstream.errors import OutputCollectedError
from rstream.format.table import TableForm
from rstream.transport.receive import PushedReader
from rvertex.messages import Endpoint, Locate
from rvertex.sinks.errors import RowsRefusedError
from rvertex.sinks.limits import DeliveryLimits
from rvertex.sinks.protocol import DeliveryProgress
from tests.support.budget import examples
from tests.support.builders import Ev, Item, cti, ev, make_items
from tests.support.interrupted_store import Interrupted
from tests.support.ledger import Ledger, LedgerWriter, Row

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobmanager.delivery.wiring import Signal
    from rstream import BlobStore, Clock
    from rstream.transport.receive import RemoteStream
    from rvertex.sinks.protocol import DeliveredRows, Destination

PAYLOAD = pa.schema([("x", pa.int64())])
FORM = TableForm("start", "end")
FORM_FIELDS = [FORM.file_schema(item_schema(PAYLOAD)).field(n) for n in ("start", "end")]
LIMITS = DeliveryLimits(
    commit_interval_ms=0, commit_rows_max=3, retry_pause_s=1e-4, retry_pause_max_s=1e-4
)
ROWS = 20
ROOT = MemoryBlobs()
COUNTER = itertools.count()
ITEMS: list[Item] = [
    *(item for t in range(ROWS) for item in (ev(t, x=t), cti(t)) if t % 3 == 0 or item != cti(t)),
    cti(INF_TIME),
]


FAULTS = ("open", "write", "commit", "lost")


def new_uri() -> str:
    return f"memory://test-deliveries/{next(COUNTER)}"


def written(items: list[Item], cut: int = 7) -> str:
    """A stream of these items, flushed in segments of ``cut``."""
    uri = new_uri()
    batch = make_items(items, PAYLOAD)
    stream = RStream.open(uri, PAYLOAD, form=FORM, background=InlineBackground())
    for lo in range(0, len(items), cut):
        stream.write(lo, batch.slice(lo, cut))
        stream.flush()
    stream.close()
    return uri


class HandedReader(PushedReader):
    """A reader of a host's memory whose items come from the test."""

    def _connect(self) -> None:
        """Do not connect: the test pushes items."""


class HandedWiring(ThreadWiring):
    """Readers of hosts get their items from the test."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.clock = clock
        self.readers: list[HandedReader] = []

    def read_remote(
        self, stream: RemoteStream, seq: int, store: BlobStore, on_change: Callable[[], None]
    ) -> HandedReader:
        reader = HandedReader(
            stream.stream_id, seq, store=store, queue_bytes_max=1 << 20, on_change=on_change
        )
        self.readers.append(reader)
        return reader

    def push(self, lo: int, hi: int) -> None:
        """Push these items to the newest reader."""
        self.readers[-1]._take(Items(lo, make_items(ITEMS[lo:hi], PAYLOAD)))


class Script:
    """A signal that runs the next step of a script whenever a delivery waits for it."""

    def __init__(self) -> None:
        self.steps: list[Callable[[], object]] = []

    def set(self) -> None:
        """Do nothing: the delivery checks again after each step anyway."""

    def clear(self) -> None:
        """See ``set``."""

    def wait(self, timeout: float) -> None:
        del timeout
        self.steps.pop(0)()


def delivery(
    uri: str,
    ledger: Ledger,
    *,
    limits: DeliveryLimits = LIMITS,
    ended: bool = True,
    start_seq: int = 0,
    partition: int = 0,
    present: tuple[int, ...] = (),
    endpoints: Endpoints | None = None,
    wake: Signal | None = None,
    wiring: ThreadWiring | None = None,
    has_edges: bool = False,
    keeps_refused: bool = False,
) -> PartitionDelivery:
    """The delivery of a stream without a writer, unless ``endpoints`` names one."""
    wake, wiring = wake or threading.Event(), wiring or ThreadWiring()
    if endpoints is None:
        endpoints = Endpoints()
        endpoints.note(Locate("v", 1, ()))
    output = CheckedOutput(
        "v",
        "s",
        uri,
        endpoints=endpoints,
        secret="x",
        wake=wake.set,
        wiring=wiring,
        destination="ledger",
        whole_instants=has_edges,
    )
    return PartitionDelivery(
        label="ledger",
        connect=ledger.connect,
        output=output,
        rows=CleanRows(item_schema(PAYLOAD), FORM, has_edges=has_edges),
        claim=DeliveryClaim(ROOT, uri, partition, present),
        has_ended=lambda: ended,
        wake=wake,
        clock=wiring.clock,
        limits=limits,
        start_seq=start_seq,
        refused=RefusedRows(ROOT, uri, partition) if keeps_refused else None,
    )


def digest(items: list[Item]) -> bytes:
    total = StreamDigest()
    total.update(0, make_items(items, PAYLOAD))
    return total.to_bytes()


def values(rows: list[Row]) -> list[int]:
    return [row["x"] for row in rows]


def test_delivered_rows_are_clean_tables_and_progress_reaches_the_end() -> None:
    ledger = Ledger()
    found = delivery(written(ITEMS), ledger)
    found.run()
    assert found.state == "finished"
    assert values(ledger.rows) == list(range(ROWS))
    assert list(ledger.rows[0]) == ["start", "end", "x"]
    assert ledger.progress == DeliveryProgress(len(ITEMS), digest(ITEMS))
    assert found.view().rows == ROWS
    assert found.has_checked


@examples(12)
@given(faults=st.lists(st.sampled_from(FAULTS), max_size=8), cut=st.integers(1, 30))
def test_each_row_is_delivered_once_after_any_failure(faults: list[str], cut: int) -> None:
    ledger = Ledger(faults=list(faults))
    found = delivery(written(ITEMS, cut), ledger)
    found.run()
    assert found.state == "finished"
    assert found.view().rows == ROWS or "lost" in faults
    assert values(ledger.rows) == list(range(ROWS))
    assert ledger.progress == DeliveryProgress(len(ITEMS), digest(ITEMS))


@examples(12)
@given(faults=st.lists(st.sampled_from(FAULTS), max_size=4), cut=st.integers(1, 30))
def test_commits_contain_whole_instants_and_do_not_wait_for_ctis(
    faults: list[str], cut: int
) -> None:
    """The stream has many instants with two rows each, and one CTI after all of them."""
    changes = [[ev(t, INF_TIME, x=t), *([ev(t, t - 1, x=t - 1)] if t else [])] for t in range(ROWS)]
    items = [*itertools.chain.from_iterable(changes), cti(ROWS), cti(INF_TIME)]
    ledger = Ledger(faults=list(faults))
    found = delivery(written(items, cut), ledger, has_edges=True)
    found.run()
    assert found.state == "finished"
    assert sorted(values(ledger.rows)) == sorted([*range(ROWS), *range(ROWS - 1)])
    assert ledger.progress is not None
    assert ledger.progress.next_seq == len(items)
    assert all(seq % 2 == 1 or seq == len(items) - 1 for seq in ledger.commits), ledger.commits
    assert ledger.commits[0] < len(items) - 2


@examples(12)
@given(at=st.integers(0, len(ITEMS)), cut=st.integers(1, 30))
def test_another_process_continues_at_the_position_of_the_destination(at: int, cut: int) -> None:
    ledger = Ledger(progress=DeliveryProgress(at, digest(ITEMS[:at])), epoch=1)
    uri = written(ITEMS, cut)
    DeliveryClaim(ROOT, uri, 0).take(0)
    found = delivery(uri, ledger)
    found.run()
    assert found.state == "finished", found.view()
    assert values(ledger.rows) == [item.payload["x"] for item in ITEMS[at:] if isinstance(item, Ev)]


def test_a_different_history_is_rejected() -> None:
    changed = [ev(0, x=-1), *ITEMS[1:]]
    ledger = Ledger(progress=DeliveryProgress(9, digest(changed[:9])))
    found = delivery(written(ITEMS), ledger)
    found.run()
    assert found.state == "failed"
    assert "before 9 differ" in found.view().error
    assert ledger.rows == []


def test_progress_beyond_the_durable_rows_waits_without_delivering() -> None:
    """The job died before its output was durable: the delivered rows must be computed again."""
    ledger = Ledger(progress=DeliveryProgress(len(ITEMS), digest(ITEMS)))
    found = delivery(written(ITEMS[:11]), ledger)
    found.run()
    assert found.state == "stopped"
    assert not found.has_checked
    assert ledger.rows == []


@pytest.mark.parametrize("interval_ms", [0, 3_600_000])
def test_the_durable_rows_of_a_failed_job_are_delivered(interval_ms: int) -> None:
    """The last rows are committed at once, not after the interval."""
    ledger, limits = Ledger(), DeliveryLimits(commit_interval_ms=interval_ms)
    found = delivery(written(ITEMS[:11]), ledger, limits=limits)
    found._committed_s = found._clock.monotonic_s()
    found.run()
    assert found.state == "stopped"
    assert values(ledger.rows) == [item.payload["x"] for item in ITEMS[:11] if isinstance(item, Ev)]


def test_only_the_newest_process_delivers() -> None:
    uri, ledger = written(ITEMS), Ledger()
    older = delivery(uri, ledger)
    older._open()
    newer = delivery(uri, ledger)
    newer.run()
    older.run()
    assert (newer.state, older.state) == ("finished", "fenced")
    assert values(ledger.rows) == list(range(ROWS))


def test_an_old_process_that_opens_late_gives_up() -> None:
    """A process with an older claim ends, even if the destination accepts it."""
    uri, ledger = written(ITEMS), Ledger()
    zombie = delivery(uri, ledger)
    zombie._claim.take(0)
    newest = delivery(uri, ledger)
    newest.run()
    ledger.epoch = 0
    zombie.run()
    assert zombie.state == "fenced"
    assert values(ledger.rows) == list(range(ROWS))


@pytest.mark.parametrize("is_replaced", [True, False])
def test_missing_rows_of_a_replaced_process_are_not_a_failure(
    is_replaced: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a process sleeps, its successor delivers its next items and retention deletes them."""
    uri, ledger = written(ITEMS), Ledger()
    found = delivery(uri, ledger)

    def read(*_: object) -> None:
        if is_replaced:
            delivery(uri, ledger).run()
        raise OutputCollectedError("s", 4, 9)

    monkeypatch.setattr(found._output, "read", read)
    found.run()
    assert found.state == ("fenced" if is_replaced else "failed")
    assert values(ledger.rows) == (list(range(ROWS)) if is_replaced else [])


def test_the_newest_process_claims_again_after_it_was_fenced() -> None:
    """A delivery was fenced by an outdated process; it has the newest claim and claims again."""
    uri, ledger = written(ITEMS), Ledger(epoch=5)
    found = delivery(uri, ledger)
    found.run()
    assert found.state == "finished"
    assert values(ledger.rows) == list(range(ROWS))


def test_rows_are_collected_for_the_commit_interval() -> None:
    """A commit takes all available rows: with room for all, there is one commit."""
    ledger = Ledger()
    limits = DeliveryLimits(commit_interval_ms=0, commit_rows_max=1000)
    found = delivery(written(ITEMS, 1000), ledger, limits=limits)
    found.run()
    assert found.view().commits == 1


def test_rows_are_collected_while_a_commit_runs() -> None:
    """Slow commits take several batches each, so the delivery keeps up with a live output."""
    clock = ManualClock()

    class Slow(LedgerWriter):
        def commit(self, progress: DeliveryProgress) -> None:
            clock.advance(1_000_000)
            super().commit(progress)

    class SlowLedger(Ledger):
        def connect(self) -> LedgerWriter:
            return Slow(self)

    ledger, limits = SlowLedger(), DeliveryLimits(commit_interval_ms=5)
    found = delivery(written(ITEMS, 1), ledger, limits=limits, wiring=HandedWiring(clock))
    found.run()
    assert values(ledger.rows) == list(range(ROWS))
    assert found.view().commits == 2


@pytest.mark.parametrize("is_recomputed", [True, False])
def test_rows_of_a_replaced_writer_wait_for_the_check(is_recomputed: bool) -> None:
    """The rows were written but not committed; the rows before them are compared first."""
    ledger, clock, script, endpoints = Ledger(), ManualClock(), Script(), Endpoints()
    wiring, ended = HandedWiring(clock), []
    limits = DeliveryLimits(commit_interval_ms=50)
    endpoints.note(Locate("v", 1, (Endpoint(7, "h0", "one"),)))
    found = delivery(
        new_uri(), ledger, limits=limits, endpoints=endpoints, wake=script, wiring=wiring
    )
    found._has_ended = lambda: bool(ended)

    def replace() -> None:
        endpoints.note(Locate("v", 2, (Endpoint(8, "h1", "other"),)))
        clock.advance(1_000_000)

    def see_nothing_new() -> None:
        assert values(ledger.rows) == [i.payload["x"] for i in ITEMS[:4] if isinstance(i, Ev)]
        assert found.state == "checking"

    script.steps = [
        lambda: wiring.push(0, 4),
        lambda: wiring.push(4, 6),
        replace,
        see_nothing_new,
        lambda: wiring.push(0, 3),
        see_nothing_new,
        lambda: wiring.push(3, len(ITEMS)) if is_recomputed else ended.append(True),
    ]
    found.run()
    assert found.state == ("finished" if is_recomputed else "stopped"), found.view()
    delivered = len(ITEMS) if is_recomputed else 4
    assert ledger.progress == DeliveryProgress(delivered, digest(ITEMS[:delivered]))
    assert values(ledger.rows) == [i.payload["x"] for i in ITEMS[:delivered] if isinstance(i, Ev)]


def test_pauses_double_up_to_their_limit_and_are_reset_by_a_commit() -> None:
    clock, pauses = ManualClock(), list[float]()

    class Pauses(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            assert timeout is not None
            pauses.append(timeout)
            clock.advance(int(timeout * 1e6))
            return False

    ledger = Ledger(faults=["open"] * 4)
    limits = DeliveryLimits(
        commit_interval_ms=0, commit_rows_max=3, retry_pause_s=1.0, retry_pause_max_s=4.0
    )
    found = delivery(
        written(ITEMS), ledger, limits=limits, wake=Pauses(), wiring=HandedWiring(clock)
    )
    note_begun = found._claim.note_begun

    def fail_once_more() -> None:
        if not found.view().commits:
            ledger.faults.append("commit")
        note_begun()

    found._claim.note_begun = fail_once_more  # type: ignore[method-assign]
    found.run()
    assert (found.state, found.view().error) == ("finished", "")
    assert pauses == pytest.approx([1.0, 2.0, 4.0, 4.0, 1.0])


def test_a_process_that_listed_claims_too_early_claims_again() -> None:
    """A process wakes up with an old number: it was used and deleted, so it looks free."""
    blobs: dict[str, bytes] = {}

    def claim_thrice() -> None:
        assert [DeliveryClaim(MemoryBlobs(blobs), "d", 0).take(0) for _ in range(3)] == [1, 2, 3]

    late = DeliveryClaim(Interrupted(blobs, 1, claim_thrice), "d", 0)
    assert late.take(0) == 4
    assert late.is_newest()


def test_a_stop_ends_a_wait() -> None:
    ledger = Ledger(faults=["open"] * 1000)
    limits = DeliveryLimits(retry_pause_s=1000, retry_pause_max_s=1000)
    found = delivery(written(ITEMS), ledger, limits=limits)
    thread = threading.Thread(target=found.run)
    thread.start()
    found.stop()
    thread.join(60)
    assert found.state == "stopped"


def test_a_destination_that_lost_its_position_gets_no_rows_again() -> None:
    uri, ledger = written(ITEMS), Ledger()
    delivery(uri, ledger).run()
    ledger.progress = None
    again = delivery(uri, ledger)
    again.run()
    assert again.state == "failed"
    assert "the position of this delivery is lost" in again.view().error
    assert values(ledger.rows) == list(range(ROWS))


def test_only_a_new_delivery_can_start_later() -> None:
    uri, ledger = written(ITEMS), Ledger()
    delivery(uri, ledger, start_seq=9).run()
    assert values(ledger.rows) == [i.payload["x"] for i in ITEMS[9:] if isinstance(i, Ev)]
    assert ledger.progress == DeliveryProgress(len(ITEMS), digest(ITEMS))
    again = delivery(uri, ledger, start_seq=9)
    again.run()
    assert again.state == "finished"
    other = delivery(uri, ledger, start_seq=8)
    other.run()
    assert other.state == "failed"
    assert "began at item 9" in other.view().error


@pytest.mark.parametrize("start_seq", [0, 9])
def test_a_delivery_that_died_before_its_first_commit_keeps_its_start(
    start_seq: int,
) -> None:
    """If only some partitions have started, the same command can be repeated."""
    uri, ledger = written(ITEMS), Ledger()
    delivery(uri, ledger, start_seq=9)._open()
    found = delivery(uri, ledger, start_seq=start_seq)
    found.run()
    assert found.state == "finished", found.view()
    assert values(ledger.rows) == [i.payload["x"] for i in ITEMS[9:] if isinstance(i, Ev)]


def test_all_partitions_of_a_delivery_use_the_start_of_the_first() -> None:
    """One command sets no start position.

    Another one with a position has opened a few partitions.
    """
    uri, first, second = written(ITEMS), Ledger(), Ledger()
    begun = delivery(uri, first, start_seq=9, present=(0, 1))
    begun._open()
    delivery(uri, second, partition=1).run()
    begun.run()
    late = [i.payload["x"] for i in ITEMS[9:] if isinstance(i, Ev)]
    assert values(first.rows) == late
    assert values(second.rows) == late


@pytest.mark.parametrize("is_older", [False, True])
def test_partitions_that_are_added_later_start_at_their_first_row(is_older: bool) -> None:
    """``--from`` applies only to partitions that exist; it once skipped rows of later ones."""
    uri, first, later = written(ITEMS), Ledger(), Ledger()
    if is_older:  # the record of an earlier version does not name partitions
        ROOT.put(f"deliveries/{folder_name(uri)}/from", b"9")
    delivery(uri, first, start_seq=9).run()
    added = delivery(uri, later, start_seq=9, partition=1, present=(0, 1))
    added.run()
    assert added.state == "finished", added.view()
    assert values(first.rows) == [i.payload["x"] for i in ITEMS[9:] if isinstance(i, Ev)]
    assert values(later.rows) == [i.payload["x"] for i in ITEMS if isinstance(i, Ev)]


def test_a_process_that_opens_at_the_same_time_uses_the_same_start() -> None:
    """Two processes find an empty destination; both must begin at the same item."""
    uri, ledger = written(ITEMS), Ledger()
    first, second = delivery(uri, ledger, start_seq=9), delivery(uri, ledger)
    connect = first._connect

    def overtaken() -> Destination:
        second.run()
        return connect()

    first._connect = overtaken
    first.run()
    assert (first.state, second.state) == ("fenced", "finished")
    assert values(ledger.rows) == [i.payload["x"] for i in ITEMS[9:] if isinstance(i, Ev)]


def test_a_rejected_process_replaces_no_other() -> None:
    uri, ledger = written(ITEMS), Ledger()
    running = delivery(uri, ledger)
    running._open()
    refused = delivery(uri, ledger, start_seq=9)
    refused.run()
    assert refused.state == "failed"
    running._deliver()
    assert running.state == "finished"
    assert values(ledger.rows) == list(range(ROWS))


def test_a_delivery_with_a_later_start_continues_after_a_lost_response() -> None:
    """The progress that the destination returns is the writer's own first commit."""
    uri, ledger = written(ITEMS), Ledger(faults=["lost"])
    found = delivery(uri, ledger, start_seq=9)
    found.run()
    assert found.state == "finished", found.view()
    assert values(ledger.rows) == [i.payload["x"] for i in ITEMS[9:] if isinstance(i, Ev)]


class Picky(Ledger):
    """A ledger that rejects some values: in the write, naming the items, or in the commit."""

    def __init__(self, bad: set[int], *, at_write: bool) -> None:
        super().__init__()
        self.bad, self.at_write = bad, at_write

    def connect(self) -> PickyWriter:
        return PickyWriter(self)


class PickyWriter(LedgerWriter):
    """Rejects the values that its ledger rejects."""

    def __init__(self, ledger: Picky) -> None:
        super().__init__(ledger)
        self._picky = ledger

    def write(self, rows: DeliveredRows) -> None:
        bad = [x in self._picky.bad for x in rows.table.column("x").to_pylist()]
        if self._picky.at_write and any(bad):
            seq = int(rows.seqs[bad.index(True)])
            raise RowsRefusedError("ledger", seq, seq + 1, "not this one")
        super().write(rows)

    def commit(self, progress: DeliveryProgress) -> None:
        if any(row["x"] in self._picky.bad for row in self._pending):
            raise RowsRefusedError("ledger", 0, progress.next_seq, "one of these")
        super().commit(progress)


@examples(40)
@given(
    bad=st.sets(st.integers(0, ROWS - 1)),
    at_write=st.booleans(),
    rows_max=st.integers(1, ROWS),
    faults=st.lists(st.sampled_from(FAULTS), max_size=6),
    stops=st.booleans(),
)
def test_each_row_is_delivered_or_becomes_a_dead_letter(
    bad: set[int], at_write: bool, rows_max: int, faults: list[str], stops: bool
) -> None:
    uri, ledger, limits = written(ITEMS), Picky(bad, at_write=at_write), LIMITS
    ledger.faults = faults
    limits = replace(limits, commit_rows_max=rows_max, refused_rows_max=len(bad))
    if stops:  # another process finds its dead letters, with commits of another size
        few = replace(limits, refused_rows_max=len(bad) // 2, commit_rows_max=ROWS)
        first = delivery(uri, ledger, limits=few, keeps_refused=True)
        first.run()
        assert first.state == ("failed" if bad else "finished")
        assert not bad or "refused_rows_max" in first.view().error
    found = delivery(uri, ledger, limits=limits, keeps_refused=True)
    found.run()
    assert found.state == "finished", found.view().error
    assert values(ledger.rows) == [x for x in range(ROWS) if x not in bad]
    letters = read_refused(ROOT, uri, pa.schema([*FORM_FIELDS, *PAYLOAD]))
    assert letters["x"].to_pylist() == sorted(bad)
    assert set(letters["_reason"].to_pylist()) <= {"not this one", "one of these"}
    assert found.view().refused == len(bad)


def test_without_dead_letters_a_refused_row_ends_the_delivery() -> None:
    ledger = Picky({4}, at_write=False)
    found = delivery(written(ITEMS), ledger)
    found.run()
    assert (found.state, values(ledger.rows)) == ("failed", [0, 1, 2, 3])
    assert "one of these" in found.view().error


def test_all_rows_of_an_instant_become_dead_letters_if_the_destination_names_none() -> None:
    """An output with open rows commits whole instants, so it rejects whole instants, too."""
    items = [ev(1, x=1), ev(2, x=2), ev(2, x=3), cti(INF_TIME)]
    for at_write, kept in ((False, [1]), (True, [1, 2])):
        uri, ledger = written(items), Picky({3}, at_write=at_write)
        found = delivery(uri, ledger, has_edges=True, keeps_refused=True)
        found.run()
        assert (found.state, values(ledger.rows)) == ("finished", kept)
        letters = read_refused(ROOT, uri, pa.schema([*FORM_FIELDS, *PAYLOAD]))
        assert letters["x"].to_pylist() == [x for x in (1, 2, 3) if x not in kept]
        said = ["another of 2 rows" in reason for reason in letters["_reason"].to_pylist()]
        assert said == [not at_write] * len(said)


def test_a_row_that_ends_when_a_refused_one_starts_is_delivered() -> None:
    items = [ev(1, x=1), ev(2, x=3), ev(2, 1, x=1), cti(INF_TIME)]
    uri, ledger = written(items), Picky({3}, at_write=False)
    found = delivery(uri, ledger, has_edges=True, keeps_refused=True)
    found.run()
    assert (found.state, values(ledger.rows)) == ("finished", [1, 1])
    letters = read_refused(ROOT, uri, pa.schema([*FORM_FIELDS, *PAYLOAD]))
    assert (letters["x"].to_pylist(), letters["_is_end"].to_pylist()) == ([3], [False])


def test_the_end_of_a_refused_row_is_skipped_also_by_a_successor() -> None:
    items = [ev(1, 9, x=3), ev(2, 1, x=3), ev(2, 9, x=4), ev(3, 2, x=4), cti(INF_TIME)]
    uri, ledger = written(items), Picky({3}, at_write=False)
    for _ in range(2):
        found = delivery(uri, ledger, has_edges=True, keeps_refused=True)
        found.run()
        assert (found.state, values(ledger.rows)) == ("finished", [4, 4])
        assert found.view().refused == 1
    letters = read_refused(ROOT, uri, pa.schema([*FORM_FIELDS, *PAYLOAD]))
    assert (letters["x"].to_pylist(), letters["_is_end"].to_pylist()) == ([3], [False])


def test_for_each_refused_row_one_equal_end_is_skipped() -> None:
    row = pa.RecordBatch.from_pydict({"x": [3]})
    first = RefusedRows(ROOT, "equal rows", 0)
    first.add(7, row, "no", is_end=False, now_us=0, begins=5)
    assert first.begun([6, 5, 5]) == [1]
    first.add_end(9, 5)
    again = RefusedRows(ROOT, "equal rows", 0)
    again.load()
    assert (again.begun([5]), again.seqs, again.rows) == ([], {7, 9}, 1)
    other = RefusedRows(ROOT, "equal rows", 1)
    other.load()
    assert (other.begun([5]), other.rows) == ([], 0)
