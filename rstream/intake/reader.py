"""Reads the rows of a log by position, also while its writer appends.

A position is a sequence number, dense over the rows from 0. Each row is an item whose lifetime is
the microsecond of its arrival, so a log is a stream in arrival order. It has no CTIs (watermarks)
and no end. The event times are in the rows' columns and out of order; the reading query declares
them.

Invariants: (1) a reader returns each row once, in order, for any batch size; (2) it returns only
durable rows.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import deque
from operator import itemgetter
from typing import TYPE_CHECKING

from rstream.clock import SystemClock
from rstream.errors import CorruptLogError, NoLogError, SequenceDiscardedError, SequenceLostError
from rstream.intake.commits import Commit, commit_name, declared, list_log, unpack_commit
from rstream.intake.writer import as_items
from rstream.items.batch import Items, item_schema
from rstream.log.durable import DurableLog
from rstream.log.reader import READ_ITEMS_MAX, SegmentCursor
from rstream.store.blobs import open_store
from rstream.types import SeqRange

if TYPE_CHECKING:
    from rstream.store.protocol import BlobStore

POLL_INTERVAL_S = 0.02
#: Most commits that are read ahead.
COMMITS_AHEAD_MAX = 8
#: Attempts to read a commit, because commits can become segments between listing and reading.
_LOOKS_MAX = 16


class AppendLogReader:
    """A :class:`~rstream.log.reader.StreamReader` of a log; make it with :func:`open_log`."""

    def __init__(self, store: BlobStore, seq: int | None) -> None:
        schema = declared(store)
        if schema is None:
            raise NoLogError(store.uri)
        #: The declared columns.
        self.payload = schema
        self.schema = item_schema(schema)
        self._store, self._uri = store, store.uri
        self._segments = DurableLog(store, store.uri)
        self._cursor = SegmentCursor(self._segments)
        self._seq = self._first_seq() if seq is None else seq
        #: Commits that were read ahead.
        self._commits: deque[Commit] = deque()
        #: The last commit, once all its rows were returned. Its file does not change.
        self._last: tuple[int, int] | None = None
        self._clock = SystemClock()
        self._is_closed = threading.Event()

    @property
    def next_seq(self) -> int:
        return self._seq

    def positions(self) -> SeqRange | None:
        """Return the rows that can be read now, ``[first, end)``; None: there are none."""
        for _ in range(_LOOKS_MAX):
            listing = list_log(self._store)
            if not listing.bases:
                return None
            end = listing.base[1]
            if live := listing.live():
                ahead = list(self._commits)
                self._commits.clear()
                if not self._load(live[-1:]):
                    continue
                end = self._commits.pop().next_seq
                self._commits.extend(ahead)
            self._segments.refresh()
            first = self._first_seq()
            return SeqRange(first, end) if first < end else None
        raise CorruptLogError(self._uri, "it changes faster than it can be read")

    def segments(self) -> list[SeqRange]:
        """Return the seq ranges of the segments, as of the last listing."""
        return self._segments.segments()

    def read_next(self, max_items: int = READ_ITEMS_MAX) -> Items | None:
        """Return the next rows; None if there are none now.

        Raises:
            SequenceDiscardedError: the next row was deleted.
            SequenceLostError, CorruptLogError, CorruptSegmentError: the row is missing or damaged.
        """
        items = self._next()
        if items is None:
            return None
        taken = items.head(max_items)
        self._seq = taken.next_seq
        return taken

    def wait(self, timeout_s: float) -> bool:
        """Wait at most ``timeout_s`` for a row to read; return whether there is one."""
        deadline_s = self._clock.monotonic_s() + timeout_s
        while self._next() is None:
            left_s = deadline_s - self._clock.monotonic_s()
            if left_s <= 0 or self._is_closed.wait(min(left_s, POLL_INTERVAL_S)):
                return False
        return True

    def close(self) -> None:
        """Release the files that the reader has open."""
        self._is_closed.set()
        self._cursor.close()

    def _next(self) -> Items | None:
        """Return the next rows: from one commit, or from a part of a segment."""
        for _ in range(_LOOKS_MAX):
            while self._commits and self._commits[0].next_seq <= self._seq:
                self._commits.popleft()
            if self._commits:
                commit = self._commits[0]
                rows = as_items(self.schema, commit.time_us, commit.rows)
                return Items(commit.first_seq, rows).from_seq(self._seq)
            listing = list_log(self._store)
            if not listing.bases:
                return None
            if self._seq < listing.base[1]:
                return self._from_segments()
            live = listing.live()
            if not live or live[-1] == self._last:
                return None
            at = bisect_right(live, self._seq, key=itemgetter(1)) - 1
            if not self._load(live[at : at + COMMITS_AHEAD_MAX]):
                continue
            if self._commits[-1].next_seq <= self._seq:
                self._commits.clear()
                if at + 1 < len(live):
                    raise CorruptLogError(self._uri, f"the commit with seq {self._seq} is missing")
                self._last = live[at]
                return None
        raise CorruptLogError(self._uri, "it changes faster than it can be read")

    def _load(self, names: list[tuple[int, int]]) -> bool:
        """Read these consecutive commits. Return False if they became a segment meanwhile.

        The base is read again afterwards, because a commit below it may be from a fenced writer.
        """
        paths = [commit_name(*name) for name in names]
        contents = self._store.get_many(paths)
        if None in contents or list_log(self._store).base[0] > names[0][0]:
            return False
        for path, data in zip(paths, contents, strict=True):
            commit = unpack_commit(path, data or b"")
            before = self._commits[-1] if self._commits else None
            if before is not None and before.next_seq != commit.first_seq:
                reason = f"the commit with seq {before.next_seq} is missing"
                raise CorruptLogError(f"{self._uri}/{path}", reason)
            self._commits.append(commit)
        return True

    def _from_segments(self) -> Items:
        items = self._cursor.read(self._seq, READ_ITEMS_MAX)
        if items is None:
            first_seq = self._first_seq()
            if self._seq < first_seq:
                raise SequenceDiscardedError(self._uri, self._seq, first_seq)
            raise SequenceLostError(self._uri, self._seq)
        return items

    def _first_seq(self) -> int:
        return max(self._segments.mark, self._segments.first_seq or 0)


def open_log(uri_or_store: str | BlobStore, from_seq: int | None = None) -> AppendLogReader:
    """Open a reader of a log that an :class:`~rstream.intake.appender.Appender` writes.

    ``from_seq`` None: from the first row that was not deleted.

    Raises:
        NoLogError: there is no log.
    """
    store = open_store(uri_or_store) if isinstance(uri_or_store, str) else uri_or_store
    return AppendLogReader(store, from_seq)


def is_log(uri_or_store: str | BlobStore) -> bool:
    """Return whether there is a log in this folder."""
    store = open_store(uri_or_store) if isinstance(uri_or_store, str) else uri_or_store
    return declared(store) is not None
