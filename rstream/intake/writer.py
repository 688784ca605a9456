"""The only writer of a log: commits appends, and writes commits as Parquet segments.

Opening a log creates a commit without rows, the *fence*. A writer owns a commit number by creating
its file first, so after the fence no commit of an earlier writer is valid. A commit is deleted once
it is in a segment, which frees its number. Therefore, before it acknowledges, a writer checks that
its own file ``_log/writer-<epoch>-<token>`` still exists. A later writer deletes that file before
it deletes any commit.

Commits also record where segments end (``is_cut``). So segments, bases and the table of producers
are functions of the commits: a crashed writer, a fenced writer and a successor write the same
files.

Invariants: (1) the rows that :meth:`LogWriter.commit` has returned are durable, and in the log
once; (2) a failed commit has no effect, unless its file turns out to exist. Then it is complete;
(3) a segment and its base are durable before a commit below the base is deleted.
"""

from __future__ import annotations

import secrets
import threading
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rstream.clock import Clock, SystemClock
from rstream.errors import AppenderFencedError, CorruptLogError, StreamEngineError
from rstream.intake.commits import (
    FORM,
    Base,
    Commit,
    base_name,
    commit_name,
    declare,
    list_log,
    no_rows,
    pack_base,
    pack_commit,
    read_base,
    unpack_commit,
    writer_name,
)
from rstream.intake.producers import (
    Ack,
    Change,
    ProducerPosition,
    ProducerTable,
    StagedChanges,
)
from rstream.intake.retention import LogRetention
from rstream.items.batch import EVENT, Items, item_schema
from rstream.limits import AppendLimits
from rstream.log.durable import DurableLog
from rstream.store.blobs import remove_temporaries

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rstream.store.protocol import BlobStore

#: Attempts to open a log that other writers change at the same time.
OPEN_ATTEMPTS_MAX = 16
#: Number of newest bases that are kept, so that every listing contains one.
_BASES_KEPT = 2
_TOKEN_BITS = 63


@dataclass(frozen=True, slots=True)
class Append:
    """Rows to append, without deduplication if there is no producer. No rows: open an epoch."""

    rows: pa.RecordBatch | None
    producer: str | None = None
    #: None: open the producer's next epoch.
    epoch: int | None = 0
    number: int = 0


Result = Ack | ProducerPosition | StreamEngineError


@dataclass(frozen=True, slots=True)
class PendingSegment:
    """Commits up to the end of a segment, to be written as this segment."""

    #: Number of the commit after the segment's end.
    number: int
    first_seq: int
    parts: tuple[tuple[int, pa.RecordBatch], ...]
    base: bytes

    @property
    def next_seq(self) -> int:
        return self.first_seq + sum(int(rows.num_rows) for _, rows in self.parts)


class LogWriter:
    """Commits to one log. One thread commits; another may write segments."""

    def __init__(
        self,
        store: BlobStore,
        schema: pa.Schema | None = None,
        *,
        limits: AppendLimits | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Open the log in a folder and fence earlier writers.

        Raises:
            NoLogError, LogSchemaError, UsageError: as :func:`~rstream.intake.commits.declare`.
            AppenderFencedError: other writers open it at the same time, repeatedly.
        """
        self._store, self.limits = store, limits or AppendLimits()
        self._clock = clock or SystemClock()
        self.schema = declare(store, schema)
        self._items = item_schema(self.schema)
        self._segments = DurableLog(store, store.uri, schema=self._items, form=FORM)
        keeps_all = self.limits.retention_s is None
        self._retention = None if keeps_all else LogRetention(self._segments, self.limits)
        self._token = secrets.randbits(_TOKEN_BITS)
        #: Segments that are not written yet. Guarded by a lock that is never held during I/O.
        self._pending: deque[PendingSegment] = deque()
        self._lock = threading.Lock()
        for _ in range(OPEN_ATTEMPTS_MAX):
            if self._load() and self._fence():
                break
        else:
            raise AppenderFencedError(store.uri, self.epoch)
        remove_temporaries(store)

    @property
    def uri(self) -> str:
        return self._store.uri

    def position(self, producer: str) -> ProducerPosition | None:
        """Return the durable position of a producer."""
        known = self._table.get(producer)
        return None if known is None else ProducerPosition(producer, known.epoch, known.number + 1)

    @property
    def uncut_rows(self) -> int:
        """Number of rows after the last segment's end."""
        return self.next_seq - self._cut_seq

    @property
    def segments_pending(self) -> int:
        """Number of segments that are not written yet."""
        return len(self._pending)

    def cut_wait_s(self) -> float | None:
        """Return the seconds until the newest rows are due for a segment; None: there are none."""
        if not self.uncut_rows:
            return None
        left_us = self._uncut_since_us + self.limits.segment_interval_s * 1e6 - self._now_us()
        return max(0.0, left_us / 1e6)

    def commit(self, appends: Sequence[Append], *, is_cut: bool = False) -> list[Result]:
        """Append the ``appends`` that are not repeats, atomically; return a result for each.

        Raises:
            AppenderFencedError: another writer has opened the log.
            StoreError: no append is acknowledged; the next call may find that they are durable.
        """
        for _ in range(2):
            results, commit = self._plan(appends, is_cut)
            if commit is None:
                return results
            if self._store.put_new(commit.name, pack_commit(commit)):
                self._check_owner()
                self._apply(commit)
                return results
            # The existing file is from an attempt that seemed to fail, or from another writer.
            self._apply(self._own(commit.name))
        raise AssertionError("two attempts of one writer left a commit each")

    def write_segment(self) -> bool:
        """Write the oldest pending segment and delete its commits.

        Return False if none is pending.
        """
        with self._lock:
            if not self._pending:
                return False
            cut = self._pending[0]
        if cut.parts:
            batches = [as_items(self._items, time_us, rows) for time_us, rows in cut.parts]
            whole = pa.Table.from_batches(batches, schema=self._items).combine_chunks()
            self._segments.write(Items(cut.first_seq, whole.to_batches()[0]))
        self._store.put(base_name(cut.number, cut.next_seq), cut.base)
        with self._lock:
            self._pending.popleft()
        self._delete_below(cut.number)
        return True

    def collect_old(self) -> int:
        """Delete segments beyond the retention that no reader needs; return their number.

        Raises:
            AppenderFencedError: another writer has opened the log and is now responsible.
            StoreError: a deletion failed; the next call continues.
        """
        if self._retention is None:
            return 0
        mark = self._retention.mark(self._now_us())
        self._check_owner()
        return self._retention.collect(mark)

    def _load(self) -> bool:
        """Read the log from its newest base on. Return False if it changed meanwhile."""
        listing = list_log(self._store)
        if not listing.bases:
            empty = Base(0, 0, 0, 0, ProducerTable())
            self._store.put_new(empty.name, pack_base(empty))
            return False
        try:
            base = read_base(self._store, *listing.base)
        except FileNotFoundError:
            return False
        self._table, self.epoch, self._time_us = base.producers, base.epoch, base.time_us
        self.next_number, self.next_seq = base.number, base.next_seq
        self._cut_seq = base.next_seq
        self._uncut_number = base.number
        self._uncut: list[tuple[int, pa.RecordBatch]] = []
        self._uncut_bytes, self._uncut_since_us = 0, self._now_us()
        self._pending.clear()
        names = [commit_name(*commit) for commit in listing.live()]
        for name, data in zip(names, self._store.get_many(names), strict=True):
            if data is None:
                return False
            commit = unpack_commit(name, data)
            if (commit.number, commit.first_seq) != (self.next_number, self.next_seq):
                reason = f"commit {self.next_number} at seq {self.next_seq} is missing"
                raise CorruptLogError(f"{self.uri}/{name}", reason)
            self._apply(commit)
        self.epoch = max([self.epoch, *(epoch for epoch, _ in listing.writers)]) + 1
        return list_log(self._store).base == listing.base

    def _fence(self) -> bool:
        """Create the fence. Return False if another writer has committed meanwhile."""
        self._store.put(writer_name(self.epoch, self._token), b"\n")
        fence = self._commit(no_rows(self.schema), (), is_cut=False)
        if not self._store.put_new(fence.name, pack_commit(fence)):
            return False
        listing = list_log(self._store)
        if listing.base[0] > fence.number:
            return False  # another writer used the number, and its commit is already in a segment
        for epoch, token in listing.writers:
            if epoch < self.epoch:
                self._store.delete(writer_name(epoch, token))
        self._check_owner()
        self._apply(fence)
        return True

    def _plan(self, appends: Sequence[Append], is_cut: bool) -> tuple[list[Result], Commit | None]:
        """Return the results of a durable commit, and the commit; None if there are no new rows."""
        staged = StagedChanges(self.uri, self._table, self.limits.producers_max)
        results: list[Result] = []
        batches: list[pa.RecordBatch] = []
        seq = self.next_seq
        for append in appends:
            try:
                result, seq = self._plan_one(append, staged, batches, seq)
                results.append(result)
            except StreamEngineError as error:
                results.append(error)
        if not batches and not staged.changes and not (is_cut and self.uncut_rows):
            return results, None
        rows = no_rows(self.schema) if not batches else pa.concat_batches(batches)
        return results, self._commit(rows, tuple(staged.changes), is_cut=is_cut)

    def _plan_one(
        self, append: Append, staged: StagedChanges, batches: list[pa.RecordBatch], seq: int
    ) -> tuple[Result, int]:
        rows, producer = append.rows, append.producer
        if rows is None:
            assert producer is not None, append
            return staged.open(producer, append.epoch), seq
        ack = Ack(seq, seq + rows.num_rows - 1)
        if producer is not None:
            assert append.epoch is not None, append
            repeat = staged.check(producer, append.epoch, append.number)
            if repeat is not None:
                return repeat, seq
            last_seq = seq + rows.num_rows - 1
            staged.note(Change(producer, append.epoch, append.number, seq, last_seq))
        batches.append(rows)
        return ack, seq + rows.num_rows

    def _commit(self, rows: pa.RecordBatch, changes: tuple[Change, ...], *, is_cut: bool) -> Commit:
        limits = self.limits
        is_full = (
            self.next_number + 1 - self._uncut_number >= limits.segment_commits_max
            or self.uncut_rows + rows.num_rows >= limits.segment_rows_max
            or self._uncut_bytes + rows.nbytes >= limits.segment_bytes_max
        )
        return Commit(
            number=self.next_number,
            first_seq=self.next_seq,
            epoch=self.epoch,
            token=self._token,
            time_us=max(self._time_us, self._now_us()),
            is_cut=is_cut or is_full,
            silence_us=int(limits.producer_silence_s * 1e6),
            changes=changes,
            rows=rows,
        )

    def _apply(self, commit: Commit) -> None:
        """Apply a durable commit to the state in memory."""
        assert (commit.number, commit.first_seq) == (self.next_number, self.next_seq), commit
        assert commit.time_us >= self._time_us, (commit.time_us, self._time_us)
        self._table.apply(commit.changes, commit.time_us)
        if commit.rows.num_rows:
            if not self._uncut:
                self._uncut_since_us = commit.time_us
            self._uncut.append((commit.time_us, commit.rows))
            self._uncut_bytes += commit.rows.nbytes
        self.next_number, self.next_seq = commit.number + 1, commit.next_seq
        self.epoch, self._time_us = max(self.epoch, commit.epoch), commit.time_us
        if commit.is_cut:
            self._cut(commit)

    def _cut(self, commit: Commit) -> None:
        self._table.forget_before(commit.time_us - commit.silence_us)
        base = Base(self.next_number, self.next_seq, commit.epoch, commit.time_us, self._table)
        cut = PendingSegment(base.number, self._cut_seq, tuple(self._uncut), pack_base(base))
        with self._lock:
            self._pending.append(cut)
        self._cut_seq, self._uncut_number = self.next_seq, self.next_number
        self._uncut, self._uncut_bytes = [], 0

    def _own(self, name: str) -> Commit:
        """Read the commit with this name.

        Raise AppenderFencedError if another writer created it.
        """
        try:
            commit = unpack_commit(name, self._store.get(name))
        except FileNotFoundError:  # a later writer has moved it into a segment
            raise self._fenced() from None
        if commit.token != self._token:
            raise AppenderFencedError(self.uri, commit.epoch)
        self._check_owner()
        return commit

    def _check_owner(self) -> None:
        if not self._store.exists(writer_name(self.epoch, self._token)):
            raise self._fenced()

    def _fenced(self) -> AppenderFencedError:
        writers = list_log(self._store).writers
        return AppenderFencedError(self.uri, max((e for e, _ in writers), default=self.epoch))

    def _delete_below(self, number: int) -> None:
        listing = list_log(self._store)
        for commit in listing.commits:
            if commit[0] < number:
                self._store.delete(commit_name(*commit))
        for base in listing.bases[:-_BASES_KEPT]:
            self._store.delete(base_name(*base))

    def _now_us(self) -> int:
        return self._clock.now_us()


def as_items(schema: pa.Schema, time_us: int, rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows of a log as items whose lifetime is the microsecond of their arrival."""
    n = rows.num_rows
    head = [
        pa.array(np.full(n, EVENT, np.int8)),
        pa.array(np.full(n, time_us, np.int64)),
        pa.array(np.full(n, time_us + 1, np.int64)),
    ]
    return pa.RecordBatch.from_arrays([*head, *rows.columns], schema=schema)
