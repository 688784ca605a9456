"""A source vertex over a live log: its output does not depend on the polling of the log.

A schedule is the order and size of polls of the partitions, the moments at which entries become
durable, steps, and restores of the serialised snapshot. An entry is known at the latest when its
position is reached, because the host holds back later rows until then. Not covered: what the host
decides and when (tests/sim, with --live).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from rstream.items.batch import CTI, KIND, VS, item_schema
from rvertex.checkpoint.codec import decode_snapshot, encode_snapshot
from rvertex.sources.logs.entries import LogEntry
from rvertex.sources.spec import Unit
from rvertex.vertex.log_channel import LogChannel
from rvertex.vertex.rvertex import RVertex
from tests.support.budget import examples
from tests.support.exact import assert_same_items
from tests.support.logs import (
    LogPartition,
    Row,
    clocks_of,
    expected,
    log_partitions,
    log_rows,
    log_vertex,
)
from tests.support.state_of import state_of

if TYPE_CHECKING:
    from rvertex.sources.spec import LatePolicy
    from rvertex.vertex.log_input import LogInput
    from rvertex.vertex.spec import VertexSpec

STEP, RESTORE, TELL = -1, -2, -3
#: Fields that may differ after a restore: blobs are reported again, rows may wait in other pieces.
NOT_KEPT = {"_blobs", "_next_blob", "_buffer", "rows_frontier"}


class LogLife:
    """A vertex over a log, its restarts, and their output."""

    def __init__(self, spec: VertexSpec, log: list[LogPartition], *, ahead: int = 4) -> None:
        """``ahead``: the maximum number of rows of a partition that may wait for slower ones."""
        self.spec, self.log, self.ahead = spec, log, ahead
        self.vertex = RVertex(spec, pending_rows_max=ahead)
        self.told = [0] * len(log)
        self.outputs: list[list[pa.RecordBatch]] = [[] for _ in spec.output_streams]
        self.last = self.vertex.get_snapshot()

    @property
    def input(self) -> LogInput:
        found = self.vertex.log
        assert found is not None
        return found

    def offer(self, k: int, positions: int) -> None:
        partition = self.log[k]
        if not self.input.wants(k):
            return
        lo = self.input.channels[k].position
        untold = partition.entries[self.told[k] :]
        limits = [partition.end, *(e.position for e in untold[:1])]
        stop = self.input.channels[k].limit
        hi = min(lo + positions, *limits, *([] if stop is None else [stop]))
        if hi > lo:
            self.input.offer(k, log_rows(k, partition, lo, hi))

    def tell(self, k: int) -> None:
        """Make the next entry of a partition durable, once rows are read up to its position."""
        untold = self.log[k].entries[self.told[k] :]
        channel = self.input.channels[k]
        if untold and channel.position >= untold[0].position and channel.stop is None:
            self.told[k] += 1
            self.input.decide(untold[:1])

    def step(self) -> bool:
        result = self.vertex.execute()
        if result is None:
            return False
        for held, items in zip(self.outputs, result.outputs, strict=True):
            if items is not None:
                assert items.first_seq == sum(batch.num_rows for batch in held)
                held.append(items.batch)
        return True

    def restore(self) -> None:
        snapshot, before = self.vertex.get_snapshot(), state_of(self.input, NOT_KEPT)
        assert self.last.precedes(snapshot)
        self.last = snapshot
        again = decode_snapshot(encode_snapshot(snapshot), name="test", state_schema="tag")
        self.vertex = RVertex(self.spec, pending_rows_max=self.ahead)
        self.vertex.load(again)
        assert self.vertex.consumed == snapshot.reads
        for partition, told in zip(self.log, self.told, strict=True):
            self.input.decide(partition.entries[:told])
        if self.spec.recovery.strategy != "replay":  # such a vertex reads waiting rows again
            assert state_of(self.input, NOT_KEPT) == before, "a snapshot has all that it knows"

    def act(self, action: tuple[int, int]) -> None:
        kind, k = action
        if kind == STEP:
            self.step()
        elif kind == RESTORE:
            self.step()
            self.restore()
        elif kind == TELL:
            self.tell(k % len(self.log))
        else:
            self.offer(k % len(self.log), kind)

    def drain(self) -> None:
        for _ in range(200):  # each round gets further, or the vertex has finished
            if self.vertex.is_finished:
                return
            for k in range(len(self.log)):
                self.offer(k, 100)
                self.tell(k)
            self.step()
        raise AssertionError("it does not come to its end")

    def lost(self) -> list[int]:
        """Per partition, the number of positions that the log no longer had."""
        return [channel.lost_positions for channel in self.input.channels]

    def items(self) -> list[pa.RecordBatch]:
        payloads = [self.spec.payload_of(edge) for edge in self.spec.outputs]
        return [
            pa.concat_batches([pa.RecordBatch.from_pylist([], schema=item_schema(payload)), *held])
            for payload, held in zip(payloads, self.outputs, strict=True)
        ]


def run(
    spec: VertexSpec, log: list[LogPartition], schedule: list[tuple[int, int]], *, ahead: int = 4
) -> LogLife:
    life = LogLife(spec, log, ahead=ahead)
    for action in schedule:
        life.act(action)
    life.drain()
    return life


ACTIONS = st.tuples(st.sampled_from([1, 2, 5, STEP, STEP, RESTORE, TELL, TELL]), st.integers(0, 2))


@examples(40)
@given(
    log=log_partitions(),
    schedule=st.lists(ACTIONS, max_size=40),
    delay_us=st.sampled_from([0, 3, 9]),
    replays=st.booleans(),
    late=st.sampled_from(["drop", "adjust"]),
    skew_us=st.sampled_from([None, 2]),
    ahead=st.sampled_from([1, 4, 100]),
)
def test_the_output_does_not_depend_on_polling(
    log: list[LogPartition],
    schedule: list[tuple[int, int]],
    delay_us: int,
    replays: bool,
    late: LatePolicy,
    skew_us: int | None,
    ahead: int,
) -> None:
    """The output does not depend on how the log was polled, nor on how far ahead it was read."""
    given = {"delay_us": delay_us, "cti_every_us": 4, "replays": replays, "late": late}
    whole = run(log_vertex(len(log), **given), log, [])  # type: ignore[arg-type]
    bounded = log_vertex(len(log), **given, skew_us=skew_us)  # type: ignore[arg-type]
    cut = run(bounded, log, schedule, ahead=ahead)
    for k, (got, want) in enumerate(zip(cut.items(), whole.items(), strict=True)):
        assert_same_items(got, want, f"output {k}")
    assert cut.vertex.digests() == whole.vertex.digests()
    assert cut.vertex.consumed == whole.vertex.consumed
    assert cut.vertex.counts == whole.vertex.counts
    assert cut.lost() == whole.lost()
    if late == "drop":
        check_expected(whole, log, delay_us)


@pytest.mark.parametrize("replays", [False, True])
def test_rows_missing_in_the_log_are_counted_through_restores(*, replays: bool) -> None:
    entries = LogEntry("lost", 0, 0, 2, 0, 6), LogEntry("end", 0, 1, 8)
    log = [LogPartition((Row(0, 1), Row(1, 2), Row(7, 3)), entries)]
    spec = log_vertex(1, delay_us=0, cti_every_us=4, replays=replays)
    schedule = [(2, 0), (TELL, 0), (RESTORE, 0), (1, 0), (RESTORE, 0)]
    for _ in range(2):
        life = run(spec, log, schedule)
        assert life.lost() == [4]
        assert [row["at"] for row in life.items()[0].to_pylist() if row[KIND] != CTI] == [0, 1, 7]
        schedule = []


@pytest.mark.parametrize("replays", [False, True])
@pytest.mark.parametrize("late", ["drop", "adjust"])
def test_the_input_is_restored_after_every_action(*, replays: bool, late: LatePolicy) -> None:
    """One partition has late, undecodable and lost rows, and ends before the other one."""
    first = LogPartition(
        (Row(0, 9), Row(1, 2), Row(2, None), Row(5, 12), Row(6, 11)),
        (
            LogEntry("file", 0, 0, 0, path="a"),
            LogEntry("advance", 0, 1, 1, 8),
            LogEntry("lost", 0, 2, 3, 0, 5),
            LogEntry("file", 0, 3, 5, path="b"),
            LogEntry("end", 0, 4, 7),
        ),
    )
    second = LogPartition(tuple(Row(k, k * 2) for k in range(9)), (LogEntry("end", 1, 0, 9),))
    given = {"delay_us": 2, "cti_every_us": 4, "replays": replays, "late": late}
    spec, log = log_vertex(2, **given), [first, second]  # type: ignore[arg-type]
    schedule = [act for k in (0, 0, 1) for act in ((1, k), (RESTORE, 0), (TELL, k), (RESTORE, 0))]
    life, whole = run(spec, log, schedule * 9), run(spec, log, [])
    for got, want in zip(life.items(), whole.items(), strict=True):
        assert_same_items(got, want, "restored")
    assert life.vertex.counts == whole.vertex.counts
    assert life.lost() == whole.lost() == [2, 0]
    assert [channel.dead_rows for channel in life.input.channels] == [1, 0]
    assert all(channel.is_ended for channel in life.input.channels)
    assert [entry.path for entry in life.input.files()] == ["a", "b"]


@pytest.mark.parametrize(
    ("skew_us", "ahead", "times", "is_wanted"),
    [
        (5, 100, [7], True),
        (5, 100, [7, 8], False),
        (None, 3, [7, 8], True),
        (None, 3, [7, 8, 9], False),
        (None, 100, [1, 1], True),
    ],
)
def test_a_partition_waits_for_slower_ones_from_its_bounds_on(
    skew_us: int | None, ahead: int, times: list[int], is_wanted: bool
) -> None:
    """The slower one is at time 2: rows up to 5 later are read, but at most ``ahead``."""
    spec = log_vertex(2, delay_us=0, cti_every_us=1, replays=False, skew_us=skew_us)
    rows = tuple(Row(position, time) for position, time in enumerate(times))
    log = [
        LogPartition(rows, (LogEntry("end", 0, 0, 9),)),
        LogPartition((Row(0, 2),), (LogEntry("end", 1, 0, 9),)),
    ]
    life = LogLife(spec, log, ahead=ahead)
    for k in (1, 0):
        life.input.offer(k, log_rows(k, log[k], 0, len(log[k].rows)))
    assert life.input.wants(0) == is_wanted
    assert life.input.wants(1)


def test_a_partition_ends_where_the_plan_says() -> None:
    """One partition has a row before its planned end, the other has none; no entry is needed."""
    spec = log_vertex(2, delay_us=2, cti_every_us=4, replays=False)
    assert spec.source is not None
    units = tuple(Unit("", stream=k, until=until) for k, until in enumerate((3, 0)))
    spec = replace(spec, source=replace(spec.source, units=units))
    ends = LogEntry("end", 0, 0, 5), LogEntry("end", 1, 0, 4)  # no entry reports this
    rows = tuple(Row(position, position) for position in range(5))
    log = [LogPartition(rows, ends[:1]), LogPartition((), ends[1:])]
    life = LogLife(spec, log)
    for _ in range(3):
        life.offer(0, 1)
        life.restore()
    life.step()
    assert life.vertex.is_finished
    assert [row["at"] for row in life.items()[0].to_pylist() if row[KIND] != CTI] == [0, 1, 2]


def test_lost_rows_after_a_position_do_not_move_it_back() -> None:
    """An instance may be notified late of a loss at positions that it has already passed."""
    entries = LogEntry("lost", 0, 0, 2, 0, 6), LogEntry("lost", 0, 1, 6, 0, 4)
    life = LogLife(log_vertex(1, delay_us=0, cti_every_us=4, replays=False), [])
    (channel,) = life.input.channels
    for entry in entries:
        channel.decide(entry)
    channel.offer(log_rows(0, LogPartition((Row(0, 1), Row(1, 2)), ()), 0, 2))
    assert (channel.position, channel.lost_positions, channel.entries) == (6, 4, 2)


@examples(40)
@given(
    data=st.data(),
    log=log_partitions(),
    schedule=st.lists(ACTIONS, max_size=40),
    max_ahead_us=st.sampled_from([0, 5]),
    replays=st.booleans(),
)
def test_rows_ahead_of_the_clock_are_bad_for_any_polling(
    data: st.DataObject,
    log: list[LogPartition],
    schedule: list[tuple[int, int]],
    max_ahead_us: int,
    replays: bool,
) -> None:
    log = data.draw(clocks_of(log, max_ahead_us))
    spec = log_vertex(
        len(log), delay_us=3, cti_every_us=4, replays=replays, max_ahead_us=max_ahead_us
    )
    whole, cut = run(spec, log, []), run(spec, log, schedule)
    for k, (got, want) in enumerate(zip(cut.items(), whole.items(), strict=True)):
        assert_same_items(got, want, f"output {k}")
    assert cut.vertex.digests() == whole.vertex.digests()
    assert cut.vertex.counts == whole.vertex.counts
    check_expected(whole, log, 3, max_ahead_us)


@given(data=st.data(), log=log_partitions(), max_ahead_us=st.sampled_from([0, 5]))
@examples(40)
def test_a_recorded_clock_time_is_not_requested_again(
    data: st.DataObject, log: list[LogPartition], max_ahead_us: int
) -> None:
    """A successor that reads the rows in other pieces does not request another clock entry."""
    (partition, *_) = data.draw(clocks_of(log, max_ahead_us))
    partition = replace(
        partition, entries=tuple(replace(e, partition=0) for e in partition.entries)
    )
    spec = log_vertex(1, delay_us=3, cti_every_us=4, replays=False, max_ahead_us=max_ahead_us)
    assert spec.source is not None
    channel = LogChannel(spec.source.spec, spec.source.units[0], sorts=True)
    for entry in partition.entries:
        channel.decide(entry)
    at = 0
    while at < partition.end:
        hi = min(partition.end, at + data.draw(st.integers(1, 9)))
        rows = log_rows(0, partition, at, hi)
        assert not channel.lacks_clock(rows)
        channel.offer(rows)
        at = max(hi, channel.position)


def test_only_a_row_ahead_of_time_requests_the_clock() -> None:
    spec = log_vertex(1, delay_us=3, cti_every_us=4, replays=False, max_ahead_us=5)
    assert spec.source is not None
    channel = LogChannel(spec.source.spec, spec.source.units[0], sorts=True)
    partition = LogPartition((Row(0, 10), Row(1, 15), Row(2, 16), Row(3, 99)), ())
    assert channel.lacks_clock(log_rows(0, partition, 0, 1))
    channel.decide(channel.clock_entry(0, 0, 10, until=2))
    assert not channel.lacks_clock(log_rows(0, partition, 0, 2))
    channel.offer(log_rows(0, partition, 0, 2))
    assert channel.lacks_clock(log_rows(0, partition, 2, 4))
    entry = channel.clock_entry(0, 1, 9, until=4)
    assert (entry.position, entry.time) == (2, 10)  # a clock that was set back does not decrease it
    channel.decide(replace(entry, time=12))
    assert not channel.lacks_clock(log_rows(0, partition, 2, 4))
    channel.offer(log_rows(0, partition, 2, 4))
    (dead,) = channel.dead
    assert dead.column("position").to_pylist() == [3]
    assert dead.column("reason")[0].as_py() == (
        "starts further ahead of the clock than max_ahead allows: the clock was at "
        "1970-01-01 00:00:00.000012, max_ahead is 5e-06 s"
    )


def test_a_clock_time_applies_to_rows_before_files_entered_earlier() -> None:
    """Entries are ordered, so the clock's entry follows those of the files; rows need not wait."""
    spec = log_vertex(1, delay_us=3, cti_every_us=4, replays=False, max_ahead_us=5)
    assert spec.source is not None
    channel = LogChannel(spec.source.spec, spec.source.units[0], sorts=True)
    for index in (0, 1):
        channel.decide(LogEntry("file", 0, index, index << 32, path=f"{index}.json"))
    rows = log_rows(0, LogPartition((Row(0, 10), Row(1, 90)), ()), 0, 2)
    assert channel.lacks_clock(rows)
    entry = channel.clock_entry(0, 2, 10, until=2)
    assert entry.position == 1 << 32
    channel.decide(entry)
    assert not channel.lacks_clock(rows)
    channel.offer(rows)
    assert [dead.column("position").to_pylist() for dead in channel.dead] == [[1]]


@pytest.mark.parametrize("replays", [False, True])
def test_an_entry_at_the_end_of_a_replay_takes_effect_after_it(*, replays: bool) -> None:
    """An entry at the snapshot's position takes effect after the replay, though no row follows."""
    log = [LogPartition((Row(0, 1), Row(1, 6)), (LogEntry("end", 0, 0, 2),))]
    spec = log_vertex(1, delay_us=3, cti_every_us=4, replays=replays)
    life = LogLife(spec, log)
    life.offer(0, 2)
    life.step()
    life.restore()
    life.input.decide(log[0].entries)
    life.told = [1]
    life.drain()
    assert [row["at"] for row in life.items()[0].to_pylist() if row[KIND] != CTI] == [0, 1]


def test_rows_of_several_partitions_are_sorted_even_if_not_required() -> None:
    """Rows are sorted although no operator needs it: else their order depends on polls."""
    log = [
        LogPartition(
            tuple(Row(at, time + number) for at, time in enumerate((9, 3, 7, 14, 11))),
            (LogEntry("end", number, 0, 5),),
        )
        for number in (0, 1)
    ]
    spec = log_vertex(2, delay_us=6, cti_every_us=4, replays=False)
    assert spec.source is not None
    source = replace(spec.source, spec=replace(spec.source.spec, sorts=False))
    schedule = [(5, 0), (STEP, 0), (3, 1), (STEP, 0), (RESTORE, 0)]
    lives = [run(s, log, schedule) for s in (spec, replace(spec, source=source))]
    assert_same_items(lives[1].items()[0], lives[0].items()[0], "not sorted")


def test_late_rows_of_a_partition_wait_for_those_of_the_same_frontier() -> None:
    log = [
        LogPartition(
            (Row(0, 5), Row(1, time), Row(2, 9)),
            (LogEntry("end", number, 0, 3),),
        )
        for number, time in enumerate((2, 3))
    ]
    spec = log_vertex(2, delay_us=0, cti_every_us=4, replays=False)
    check_expected(run(spec, log, [(1, 0), (2, 1), (STEP, 0)], ahead=100), log, 0)


def check_expected(
    life: LogLife, log: list[LogPartition], delay_us: int, max_ahead_us: int | None = None
) -> None:
    """Check that the output equals the row-by-row computation."""
    want = expected(log, delay_us, 4, max_ahead_us)
    out, late, dead = life.items()
    rows = out.to_pylist()
    assert [r[VS] for r in rows if r[KIND] == CTI] == want.ctis
    events = [(r[VS], r["p"], r["at"]) for r in rows if r[KIND] != CTI]
    assert events == want.events
    assert [(r["_frontier"], r["p"], r["at"]) for r in late.to_pylist() if r[KIND] != CTI] == (
        want.late
    )
    found = [r for r in dead.to_pylist() if r[KIND] != CTI]
    assert [(r["_frontier"], r["partition"], r["position"]) for r in found] == want.dead
