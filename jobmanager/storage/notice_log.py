"""The log of the job managers' notices, which a successor replays.

Every job manager writes an rStream of its own, ``notices/<epoch>``. Before its first notice it
stores a *fence* there: the earlier epochs, and how many notices of each it has read. The whole log
is the history in the newest fence, then all notices of that epoch. So notices that a live
predecessor still flushes are in no history, and can overwrite nothing.

Notices become durable in the background; :meth:`NoticeLog.flush` waits until they are.

Invariants: (1) only the owner of an epoch writes to its folder; (2) the owner stores one fence,
before it decides anything; (3) an epoch without a fence has no notices.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from jobmanager.errors import BrokenFileError
from jobmanager.state.messages import LOG_CODEC
from jobmanager.storage.documents import (
    BrokenDocumentError,
    json_document,
    read_json_document,
)
from jobmanager.storage.root import NOTICES, display_uri
from rstream import RStream
from rstream.errors import CorruptSegmentError, StoreError
from rstream.items.batch import EVENT, VS, only_events
from rstream.log.durable import DurableLog, SegmentCursor
from rstream.store.segment_names import parse_segment_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jobmanager.config import JobConfig
    from jobmanager.state.messages import Notice
    from jobmanager.storage.root import JobRoot
    from rstream.clock import Clock
    from rstream.log.background import Background
    from rstream.store.protocol import BlobStore

FLUSHES_MAX = 3
FENCE = "_follows"
_ITEMS_MAX = 4_096
_NOTICE_PAYLOAD = pa.schema([pa.field("notice", pa.binary())])


class LogPart(NamedTuple):
    """Of this epoch's notices those below ``end`` count."""

    epoch: int
    end: int


class NoticeLog:
    """The log as one job manager sees it: what came before, and its own."""

    def __init__(
        self, root: JobRoot, clock: Clock, config: JobConfig, background: Background | None
    ) -> None:
        """The root is owned. Puts the fence."""
        self._store = root.store
        self._clock = clock
        self._flush_wait_s = config.notice_flush_wait_s
        self._parts = fence(root)
        self._stream = RStream.open(
            root.store.child(folder_of(root.epoch)),
            _NOTICE_PAYLOAD,
            stream_id=NOTICES,
            clock=clock,
            background=background,
        )

    def append(self, notice: Notice) -> None:
        """Add a notice; it becomes durable in the background."""
        now = self._clock.now_us()
        columns = [
            pa.array([EVENT], pa.int8()),
            pa.array([now], pa.int64()),
            pa.array([now + 1], pa.int64()),
            pa.array([LOG_CODEC.encode(notice)], pa.binary()),
        ]
        batch = pa.RecordBatch.from_arrays(columns, schema=self._stream.schema)
        try:
            self._stream.append(batch)
        except StoreError:  # told of an earlier flush, which is tried again with this
            self._stream.append(batch)

    def replay(self) -> list[Notice]:
        """All notices of the job managers before this one, in order."""
        return [notice for _, notice in _read(self._store, self._parts)]

    def flush(self) -> None:
        """Make all notices so far durable.

        Raises:
            StoreError: the store failed FLUSHES_MAX times, each after its own retries.
        """
        for _ in range(FLUSHES_MAX - 1):
            with contextlib.suppress(StoreError):
                self._stream.flush(self._flush_wait_s)
                return
        self._stream.flush(self._flush_wait_s)

    def close(self, *, flush: bool = True) -> None:
        """Flush, unless told not to, and close."""
        self._stream.close(flush=flush)


def fence(root: JobRoot) -> list[LogPart]:
    """Decide, as the owner of the root, which notices of its predecessors count, and give these."""
    assert root.epoch, "owns nothing"
    parts = parts_in_force(root.store)
    ends = {str(part.epoch): part.end for part in parts}
    root.store.put(f"{folder_of(root.epoch)}/{FENCE}", json_document({"ends": ends}))
    return parts


def read_notices(store: BlobStore) -> Iterator[tuple[int, Notice]]:
    """The durable notices below a root, in order, each with its time (us UTC)."""
    return _read(store, parts_in_force(store))


def parts_in_force(store: BlobStore) -> list[LogPart]:
    """What a job manager that begins now goes by, oldest first.

    Raises:
        BrokenFileError: a fence is gone or broken, so nobody knows which notices count.
    """
    paths = store.list(NOTICES)
    logs = {path.split("/")[1] for path in paths if parse_segment_name(path.rpartition("/")[2])}
    fenced = {path.split("/")[1] for path in paths if path.endswith(f"/{FENCE}")}
    unfenced = sorted(name for name in logs - fenced if name.isdecimal())
    if unfenced:
        raise _broken_fence(store, f"{NOTICES}/{unfenced[-1]}/{FENCE}", "it is gone")
    if not fenced:  # a root without epochs
        return [LogPart(0, _durable_end(store, 0))]
    newest = max(fenced)
    epoch, path = int(newest), f"{NOTICES}/{newest}/{FENCE}"
    try:
        told = read_json_document(store.get(path))["ends"]
        ends = {int(before): int(end) for before, end in told.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        is_document = not isinstance(error, BrokenDocumentError)
        reason = "it names no epochs" if is_document else str(error)
        raise _broken_fence(store, path, reason) from error
    before = [LogPart(epoch, end) for epoch, end in sorted(ends.items())]
    return [*before, LogPart(epoch, _durable_end(store, epoch))]


def _broken_fence(store: BlobStore, path: str, reason: str) -> BrokenFileError:
    what = "how much of the earlier logs counts"
    return BrokenFileError(f"{display_uri(store.uri)}/{path}", reason, what)


def folder_of(epoch: int) -> str:
    """Where the notices of an epoch are; 0: those of a root from before there were epochs."""
    return f"{NOTICES}/{epoch:010d}" if epoch else NOTICES


def _durable_end(store: BlobStore, epoch: int) -> int:
    log = DurableLog(store.child(folder_of(epoch)), NOTICES)
    for hole in log.holes():
        raise _broken_log(store, epoch, f"notices {hole.lo} to {hole.hi - 1} are gone")
    return log.end()


def _broken_log(store: BlobStore, epoch: int, reason: str) -> BrokenFileError:
    path = f"{display_uri(store.uri)}/{folder_of(epoch)}"
    return BrokenFileError(path, reason, "the log of what was done")


def _read(store: BlobStore, parts: list[LogPart]) -> Iterator[tuple[int, Notice]]:
    for part in parts:
        cursor = SegmentCursor(DurableLog(store.child(folder_of(part.epoch)), NOTICES))
        seq = 0
        while seq < part.end:
            try:
                items = cursor.read(seq, min(part.end - seq, _ITEMS_MAX))
            except CorruptSegmentError as error:
                raise _broken_log(store, part.epoch, str(error)) from error
            if items is None:
                raise _broken_log(store, part.epoch, f"notice {seq} is gone")
            rows = only_events(items.batch)
            for at_us, data in zip(rows.column(VS), rows.column("notice"), strict=True):
                yield at_us.as_py(), LOG_CODEC.decode(data.as_py())
            seq = items.next_seq
        cursor.close()
