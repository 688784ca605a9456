"""The journal of source decisions: a successor reads all entries, a predecessor adds none.

Not covered: a store without exclusive creation (tests/rstream/store).
"""

from __future__ import annotations

import pytest

from rstream import MemoryBlobs
from rstream.log.background import InlineBackground
from rstream.types import MIN_TIME
from rvertex.checkpoint.intake import Intake, open_intake
from rvertex.errors import CorruptJournalError, OvertakenError
from rvertex.sources.logs.entries import LogEntry
from rvertex.vertex.rvertex import RVertex
from tests.support.logs import LogPartition, Row, log_rows, log_vertex

SPEC = log_vertex(2, delay_us=0, cti_every_us=4, replays=False)


def opened(blobs: dict[str, bytes], epoch: int) -> tuple[RVertex, Intake]:
    vertex = RVertex(SPEC, pending_rows_max=100)
    assert vertex.log is not None
    return vertex, open_intake(SPEC, vertex.log, MemoryBlobs(blobs), epoch)


def advance(partition: int, index: int, position: int, time: int) -> LogEntry:
    return LogEntry("advance", partition, index, position, time)


def write(intake: Intake, *entries: LogEntry) -> tuple[LogEntry, ...]:
    intake.write(entries, InlineBackground(), lambda: None)
    return intake.durable()


def test_entries_take_effect_when_durable_and_for_every_successor() -> None:
    blobs: dict[str, bytes] = {}
    vertex, intake = opened(blobs, 1)
    entries = advance(0, 0, 0, 7), advance(1, 0, 0, 9)
    assert write(intake, *entries) == entries
    assert vertex.log is not None
    assert vertex.log.bound == 7
    successor, _ = opened(blobs, 2)
    assert successor.log is not None
    assert successor.log.bound == 7
    assert successor.consumed == (0, 0, 1, 1)


def test_a_predecessor_is_rejected_after_its_successor_has_started() -> None:
    blobs: dict[str, bytes] = {}
    _, old = opened(blobs, 1)
    opened(blobs, 2)
    with pytest.raises(OvertakenError):
        write(old, advance(0, 0, 0, 7))


def test_blobs_are_named_after_all_their_entries_took_effect_except_the_newest() -> None:
    blobs: dict[str, bytes] = {}
    vertex, intake = opened(blobs, 1)
    log = vertex.log
    assert log is not None
    write(intake, advance(0, 0, 0, 7))
    later = write(intake, advance(1, 0, 3, 9))
    assert [name[-2:] for name in intake.names()] == ["00", "01"]
    write(intake, advance(0, 1, 0, 11))
    assert len(intake.names()) == 2, "that of partition 1 stands further on"
    partition = LogPartition((Row(0, 5),), later)
    log.offer(1, log_rows(1, partition, 0, 3))
    assert len(intake.names()) == 3
    intake.announced(intake.names())
    assert intake.names() == ()


def test_a_blob_is_read_again_until_all_of_its_entries_are_in_the_snapshot() -> None:
    blobs: dict[str, bytes] = {}
    vertex, intake = opened(blobs, 1)
    write(intake, advance(0, 0, 0, 7))
    later = write(intake, advance(0, 1, 0, 8), advance(1, 0, 3, 9))
    write(intake, advance(0, 2, 0, 11))
    successor = RVertex(SPEC, pending_rows_max=100)
    successor.load(vertex.get_snapshot())
    assert successor.log is not None
    again = open_intake(SPEC, successor.log, MemoryBlobs(blobs), 2)
    assert [again.next_index(partition) for partition in (0, 1)] == [3, 1]
    successor.log.offer(1, log_rows(1, LogPartition((Row(0, 5),), later[1:]), 0, 3))
    assert successor.consumed == (0, 3, 3, 1)
    assert successor.log.bound == 9


def test_files_that_were_read_are_recorded_once() -> None:
    blobs: dict[str, bytes] = {}
    vertex, intake = opened(blobs, 1)
    one, other = (LogEntry("file", 0, k, 0, path=f"{k}.json") for k in range(2))
    write(intake, one, advance(1, 0, 3, 9))  # the write waits, so the blob is read again
    write(intake, other)
    successor = RVertex(SPEC, pending_rows_max=100)
    successor.load(vertex.get_snapshot())
    assert vertex.log is not None
    assert successor.log is not None
    open_intake(SPEC, successor.log, MemoryBlobs(blobs), 2)
    assert successor.log.files() == vertex.log.files() == [one, other]


def test_no_blob_is_left_over_after_any_number_of_instances() -> None:
    blobs: dict[str, bytes] = {}
    vertex, intake = opened(blobs, 1)
    for epoch in range(2, 6):
        write(intake, advance(0, intake.next_index(0), 0, 7 * epoch))
        named, snapshot = intake.names(), vertex.get_snapshot()
        intake.announced(named)
        for name in named:
            del blobs[name]
        assert len(blobs) == 1, "the newest stays"
        vertex = RVertex(SPEC, pending_rows_max=100)
        vertex.load(snapshot)
        assert vertex.log is not None
        intake = open_intake(SPEC, vertex.log, MemoryBlobs(blobs), epoch)
        assert vertex.log.bound == MIN_TIME
        assert len(intake.names()) == 1, "what its predecessor might not name"


def test_a_missing_entry_is_an_error() -> None:
    blobs: dict[str, bytes] = {}
    _, intake = opened(blobs, 1)
    write(intake, advance(0, 0, 0, 7))
    write(intake, advance(0, 1, 0, 8))
    del blobs[sorted(blobs)[1]]
    with pytest.raises(CorruptJournalError, match="an earlier entry is missing"):
        opened(blobs, 2)


def test_blobs_of_two_instances_are_never_equal() -> None:
    """A store accepts a repeated equal blob, so both instances would believe to be the only one."""
    one: dict[str, bytes] = {}
    other: dict[str, bytes] = {}
    opened(one, 1)
    opened(other, 2)
    assert one.keys() == other.keys()
    assert one != other


def test_a_blob_that_a_zombie_writes_again_is_not_read() -> None:
    blobs: dict[str, bytes] = {}
    _, old = opened(blobs, 1)
    vertex, intake = opened(blobs, 2)
    for index, time in enumerate((7, 8, 9)):
        write(intake, advance(0, index, 0, time))
    snapshot = vertex.get_snapshot()
    for name in intake.names():
        del blobs[name]
    with pytest.raises(OvertakenError):
        write(old, *(advance(0, index, 0, 20 + index) for index in range(4)))
    successor = RVertex(SPEC, pending_rows_max=100)
    successor.load(snapshot)
    assert successor.log is not None
    open_intake(SPEC, successor.log, MemoryBlobs(blobs), 3)
    assert successor.consumed == vertex.consumed
    assert successor.log.channels[0].reorder.frontier == 9
