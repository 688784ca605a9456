"""When and how much to flush; failures are remembered; many streams share a thread fairly."""

from __future__ import annotations

import threading

from rstream import (
    Background,
    InlineBackground,
    StoreError,
    StreamEngineError,
    StreamLimits,
    ThreadBackground,
)
from rstream.log.flush import Flusher, FlushPolicy
from rstream.log.tail import Cut, VolatileTail
from tests.support.content import items

Log = list[tuple[int, StreamEngineError | None]]
LIMITS = StreamLimits(segment_rows_max=10, spill_after_s=2.0)


def tail_with(rows: int) -> VolatileTail:
    tail = VolatileTail(0)
    tail.append(items(0, rows))
    return tail


def test_an_async_stream_ends_segments_by_rows_and_on_request() -> None:
    policy = FlushPolicy(LIMITS, is_volatile=False)
    tail = tail_with(9)
    assert policy.take(tail) is None
    tail.append(items(9, 25))
    taken = []
    while (cut := policy.take(tail)) is not None:
        taken.append((cut.first_seq, cut.next_seq))
    assert taken == [(0, 10), (10, 20)]
    policy.request(25)
    cut = policy.take(tail)
    assert cut is not None
    assert (cut.first_seq, cut.next_seq) == (20, 25)
    assert policy.take(tail) is None


def test_a_volatile_stream_spills_when_nothing_is_consumed() -> None:
    tail = tail_with(25)
    limits = StreamLimits(spill_after_s=2.0, tail_bytes_max=tail.bytes)
    policy = FlushPolicy(limits, is_volatile=True)
    assert policy.take(tail) is None
    assert not policy.spill_if_stuck(0.0)
    assert policy.note_full(1.0)
    assert not policy.note_full(2.0)
    assert not policy.spill_if_stuck(2.9)
    policy.note_progress()
    assert not policy.spill_if_stuck(9.0)
    assert policy.note_full(10.0)
    assert policy.spill_if_stuck(12.0)
    cut = policy.take(tail)
    assert cut is not None
    assert cut.first_seq == 0
    tail.mark_durable(cut.next_seq)
    tail.drop_below(cut.next_seq)
    assert policy.take(tail) is None, "half of it was enough"
    assert policy.spill_if_stuck(12.1), "it spills at once while nothing is consumed"
    policy.note_progress()
    assert not policy.spill_if_stuck(13.0)


class Work:
    """A list of cuts to flush and their results."""

    def __init__(self, background: Background, log: Log, cuts: list[int]) -> None:
        self.log, self.cuts = log, cuts
        self.flusher = Flusher(
            background,
            threading.Condition(threading.RLock()),
            take=self.take,
            write=self.write,
            done=lambda cut, error: log.append((cut.first_seq, error)),
        )

    def take(self) -> Cut | None:
        return Cut(self.cuts.pop(0), (items(0, 1),), (b"",)) if self.cuts else None

    def write(self, cut: Cut) -> None:
        if cut.first_seq % 10 == 3:
            raise StoreError("x", "disk full")
        if cut.first_seq % 10 == 4:
            raise ZeroDivisionError("a bug")


def test_failures_are_reported_and_flushing_continues() -> None:
    log: Log = []
    work = Work(InlineBackground(), log, [1, 3, 4, 5])
    work.flusher.kick()
    assert [seq for seq, _ in log] == [1, 3, 4, 5]
    errors = [str(error) for _, error in log]
    assert errors[0] == errors[3] == "None"
    assert "disk full" in errors[1]
    assert "a bug" in errors[2]
    assert not work.flusher.is_running


def test_streams_take_turns_on_one_thread() -> None:
    log: Log = []
    background = ThreadBackground("flush")
    gate = threading.Event()
    background.submit(gate.wait)
    works = [Work(background, log, [base, base + 1, base + 2]) for base in (10, 20)]
    for work in works:
        work.flusher.kick()
        work.flusher.kick()
    gate.set()
    while any(work.flusher.is_running for work in works):
        background.submit(lambda: None).result(60)
    background.close()
    assert [seq for seq, _ in log] == [10, 20, 11, 21, 12, 22]
