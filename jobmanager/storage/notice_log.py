"""The log of the job managers' notices, which a successor replays.

Every job manager writes its own rStream, ``notices/<epoch>``. Before its first notice it stores a
*fence* there: the earlier epochs, and the number of notices of each that it has read. The whole log
consists of the notices that the newest fence lists, then all notices of its epoch. So notices that
a replaced but live predecessor still flushes are not part of the log, and overwrite no file.

The log is divided into *generations* (ADR 34). A long log gets a copy of the job's state. Once the
copy is durable, and the job manager has checked again that it owns the root, it stores a
*beginning*: a file that names the copy. A reader starts at the newest beginning. All notices before
it are deleted.

Notices become durable in the background; :meth:`NoticeLog.flush` waits until they are.

Invariants: (1) only the owner of an epoch writes to its folder; (2) the owner stores one fence,
before its first decision; (3) an epoch without a fence has no notices; (4) the copy that a
beginning names is durable, and no notice is deleted before the beginning is durable.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from jobmanager.errors import BrokenFileError
from jobmanager.state.messages import LOG_CODEC, JobResumed, StateCopied
from jobmanager.storage.documents import (
    BrokenDocumentError,
    json_document,
    read_json_document,
)
from jobmanager.storage.root import EPOCHS, NOTICES, display_uri, epoch_name
from rstream import RStream
from rstream.errors import CorruptSegmentError, InvalidMessageError, StoreError
from rstream.items.batch import EVENT, VS, only_events
from rstream.log.durable import DurableLog
from rstream.log.reader import SegmentCursor
from rstream.store.segment_names import parse_segment_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jobmanager.config import JobConfig
    from jobmanager.state.messages import Notice
    from jobmanager.storage.root import JobRoot
    from rstream.clock import Clock
    from rstream.log.background import Background
    from rstream.store.protocol import BlobStore

FLUSHES_MAX = 3
FENCE = "_follows"
BEGINNING = "_begins"
#: Most attempts of a read. A predecessor that is being replaced may delete a file before it is
#: read.
READS_MAX = 3
_ITEMS_MAX = 4_096
_NOTICE_PAYLOAD = pa.schema([pa.field("notice", pa.binary())])


class LogPart(NamedTuple):
    """The notices ``[begin, end)`` of an epoch, which are part of the log."""

    epoch: int
    begin: int
    end: int


class _Entry(NamedTuple):
    at_us: int
    notice: Notice
    size_bytes: int


class NoticeLog:
    """The log as one job manager sees it: its predecessors' notices, and its own."""

    def __init__(
        self, root: JobRoot, clock: Clock, config: JobConfig, background: Background | None
    ) -> None:
        """Open the log and store the fence. The caller must own the root."""
        self._store = root.store
        self._clock = clock
        self._flush_wait_s = config.notice_flush_wait_s
        self._notices_max, self._bytes_max = config.log_notices_max, config.log_bytes_max
        self._epoch = root.epoch
        self._parts = fence(root)
        #: Number and bytes of notices since the newest copy, including the copy and replayed
        #: notices.
        self._notices = self._bytes = 0
        self._copy_bytes = 0
        #: The seq of a copy that is in the log, but is not yet its beginning; else None.
        self._copy_seq: int | None = None
        self._begun_with: tuple[StateCopied, ...] = ()
        self._stream = RStream.open(
            root.store.child(folder_of(root.epoch)),
            _NOTICE_PAYLOAD,
            stream_id=NOTICES,
            clock=clock,
            background=background,
        )

    @property
    def notices(self) -> int:
        """Number of notices that a successor would have to read."""
        return self._notices

    @property
    def skips_names(self) -> bool:
        """Whether a change began the log. Then a successor skips the names after the copy.

        It does so even if no later notice is durable; see :meth:`replay`.
        """
        return bool(self._begun_with)

    def append(self, notice: Notice) -> None:
        """Add a notice; it becomes durable in the background."""
        data = LOG_CODEC.encode(notice)
        now = self._clock.now_us()
        columns = [
            pa.array([EVENT], pa.int8()),
            pa.array([now], pa.int64()),
            pa.array([now + 1], pa.int64()),
            pa.array([data], pa.binary()),
        ]
        batch = pa.RecordBatch.from_arrays(columns, schema=self._stream.schema)
        try:
            self._stream.append(batch)
        except StoreError:  # an earlier flush failed; the next repeats it with this notice
            self._stream.append(batch)
        self._count(notice, len(data))

    def replay(self) -> list[Notice]:
        """Return the notices of predecessors: the newest copy of the state and all later ones.

        Without a copy, return all notices. Called before any other notice is added. If a change
        began the log and no notice followed, its job manager may have called the hosts of the next
        one. So another takeover is logged, which skips their names.
        """
        if self._begun_with:
            return list(self._begun_with)
        entries = _read_again(
            self._store,
            self._parts,
            lambda: [part for part in parts_in_force(self._store) if part.epoch < self._epoch],
        )
        for entry in entries:
            self._count(entry.notice, entry.size_bytes)
        notices = [entry.notice for entry in entries]
        if notices and isinstance(copy := notices[-1], StateCopied):
            skipped = JobResumed(0, self._clock.now_us(), copy.retain_us)
            self.append(skipped)
            notices.append(skipped)
        return notices

    def _count(self, notice: Notice, size_bytes: int) -> None:
        if isinstance(notice, StateCopied):
            self._notices = self._bytes = 0
            self._copy_bytes = size_bytes
        self._notices += 1
        self._bytes += size_bytes

    @property
    def is_long(self) -> bool:
        """Return whether the log is long enough to be replaced by a copy of the state.

        The limit grows with the size of copies, so that most written bytes are notices.
        """
        if self._copy_seq is not None:
            return False
        bytes_max = max(self._bytes_max, 2 * self._copy_bytes)
        return self._notices > self._notices_max or self._bytes > bytes_max

    def begin_with(self, copy: StateCopied) -> None:
        """Begin the log with a durable copy of the state instead of predecessors' notices."""
        self.append_copy(copy)
        self.flush()
        self._begun_with = (copy,)

    def append_copy(self, copy: StateCopied) -> None:
        """Add a copy of the state. Once it is durable, :meth:`truncate` may be called."""
        seq = self._stream.next_seq
        self.append(copy)
        self._copy_seq = seq

    @property
    def has_durable_copy(self) -> bool:
        """Whether a copy is durable. *Afterwards* the caller must check that it owns the root."""
        return self._copy_seq is not None and self._stream.durable_seq > self._copy_seq

    def truncate(self) -> list[str]:
        """Begin the log with the durable copy. Return the files that have become obsolete.

        Raises:
            StoreError: the store failed; the call may be repeated.
        """
        assert self._copy_seq is not None, "the log has no copy of the state"
        path = f"{folder_of(self._epoch)}/{BEGINNING}"
        self._store.put(path, json_document({"seq": self._copy_seq}))
        self._stream.garbage_collect(self._copy_seq)
        self._copy_seq = None
        own_folder = f"{folder_of(self._epoch)}/"
        claims = [claim for claim in self._store.list(EPOCHS) if claim < epoch_name(self._epoch)]
        return [*claims, *(p for p in self._store.list(NOTICES) if not p.startswith(own_folder))]

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
        """Flush, unless ``flush`` is False, and close."""
        self._stream.close(flush=flush)


def fence(root: JobRoot) -> list[LogPart]:
    """Decide which notices of predecessors belong to the log, durably, and return them.

    The caller must own the root.
    """
    assert root.epoch, "owns nothing"
    parts = _in_force_again(root.store)
    ends = {str(part.epoch): part.end for part in parts}
    root.store.put(f"{folder_of(root.epoch)}/{FENCE}", json_document({"ends": ends}))
    return parts


def read_notices(store: BlobStore) -> list[tuple[int, Notice]]:
    """Return the durable notices of a root's log, in order, each with its time (us UTC)."""
    parts = _in_force_again(store)
    entries = _read_again(store, parts, lambda: parts_in_force(store))
    return [(entry.at_us, entry.notice) for entry in entries]


def parts_in_force(store: BlobStore) -> list[LogPart]:
    """Return the parts of the log for a job manager that starts now, oldest first.

    Raises:
        BrokenFileError: a fence or a beginning is missing or broken, so it is unknown which notices
            are part of the log.
    """
    paths = store.list(NOTICES)
    logs = {path.split("/")[1] for path in paths if parse_segment_name(path.rpartition("/")[2])}
    fenced = {path.split("/")[1] for path in paths if path.endswith(f"/{FENCE}")}
    newest = max(fenced, default="")
    unfenced = [name for name in logs if name.isdecimal() and name > newest]
    if unfenced:
        raise _broken(store, f"{NOTICES}/{max(unfenced)}/{FENCE}", "it is gone")
    if not fenced:  # a root without epochs
        return [LogPart(0, 0, _durable_end(store, 0))]
    path = f"{NOTICES}/{newest}/{FENCE}"
    try:
        ends = {int(epoch): int(end) for epoch, end in _document(store, path)["ends"].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _broken(store, path, "it names no epochs") from error
    ends[int(newest)] = _durable_end(store, int(newest))
    begun = [epoch for epoch in ends if f"{folder_of(epoch)}/{BEGINNING}" in paths]
    first = max(begun, default=0)
    begin = _begin(store, first, ends[first]) if begun else 0
    later = [LogPart(epoch, 0, end) for epoch, end in sorted(ends.items()) if epoch > first]
    return [LogPart(first, begin, ends[first]), *later] if begun else _from_zero(ends)


def _from_zero(ends: dict[int, int]) -> list[LogPart]:
    return [LogPart(epoch, 0, end) for epoch, end in sorted(ends.items())]


def _begin(store: BlobStore, epoch: int, end: int) -> int:
    """Return the seq of the copy that the newest beginning names; 0 without a beginning."""
    path = f"{folder_of(epoch)}/{BEGINNING}"
    seq = _document(store, path).get("seq")
    if not isinstance(seq, int):
        raise _broken(store, path, "it names no notice")
    if not 0 <= seq < end:
        raise _broken_log(store, epoch, f"it begins with notice {seq}, which is gone")
    return seq


def _document(store: BlobStore, path: str) -> dict[str, Any]:
    try:
        return read_json_document(store.get(path))
    except BrokenDocumentError as error:
        raise _broken(store, path, str(error)) from error
    except FileNotFoundError as error:
        raise _broken(store, path, "it is gone") from error


def _in_force_again(store: BlobStore) -> list[LogPart]:
    """Return the parts of the log; retry if its files change during the read."""
    for _ in range(READS_MAX - 1):
        with contextlib.suppress(BrokenFileError):
            return parts_in_force(store)
    return parts_in_force(store)


def _read_again(
    store: BlobStore, parts: list[LogPart], parts_now: Callable[[], list[LogPart]]
) -> list[_Entry]:
    """Return the notices of these parts, or of the new parts if the log was shortened since."""
    for _ in range(READS_MAX - 1):
        try:
            return list(_read(store, parts))
        except BrokenFileError:
            listed = parts_now()
            if listed == parts:
                raise
            parts = listed
    return list(_read(store, parts))


def _broken(store: BlobStore, path: str, reason: str) -> BrokenFileError:
    what = "how far the earlier logs are valid"
    return BrokenFileError(f"{display_uri(store.uri)}/{path}", reason, what)


def folder_of(epoch: int) -> str:
    """Return the folder of an epoch's notices. Epoch 0: a root that is older than epochs."""
    return f"{NOTICES}/{epoch:010d}" if epoch else NOTICES


def _durable_end(store: BlobStore, epoch: int) -> int:
    log = DurableLog(store.child(folder_of(epoch)), NOTICES)
    for hole in log.holes():
        raise _broken_log(store, epoch, f"notices {hole.lo} to {hole.hi - 1} are gone")
    return log.end()


def _broken_log(store: BlobStore, epoch: int, reason: str) -> BrokenFileError:
    path = f"{display_uri(store.uri)}/{folder_of(epoch)}"
    return BrokenFileError(path, reason, "the log of the job's events")


def _read(store: BlobStore, parts: list[LogPart]) -> Iterator[_Entry]:
    for part in parts:
        cursor = SegmentCursor(DurableLog(store.child(folder_of(part.epoch)), NOTICES))
        seq = part.begin
        while seq < part.end:
            try:
                items = cursor.read(seq, min(part.end - seq, _ITEMS_MAX))
            except CorruptSegmentError as error:
                raise _broken_log(store, part.epoch, str(error)) from error
            if items is None:
                raise _broken_log(store, part.epoch, f"notice {seq} is gone")
            rows = only_events(items.batch)
            for at_us, data in zip(rows.column(VS), rows.column("notice"), strict=True):
                record = data.as_py()
                try:
                    notice = LOG_CODEC.decode(record)
                except InvalidMessageError as error:
                    raise _broken_log(store, part.epoch, error.reason) from error
                yield _Entry(at_us.as_py(), notice, len(record))
            seq = items.next_seq
        cursor.close()
