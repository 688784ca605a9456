"""Readers: contiguous cursors over a stream from a given sequence number.

:class:`LocalReader` is for the writer's process: it reads the tail in memory by reference and older
items from Parquet. :class:`SegmentReader` reads the folder of a stream that another process writes.

Invariants: (1) a reader returns contiguous items from its first seq on, without gap or repeat, also
where it moves between memory and Parquet; (2) a reader buffers at most one row group.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from rstream.clock import SystemClock
from rstream.errors import (
    CorruptSegmentError,
    SequenceDiscardedError,
    SequenceLostError,
    StoreError,
)
from rstream.items.batch import Items, event_schema, only_events, payload_schema, widened
from rstream.items.dictionaries import as_declared
from rstream.log.durable import LOOKS_MAX, DurableLog
from rstream.store.blobs import open_store
from rstream.types import SeqRange

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rstream.format.segment_file import SegmentFile
    from rstream.store.protocol import BlobStore


READ_ITEMS_MAX = 1 << 16
REFRESH_INTERVAL_S = 0.1


class StreamReader(Protocol):
    """A cursor that only moves forward. To read earlier items, open another reader."""

    @property
    def next_seq(self) -> int:
        """The seq of the next item to be returned."""

    def read_next(self, max_items: int = READ_ITEMS_MAX) -> Items | None:
        """Return the next items, from 1 to ``max_items``; None if none is ready now."""

    def wait(self, timeout_s: float) -> bool:
        """Wait at most ``timeout_s`` until an item is ready; return whether one is."""

    def close(self) -> None:
        """Release the files and buffers of the reader."""


class TailedStream(Protocol):
    """The interface of a stream for readers in the same process."""

    @property
    def stream_id(self) -> str: ...

    @property
    def schema(self) -> pa.Schema: ...

    @property
    def first_seq(self) -> int:
        """The low-water mark: the first item that was not deleted."""

    def read_tail(self, seq: int, max_items: int) -> tuple[bool, Items | None]:
        """Return whether ``seq`` is in memory or not written yet, and the items from ``seq`` on."""

    def wait_for(self, seq: int, timeout_s: float) -> bool:
        """Wait until item ``seq`` is written; return whether it is."""


class LocalReader:
    """A reader in the writer's process."""

    def __init__(self, stream: TailedStream, seq: int, log: DurableLog) -> None:
        self._stream = stream
        self._seq = seq
        self._log = log
        self._cursor = SegmentCursor(log)

    @property
    def next_seq(self) -> int:
        return self._seq

    def read_next(self, max_items: int = READ_ITEMS_MAX) -> Items | None:
        """Implement :class:`StreamReader`.

        Raises:
            SequenceDiscardedError: the next item was deleted.
            SequenceLostError: the next item is neither in memory nor durable.
            CorruptSegmentError: the segment that contains it is damaged.
        """
        in_memory, items = self._stream.read_tail(self._seq, max_items)
        if not in_memory:
            items = self._read_durable(max_items)
        if items is None:
            return None
        assert items.first_seq == self._seq, (items.first_seq, self._seq)
        self._seq = items.next_seq
        batch = widened(items.batch, self._stream.schema)
        return Items(items.first_seq, as_declared(batch, self._stream.schema))

    def wait(self, timeout_s: float) -> bool:
        return self._stream.wait_for(self._seq, timeout_s)

    def close(self) -> None:
        self._cursor.close()

    def _read_durable(self, max_items: int) -> Items:
        mark = self._stream.first_seq
        if self._seq < mark:
            raise SequenceDiscardedError(self._stream.stream_id, self._seq, mark)
        items = self._cursor.read(self._seq, max_items)
        if items is None:
            raise SequenceLostError(self._stream.stream_id, self._seq)
        return items


class SegmentCursor:
    """Reads the durable items forward, one row group at a time. A cursor has one reader."""

    def __init__(
        self, log: DurableLog, *, columns: Sequence[str] | None = None, verify: bool = True
    ) -> None:
        self._log = log
        self._columns = columns
        self._verify = verify
        self._file: SegmentFile | None = None
        self._seqs = SeqRange(0, 0)
        self._rest: Items | None = None

    @property
    def generation(self) -> int:
        """The generation of the segment that contains the last items returned."""
        return self._seqs.generation

    def read(self, seq: int, items_max: int) -> Items | None:
        """Return at most ``items_max`` items from ``seq`` on; None if no segment contains it."""
        rest = self._rest
        if rest is None or not rest.first_seq <= seq < rest.next_seq:
            rest = self._load(seq)
            if rest is None:
                self.close()
                return None
        rest = rest.from_seq(seq)
        taken = rest.head(items_max)
        self._rest = rest.from_seq(taken.next_seq)
        return taken

    def close(self) -> None:
        """Close the open file."""
        self._rest = None
        if self._file is not None:
            self._file.close()
            self._file = None

    def _load(self, seq: int) -> Items | None:
        """Return the row group from ``seq`` on.

        List the folder again if the segment was deleted.
        """
        for attempt in range(LOOKS_MAX):
            if attempt:
                self.close()
                self._log.refresh()
            try:
                if self._file is None or seq not in self._seqs:
                    self.close()
                    seqs = self._log.lookup(seq)
                    if seqs is None and attempt:
                        return None
                    if seqs is None:
                        continue
                    self._file, self._seqs = self._log.open(seqs, self._columns), seqs
                return self._read_group(self._file, seq)
            except FileNotFoundError:
                continue
        return None

    def _read_group(self, file: SegmentFile, seq: int) -> Items:
        try:
            items = file.read_group(seq, verify=self._verify)
        except CorruptSegmentError:  # damaged, or the read failed: check a fresh copy
            self.close()
            self._file = self._log.open_whole(self._seqs, self._columns)
            items = self._file.read_group(seq, verify=self._verify)
        return items.head(self._seqs.hi - items.first_seq)


class SegmentReader:
    """A reader of a stream's folder, which another process may extend at the same time."""

    def __init__(
        self,
        store: BlobStore,
        seq: int | None,
        *,
        columns: Sequence[str] | None = None,
        verify: bool = True,
    ) -> None:
        self._log = DurableLog(store, store.uri)
        self._cursor = SegmentCursor(self._log, columns=columns, verify=verify)
        self._clock = SystemClock()
        self._is_closed = threading.Event()
        self._seq = (self._log.first_seq or 0) if seq is None else seq

    @property
    def next_seq(self) -> int:
        return self._seq

    @property
    def generation(self) -> int:
        """The generation that wrote the last items returned, as counted by changes of the job."""
        return self._cursor.generation

    @property
    def durable_seq(self) -> int:
        """The end of the durable items at the last listing."""
        return self._log.contiguous_end(self._seq)

    def read_schema(self) -> pa.Schema | None:
        """Return the item schema; None while there is no segment."""
        return self._log.read_schema()

    def read_next(self, max_items: int = READ_ITEMS_MAX) -> Items | None:
        """Implement :class:`StreamReader`. Lists the folder again at the end of the known segments.

        Raises:
            SequenceDiscardedError: the next item was deleted.
            SequenceLostError: the item is missing, but there are later items.
        """
        items = self._cursor.read(self._seq, max_items)
        if items is not None:
            self._seq = items.next_seq
            return items
        if self._seq < self._log.mark:
            raise SequenceDiscardedError(self._log.stream, self._seq, self._log.mark)
        first_seq = self._log.first_seq
        if first_seq is not None and self._seq < first_seq:
            raise SequenceLostError(self._log.stream, self._seq)
        return None

    def wait(self, timeout_s: float) -> bool:
        deadline_s = self._clock.monotonic_s() + timeout_s
        while self._log.lookup(self._seq) is None:
            left_s = deadline_s - self._clock.monotonic_s()
            if left_s <= 0 or self._is_closed.wait(min(left_s, REFRESH_INTERVAL_S)):
                return False
            self._log.refresh()
        return True

    def close(self) -> None:
        self._is_closed.set()
        self._cursor.close()


def open_reader(
    uri_or_store: str | BlobStore,
    from_seq: int | None = None,
    *,
    columns: Sequence[str] | None = None,
    verify: bool | None = None,
) -> SegmentReader:
    """Open a reader of the durable part of a stream that another process writes.

    ``from_seq`` None: from the first item that was not deleted. ``columns``: payload columns to
    read. ``verify``: check content digests, which needs all columns; None: check if all are read.
    """
    store = open_store(uri_or_store) if isinstance(uri_or_store, str) else uri_or_store
    verify = columns is None if verify is None else verify
    return SegmentReader(store, from_seq, columns=columns, verify=verify)


def read_events(uri_or_store: str | BlobStore, *, columns: Sequence[str] | None = None) -> pa.Table:
    """Return the durable events of a stream's folder: ``_vs, _ve, payload`` in sequence order.

    Raises:
        StoreError: the folder has no segment.
    """
    reader = open_reader(uri_or_store, columns=columns)
    schema = reader.read_schema()
    if schema is None:
        raise StoreError(str(uri_or_store), "the folder has no segment of a stream")
    tables = []
    while (items := reader.read_next()) is not None:
        tables.append(pa.Table.from_batches([only_events(items.batch)]))
    reader.close()
    payload = payload_schema(schema)
    if columns is not None:
        payload = pa.schema([payload.field(name) for name in columns])
    # a change of the job may have added columns
    return pa.concat_tables(
        [event_schema(payload).empty_table(), *tables], promote_options="default"
    )
