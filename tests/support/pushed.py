"""Producers that push rows with their names, and the expected contents of a log."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from rstream.errors import StoreError
from rstream.intake.producers import Ack
from rstream.intake.reader import is_log, open_log
from rstream.intake.writer import Append, LogWriter
from rstream.limits import AppendLimits
from tests.support.crashing_store import CrashingBlobs, Life

if TYPE_CHECKING:
    from collections.abc import Callable

    from rstream import BlobStore

SCHEMA = pa.schema([("producer", pa.string()), ("number", pa.int64()), ("part", pa.int64())])
#: A segment after three commits.
LIMITS = AppendLimits(segment_commits_max=3, segment_interval_s=0.0)


def parts_of(number: int) -> int:
    """The number of rows of the append with this number."""
    return number % 3 + 1


def rows(producer: str, number: int) -> pa.RecordBatch:
    """The rows of one append."""
    parts = [{"producer": producer, "number": number, "part": k} for k in range(parts_of(number))]
    return pa.RecordBatch.from_pylist(parts, schema=SCHEMA)


def append(producer: str, number: int, epoch: int = 0) -> Append:
    return Append(rows(producer, number), producer, epoch, number)


class Ledger:
    """The acknowledgements that producers got."""

    def __init__(self) -> None:
        self.acks: dict[tuple[str, int], Ack] = {}

    def note(self, producer: str, number: int, ack: object) -> None:
        """Record an acknowledgement. All acknowledgements of a number must be equal."""
        assert isinstance(ack, Ack), ack
        if ack.first_seq is None:
            return
        before = self.acks.setdefault((producer, number), ack)
        assert (before.first_seq, before.last_seq) == (ack.first_seq, ack.last_seq)

    def check(self, store: BlobStore) -> list[tuple[str, int, int]]:
        """Check that a log has each (producer, number) once, in order, at acknowledged places."""
        found = read_rows(store)
        by_producer: dict[str, list[int]] = {}
        at = 0
        while at < len(found):
            producer, number, _ = found[at]
            parts = parts_of(number)
            assert found[at : at + parts] == [(producer, number, k) for k in range(parts)]
            by_producer.setdefault(producer, []).append(number)
            if (ack := self.acks.get((producer, number))) is not None:
                assert (ack.first_seq, ack.last_seq) == (at, at + parts - 1)
            at += parts
        for numbers in by_producer.values():
            assert numbers == list(range(len(numbers)))
        for producer, number in self.acks:
            assert number < len(by_producer.get(producer, [])), (producer, number)
        return found


def read_rows(store: BlobStore) -> list[tuple[str, int, int]]:
    """Return all rows of a log as a reader by position returns them."""
    found: list[tuple[str, int, int]] = []
    if not is_log(store):
        return found
    reader = open_log(store)
    arrived = 0
    while (items := reader.read_next(2)) is not None:
        assert items.first_seq == len(found)
        for row in items.batch.to_pylist():
            assert row["_kind"] == 0
            assert arrived <= row["_vs"] == row["_ve"] - 1
            arrived = row["_vs"]
            found.append((row["producer"], row["number"], row["part"]))
    positions = reader.positions()
    assert len(found) == (0 if positions is None else positions.hi)
    reader.close()
    return found


def parquet_rows(store: BlobStore) -> list[tuple[str, int, int]]:
    """The rows of the folder for a plain reader of Parquet files."""
    names = [name for name in store.list() if name.endswith(".parquet")]
    tables = [pq.read_table(io.BytesIO(store.get(name))) for name in names]
    return [(r["producer"], r["number"], r["part"]) for t in tables for r in t.to_pylist()]


def write_pending(writer: LogWriter) -> None:
    """Write all waiting segments."""
    while writer.write_segment():  # ends when no cut is left
        pass


class Interrupted(Life):
    """A process that is suspended before one of its calls while others act."""

    def __init__(self, at: int | None, meanwhile: Callable[[], None]) -> None:
        super().__init__()
        self._sleeps_at, self._meanwhile = at, meanwhile

    def enter(self, call: str) -> str:
        how = super().enter(call)
        if self._sleeps_at == len(self.calls) - 1:
            self._meanwhile()
        return how


class FailingBlobs(CrashingBlobs):
    """A store one of whose calls fails, with or without its effect."""

    def __init__(self, store: BlobStore, at: int, *, has_effect: bool) -> None:
        super().__init__(store, Life())
        self._fails_at, self._has_effect, self._calls = at, has_effect, 0

    def _fails(self) -> bool:
        self._calls += 1
        return self._calls - 1 == self._fails_at

    def put(self, path: str, data: bytes | pa.Buffer) -> None:
        fails = self._fails()
        if not fails or self._has_effect:
            self._store.put(path, data)
        if fails:
            raise StoreError(path, "no answer")

    def put_new(self, path: str, data: bytes | pa.Buffer) -> bool:
        fails = self._fails()
        won = not (fails and not self._has_effect) and self._store.put_new(path, data)
        if fails:
            raise StoreError(path, "no answer")
        return won

    def exists(self, path: str) -> bool:
        if self._fails():
            raise StoreError(path, "no answer")
        return self._store.exists(path)
