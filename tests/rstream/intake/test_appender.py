"""Appenders: group commit, acks, rejections, limits, takeovers, a full or slow store."""

from __future__ import annotations

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rstream import ManualClock, MemoryBlobs, SeqRange, open_reader, open_store
from rstream.errors import (
    AppenderFencedError,
    CorruptLogError,
    InvalidBatchError,
    LogSchemaError,
    NoLogError,
    ProducerFencedError,
    ProducerGapError,
    RowError,
    StoreError,
    TooManyProducersError,
    UnknownProducerError,
    UsageError,
)
from rstream.intake.appender import PRODUCER_CHARS_MAX, Appender
from rstream.intake.commits import commit_name, list_log
from rstream.intake.producers import Ack, ProducerPosition
from rstream.intake.reader import open_log
from rstream.intake.writer import Append, LogWriter
from rstream.limits import AppendLimits
from tests.support.pushed import (
    LIMITS,
    SCHEMA,
    Ledger,
    append,
    parquet_rows,
    read_rows,
    rows,
    write_pending,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rstream.store.protocol import Paths

COLUMNS = pa.schema([("at", pa.timestamp("us", "UTC")), pa.field("n", pa.int64(), nullable=False)])


class Gate(MemoryBlobs):
    """A store whose commits wait until the test opens the gate."""

    def __init__(self) -> None:
        super().__init__()
        self.may_go, self.waits = threading.Event(), threading.Event()
        self.may_go.set()

    def put_new(self, path: str, data: Any) -> bool:
        self.waits.set()
        assert self.may_go.wait(60)
        return super().put_new(path, data)


def test_rows_are_appended_and_read_by_position(tmp_path: Path) -> None:
    with Appender(str(tmp_path / "log"), COLUMNS) as appender:
        assert appender.append([{"n": 1}, {"at": None, "n": 2}]) == Ack(0, 1)
        batch = pa.RecordBatch.from_pydict({"n": pa.array([3, 4], pa.int64())})
        assert appender.append(batch) == Ack(2, 3)
        table = pa.Table.from_batches([batch, batch])
        assert appender.append(table) == Ack(4, 7)
        reader = open_log(appender.uri, 1)
        found = reader.read_next(2)
        assert found is not None
        assert (found.first_seq, found.batch["n"].to_pylist()) == (1, [2])  # the rest of a commit
    assert pq.read_table(tmp_path / "log")["n"].to_pylist() == [1, 2, 3, 4, 3, 4, 3, 4]
    assert open_log(str(tmp_path / "log")).positions() == SeqRange(0, 8)
    items = open_reader(str(tmp_path / "log")).read_next()
    assert items is not None
    assert items.batch.num_rows == 8


def test_a_check_without_new_rows_is_one_listing() -> None:
    store = Counted()
    with Appender(store, SCHEMA) as appender:
        appender.append(rows("a", 0), producer="a", number=0)
        reader = open_log(store)
        assert [items is None for items in (reader.read_next(), reader.read_next())] == [
            False,
            True,
        ]
        store.calls.clear()
        assert reader.read_next() is None
        assert store.calls == ["list"]
        appender.append(rows("a", 1), producer="a", number=1)
        assert reader.read_next() is not None
        assert reader.read_next() is None


class Counted(MemoryBlobs):
    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []

    def get_many(self, paths: Sequence[str]) -> Sequence[bytes | None]:
        self.calls.append("get_many")
        return super().get_many(paths)

    def list(self, folder: str = "") -> Paths:
        self.calls.append("list")
        return super().list(folder)


def test_concurrent_appends_share_a_commit() -> None:
    store = Gate()
    with Appender(store, SCHEMA) as appender, ThreadPoolExecutor(40) as threads:
        store.may_go.clear()
        store.waits.clear()
        first = appender.submit(rows("first", 0), producer="first", number=0)
        assert store.waits.wait(60)  # its commit is under way
        futures = [
            threads.submit(appender.append, rows(f"p{k}", 0), producer=f"p{k}", number=0)
            for k in range(40)
        ]
        while appender.waiting_appends < 41:  # ends when all appends wait
            assert not any(future.done() for future in futures)
        assert not first.done()
        store.may_go.set()
        acks = [future.result(60) for future in futures]
        assert sorted(ack.first_seq or 0 for ack in acks) == list(range(1, 41))
        assert len(list_log(store).commits) == 3  # with the fence


def test_a_repeat_is_acknowledged_again_and_a_gap_is_rejected() -> None:
    store = MemoryBlobs()
    with Appender(store, SCHEMA) as appender:
        for number in range(8):
            appender.append(rows("p", number), producer="p", number=number)
        again = appender.append(rows("p", 7), producer="p", number=7)
        assert again.is_repeat
        assert again.last_seq == appender.append([{"part": 0}]).first_seq - 1  # type: ignore[operator]
        old = appender.append(rows("p", 0), producer="p", number=0)
        assert old == Ack(None, None, is_repeat=True)
        with pytest.raises(ProducerGapError, match="its next number is 8"):
            appender.append(rows("p", 9), producer="p", number=9)
        with pytest.raises(UnknownProducerError, match="start with number 0"):
            appender.append(rows("q", 1), producer="q", number=1)
    assert len([r for r in read_rows(store) if r[0] == "p"]) == sum(n % 3 + 1 for n in range(8))


def test_a_restarted_producer_fences_its_predecessor() -> None:
    with Appender(MemoryBlobs(), SCHEMA) as appender:
        assert appender.open_producer("p") == ProducerPosition("p", 0, 0)
        appender.append(rows("p", 0), producer="p", number=0)
        assert appender.open_producer("p") == ProducerPosition("p", 1, 1)
        with pytest.raises(ProducerFencedError, match="a newer instance of it has epoch 1"):
            appender.append(rows("p", 1), producer="p", number=1)
        assert appender.append(rows("p", 0), producer="p", epoch=2, number=0).is_repeat
        with pytest.raises(ProducerFencedError):  # a repeat fences, too
            appender.append(rows("p", 1), producer="p", epoch=1, number=1)
        assert appender.append(rows("p", 1), producer="p", epoch=2, number=1).first_seq == 1


def test_a_later_appender_replaces_an_earlier_one() -> None:
    store, ledger = MemoryBlobs(), Ledger()
    zombie = Appender(store, SCHEMA)
    ledger.note("p", 0, zombie.append(rows("p", 0), producer="p", number=0))
    successor = Appender(store)
    with pytest.raises(AppenderFencedError, match="a newer appender has replaced this one"):
        zombie.append(rows("p", 1), producer="p", number=1)
    assert zombie.is_fenced
    with pytest.raises(AppenderFencedError):
        zombie.submit(rows("p", 1), producer="p", number=1)
    ledger.note("p", 1, successor.append(rows("p", 1), producer="p", number=1))
    zombie.close()
    successor.close()
    assert parquet_rows(store) == ledger.check(store)


class Full(MemoryBlobs):
    """A store with limited bytes below ``_log`` and elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.is_full = self.has_no_room_for_segments = False

    def _check(self, path: str) -> None:
        if self.is_full or (self.has_no_room_for_segments and path.endswith(".parquet")):
            raise StoreError(path, "OSError: [Errno 28] No space left on device")

    def put(self, path: str, data: Any) -> None:
        self._check(path)
        super().put(path, data)

    def put_new(self, path: str, data: Any) -> bool:
        self._check(path)
        return super().put_new(path, data)


def test_a_full_disk_is_an_error_without_loss() -> None:
    store, ledger = Full(), Ledger()
    with Appender(store, SCHEMA, limits=LIMITS) as appender:
        ledger.note("p", 0, appender.append(rows("p", 0), producer="p", number=0))
        store.is_full = True
        for _ in range(2):
            with pytest.raises(StoreError, match="No space left"):
                appender.append(rows("p", 1), producer="p", number=1)
        store.is_full = False
        ledger.note("p", 1, appender.append(rows("p", 1), producer="p", number=1))
    assert parquet_rows(store) == ledger.check(store) == read_rows(store)


def test_segments_that_cannot_be_written_delay_appends() -> None:
    store, ledger = Full(), Ledger()
    limits = AppendLimits(segment_commits_max=2, segment_retry_s=0.01)
    appender = Appender(store, SCHEMA, limits=limits)
    store.has_no_room_for_segments = True
    error = None
    while error is None:  # ends when the maximum number of segments wait
        try:
            number = len(ledger.acks)
            ack = appender.append(rows("p", number), producer="p", number=number)
            ledger.note("p", number, ack)
        except StoreError as failure:
            error = failure
    assert "No space left" in str(error)
    assert len(ledger.acks) < 10
    store.has_no_room_for_segments = False
    following = len(ledger.acks)
    while following not in {n for _, n in ledger.acks}:  # ends when a segment is written again
        try:
            ack = appender.append(rows("p", following), producer="p", number=following)
            ledger.note("p", following, ack)
        except StoreError:
            continue
    appender.close()
    assert parquet_rows(store) == ledger.check(store)


def test_a_submitted_append_cannot_be_cancelled_and_delays_no_other() -> None:
    store = Gate()
    with Appender(store, SCHEMA) as appender:
        store.may_go.clear()
        futures = [appender.submit([{"part": part}]) for part in range(2)]
        assert not futures[0].cancel()
        store.may_go.set()
        assert [future.result(60) for future in futures] == [Ack(0, 0), Ack(1, 1)]


def test_silent_producers_are_forgotten_and_their_number_is_limited() -> None:
    clock, store = ManualClock(), MemoryBlobs()
    limits = AppendLimits(producer_silence_s=10, producers_max=2)
    writer = LogWriter(store, SCHEMA, limits=limits, clock=clock)
    writer.commit([append("a", 0), append("b", 0)])
    (refused,) = writer.commit([append("c", 0)])
    assert isinstance(refused, TooManyProducersError)
    clock.advance(8_000_000)
    writer.commit([append("b", 1)])
    clock.advance(8_000_000)
    writer.commit([append("b", 2)], is_cut=True)
    write_pending(writer)
    assert writer.position("a") is None
    again = LogWriter(store, limits=limits, clock=clock)
    assert again.position("a") is None
    assert again.position("b") == ProducerPosition("b", 0, 3)
    assert [type(r) for r in again.commit([append("a", 1), append("c", 0)])] == [
        UnknownProducerError,
        Ack,
    ]


@pytest.mark.parametrize("opens", [False, True])
def test_any_sequence_of_producer_calls_is_handled(opens: bool) -> None:
    """A producer that opens an epoch, or repeats an append in a new one, counts as active."""
    clock, limits = ManualClock(), AppendLimits(producer_silence_s=10)
    writer = LogWriter(MemoryBlobs(), SCHEMA, limits=limits, clock=clock)
    writer.commit([append("a", 0), append("a", 1)])
    clock.advance(8_000_000)
    writer.commit([Append(None, "a", 1) if opens else append("a", 1, epoch=1)])
    clock.advance(8_000_000)
    writer.commit([append("b", 0)], is_cut=True)
    assert writer.position("a") == ProducerPosition("a", 1, 2)
    (ack,) = writer.commit([append("a", 2, epoch=1)])
    assert isinstance(ack, Ack)
    assert not ack.is_repeat


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([{"n": 1}, {"n": "x"}], "row 1, column n: 'x' is not int64; no row was stored"),
        ([{"n": 1}, {"m": 1}], "row 1, column m: not one of at, n"),
        ([{"n": 1}, 7], "row 1: 7 is not a dict of columns"),
        ([{"n": 1}, {"at": 7}], "row 1, column n: null in a column that is declared not null"),
        ([{"n": 2**63}], "row 0, column n: 9223372036854775808 is not int64"),
    ],
)
def test_a_bad_row_is_named(given: list[Any], message: str) -> None:
    store = MemoryBlobs()
    with Appender(store, COLUMNS) as appender:
        with pytest.raises(RowError, match=message):
            appender.append(given)
        for batch in (
            pa.RecordBatch.from_pydict({"n": [1.5]}),
            pa.RecordBatch.from_pydict({"m": [1]}),
            pa.RecordBatch.from_arrays([pa.array([1]), pa.array([1])], names=["n", "n"]),
            [],
        ):
            with pytest.raises(InvalidBatchError):
                appender.append(batch)
    assert open_log(store).positions() is None


@pytest.mark.parametrize(
    ("kind", "advice"),
    [
        (pa.timestamp("s"), "; declare it as timestamp[ms]"),
        (
            pa.struct([pa.field("x", pa.int64(), nullable=False)]),
            "; declare it as struct<x: int64>",
        ),
        (pa.month_day_nano_interval(), ""),
    ],
    ids=str,
)
def test_columns_that_no_job_could_read_are_rejected(kind: pa.DataType, advice: str) -> None:
    store, schema = MemoryBlobs(), pa.schema([("x", kind)])
    with pytest.raises(
        UsageError, match=re.escape(f"'x' is {kind}, which streams") + ".*store"
    ) as e:
        Appender(store, schema)
    assert str(e.value).endswith(f"store{advice}")
    assert not store.list(), "nothing was declared"


def test_the_columns_of_a_log_do_not_change(tmp_path: Path) -> None:
    with pytest.raises(NoLogError, match="has no log"):
        Appender(str(tmp_path))
    with pytest.raises(NoLogError):
        open_log(str(tmp_path))
    Appender(str(tmp_path), {"n": pa.int64()}).close()
    with pytest.raises(LogSchemaError, match="has the columns n int64, not n string"):
        Appender(str(tmp_path), {"n": pa.string()})
    for names in ([], ["received_at"], ["_vs"]):
        with pytest.raises(UsageError):
            Appender(str(tmp_path / "other"), pa.schema([(name, pa.int64()) for name in names]))


@pytest.mark.parametrize("producer", ["", "a\nb", "x" * (PRODUCER_CHARS_MAX + 1)])
def test_ids_of_producers_are_short_and_printable(producer: str) -> None:
    with Appender(MemoryBlobs(), SCHEMA) as appender:
        with pytest.raises(UsageError, match="the id of a producer is printable text"):
            appender.append(rows("p", 0), producer=producer, number=0)
        with pytest.raises(UsageError, match="set both producer= and number="):
            appender.append(rows("p", 0), producer="p")
        with pytest.raises(UsageError, match="from 0 to"):
            appender.append(rows("p", 0), producer="p", number=-1)


def test_damaged_files_are_named(tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    writer = LogWriter(store, SCHEMA)
    writer.commit([append("p", 0)])
    writer.commit([append("p", 1)])
    name = commit_name(1, 0)
    whole = store.get(name)
    store.put(name, whole[:-20])
    for use in (lambda: LogWriter(store), lambda: read_rows(store)):
        with pytest.raises(CorruptLogError, match="its checksum does not match"):
            use()
    store.put(name, store.get(commit_name(2, 1)))  # at the name of another one
    for use in (lambda: LogWriter(store), lambda: read_rows(store)):
        with pytest.raises(CorruptLogError, match=f"it contains {commit_name(2, 1)}"):
            use()
    store.delete(name)
    for use in (lambda: LogWriter(store), lambda: read_rows(store)):
        with pytest.raises(CorruptLogError, match="is missing"):
            use()
    store.put("_log.json", b"{")
    with pytest.raises(CorruptLogError, match="it cannot be read"):
        LogWriter(store)


@pytest.mark.slow
@pytest.mark.slow
def test_a_log_on_s3(s3_bucket: str) -> None:
    store, ledger = open_store(f"{s3_bucket}/log"), Ledger()
    zombie = LogWriter(store, SCHEMA, limits=LIMITS)
    ledger.note("p", 0, zombie.commit([append("p", 0)])[0])
    with Appender(f"{s3_bucket}/log", limits=LIMITS) as appender:
        for number in range(1, 6):
            ack = appender.append(rows("p", number), producer="p", number=number)
            ledger.note("p", number, ack)
        with pytest.raises(AppenderFencedError):
            zombie.commit([append("p", 1)])
    assert parquet_rows(store) == ledger.check(store)
