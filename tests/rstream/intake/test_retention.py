"""Old rows of a log are deleted in whole segments, never rows that a reader needs, despite crashes.

Laws: the remaining rows are the end of the log, unchanged and without a hole; no row is deleted
that is younger than the retention or that a reader has declared to need; after a check by a live
process, no older segment is left except the newest one. Not covered: a reader that reports no
position.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from rstream import Appender, ManualClock, MemoryBlobs, SequenceDiscardedError, open_log
from rstream.errors import AppenderFencedError
from rstream.intake.readers import forget_reader, needed_seq, report_position
from rstream.intake.writer import LogWriter
from rstream.store.segment_names import parse_segment_name
from tests.support.crashing_store import CrashingBlobs, DiedError, Life, deaths
from tests.support.pushed import (
    LIMITS,
    SCHEMA,
    Interrupted,
    append,
    parquet_rows,
    parts_of,
    write_pending,
)
from tests.support.synced_store import Synced

ROUNDS, KEPT_ROUNDS = 5, 2
S = 1_000_000
ROUND_US = 100 * S
KEEPING = replace(LIMITS, segment_commits_max=1, retention_s=KEPT_ROUNDS * 100 - 1.0)
#: (producer, number, part) of all appended rows, and the start of each append.
ALL = [("a", n, k) for n in range(ROUNDS) for k in range(parts_of(n))]
STARTS = [sum(map(parts_of, range(n))) for n in range(ROUNDS + 1)]


def opened(store: object, clock: ManualClock) -> LogWriter:
    return LogWriter(store, SCHEMA, limits=KEEPING, clock=clock)  # type: ignore[arg-type]


def live(store: object, clock: ManualClock, first: int = 0, end: int = ROUNDS) -> None:
    """A writer that appends one segment at a time, and checks for deletable ones."""
    writer = opened(store, clock)
    known = writer.position("a")
    for number in range(first if known is None else known.next_number, end):
        writer.commit([append("a", number)])
        write_pending(writer)
        writer.collect_old()
        clock.advance(ROUND_US)


def ranges(store: MemoryBlobs) -> list[tuple[int, int]]:
    found = [seqs for name in store.list() if (seqs := parse_segment_name(name)) is not None]
    return sorted((seqs.lo, seqs.hi) for seqs in found)


def check(store: MemoryBlobs, end: int) -> int:
    """Check that a suffix of the log up to append ``end`` is readable; return its first seq."""
    reader = open_log(store)
    first, found = reader.next_seq, []
    while (items := reader.read_next(2)) is not None:
        found += [(r["producer"], r["number"], r["part"]) for r in items.batch.to_pylist()]
    assert found == ALL[first : STARTS[end]]
    assert first in STARTS
    if first:
        with pytest.raises(SequenceDiscardedError, match=f"still kept is {first}"):
            open_log(store, first - 1).read_next()
    return first


def test_old_segments_are_deleted_and_others_are_kept() -> None:
    store, clock = MemoryBlobs(), ManualClock(S)
    live(store, clock)
    assert check(store, ROUNDS) == STARTS[ROUNDS - KEPT_ROUNDS]
    assert parquet_rows(store) == ALL[STARTS[ROUNDS - KEPT_ROUNDS] :]
    clock.advance(100 * ROUND_US)
    opened(store, clock).collect_old()
    assert ranges(store) == [(STARTS[-2], STARTS[-1])]  # the newest one stays
    live(store, clock)  # and the log continues
    assert check(store, ROUNDS) == STARTS[-2]


def test_without_a_retention_everything_is_kept() -> None:
    store, clock = MemoryBlobs(), ManualClock(S)
    writer = LogWriter(store, SCHEMA, limits=LIMITS, clock=clock)
    for number in range(ROUNDS):
        writer.commit([append("a", number)], is_cut=True)
        write_pending(writer)
        clock.advance(365 * 86_400 * S)
        assert writer.collect_old() == 0
    assert check(store, ROUNDS) == 0


def test_rows_for_a_reader_are_kept_until_it_was_silent_for_long() -> None:
    store, clock = MemoryBlobs(), ManualClock(S)
    report_position(store, "job/0", STARTS[1], clock.now_us())
    report_position(store, "job/1", STARTS[2], clock.now_us())
    live(store, clock)
    assert check(store, ROUNDS) == STARTS[1]
    forget_reader(store, "job/0")
    writer = opened(store, clock)
    writer.collect_old()
    assert check(store, ROUNDS) == STARTS[2]
    clock.advance(int(KEEPING.reader_wait_s * S))
    writer.collect_old()
    assert check(store, ROUNDS) == STARTS[ROUNDS - 1]


def test_an_incomplete_position_keeps_everything() -> None:
    store = MemoryBlobs()
    report_position(store, "job/0", 7, 5)
    assert needed_seq(store, 5) == 7
    assert needed_seq(store, 6) is None
    store.put("_readers/other", store.get("_readers/job%2F0")[:9])
    assert needed_seq(store, 5) == 0


def test_a_reported_position_survives_a_power_failure() -> None:
    store = Synced({})
    report_position(store, "job/0", 7, 5)
    assert needed_seq(MemoryBlobs(store.on_disk), 5) == 7


def test_the_writer_dies_at_every_call() -> None:
    calls = Life()
    live(CrashingBlobs(MemoryBlobs(), calls), ManualClock(S))
    assert any(call == "put _low_water_mark" for call in calls.calls)
    for at, how in deaths(calls.calls, is_atomic=True):
        store, clock, life = MemoryBlobs(), ManualClock(S), Life(at, how)
        report_position(store, "job", STARTS[2], clock.now_us())
        with contextlib.suppress(DiedError):
            live(CrashingBlobs(store, life), clock)
        try:
            if ranges(store):  # a log was started
                assert open_log(store).next_seq <= STARTS[2]
            live(store, clock)
            assert check(store, ROUNDS) == STARTS[2]
            forget_reader(store, "job")
            opened(store, clock).collect_old()
            first = check(store, ROUNDS)
            assert first >= STARTS[ROUNDS - KEPT_ROUNDS]
            assert ranges(store)[0][0] == first  # no file is left below
        except BaseException as error:
            error.add_note(f"{how} call {at}, {life.calls[-1]}")
            raise


@pytest.mark.slow
def test_a_zombie_is_suspended_before_every_call_while_a_successor_deletes() -> None:
    calls, half = Life(), ROUNDS // 2
    live(CrashingBlobs(MemoryBlobs(), calls), ManualClock(S), end=half)
    for at in range(len(calls.calls)):
        store, clock = MemoryBlobs(), ManualClock(S)

        def meanwhile(store: MemoryBlobs = store, clock: ManualClock = clock) -> None:
            live(store, clock)

        life = Interrupted(at, meanwhile)
        try:
            with contextlib.suppress(AppenderFencedError):
                live(CrashingBlobs(store, life), clock, end=half)
            last = opened(store, clock)
            last.collect_old()
            first = check(store, ROUNDS)
            assert first >= STARTS[ROUNDS - KEPT_ROUNDS]
            assert ranges(store)[0][0] == first
        except BaseException as error:
            error.add_note(f"slept before call {at}, {life.calls[at]}")
            raise


@given(
    st.lists(st.integers(0, 3 * ROUND_US), min_size=ROUNDS, max_size=ROUNDS),
    st.integers(0, ROUNDS),
    st.booleans(),
)
def test_retention_with_any_times_and_any_reader(
    pauses_us: list[int], needed: int, is_reading: bool
) -> None:
    store, clock = MemoryBlobs(), ManualClock(S)
    writer, came_us = opened(store, clock), []
    for number, pause_us in enumerate(pauses_us):
        if is_reading:
            report_position(store, "job", STARTS[needed], clock.now_us())
        came_us.append(clock.now_us())
        writer.commit([append("a", number)])
        write_pending(writer)
        clock.advance(pause_us)
        writer.collect_old()
        young = [n for n in range(number) if clock.now_us() - came_us[n] < KEEPING.retention_s * S]
        expected = min([*young, number, *([needed] if is_reading else [])])
        assert check(store, number + 1) == STARTS[expected]


def test_only_the_newest_writer_deletes() -> None:
    """An appender deletes no rows after a writer with a longer retention has replaced it."""
    store, clock = MemoryBlobs(), ManualClock(S)
    replaced = opened(store, clock)
    for number in range(3):
        replaced.commit([append("a", number)])
        write_pending(replaced)
    LogWriter(store, SCHEMA, limits=LIMITS, clock=clock)
    clock.advance(10 * ROUND_US)
    with pytest.raises(AppenderFencedError):
        replaced.collect_old()
    assert check(store, 3) == 0


def test_an_appender_checks_the_retention_when_it_is_opened() -> None:
    store, clock = MemoryBlobs(), ManualClock(S)
    writer = opened(store, clock)
    for number in range(3):
        writer.commit([append("a", number)])
        write_pending(writer)
    clock.advance(10 * ROUND_US)
    Appender(store, SCHEMA, limits=KEEPING, clock=clock).close()
    assert check(store, 3) == STARTS[2]
