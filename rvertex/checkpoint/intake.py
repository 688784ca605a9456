"""Intake: the journal of what a source vertex of live logs decided by chance or by the clock.

A blob of the journal ``intake/<vertex>`` holds one or more entries
(:mod:`rvertex.sources.logs.entries`), each with its number among the entries of its partition. An
instance begins with a blob of its own without entries: whatever a predecessor still tries to write
is refused from then on. So a predecessor that hangs cannot decide anything behind the successor's
back. A blob says which instance wrote it: no two are equal, as a store takes a blob that is put
again for the same.

Invariants: (1) an entry has no effect before it is durable; (2) at most one blob is on its way;
(3) a blob is named, and so deleted, with the first checkpoint in which all its entries took effect,
but never the newest, which is left to the instance that comes next; (4) a state says which blob is
the first that it needs: no earlier one is read, as it may be what a zombie wrote in the place of
one that was deleted. Source: ADR 32.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rvertex.checkpoint.journal import INTAKE, Journal
from rvertex.errors import CorruptJournalError, OvertakenError
from rvertex.sources.logs.entries import LogEntry, decode_entries, encode_entries

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future

    from rstream.log.background import Background
    from rstream.store.protocol import BlobStore
    from rvertex.vertex.log_input import LogInput
    from rvertex.vertex.spec import VertexSpec

#: Instances that may begin at the same time; with more, the one that is opened gives up.
_TRIES_MAX = 8
_EPOCH_BYTES = 8


class Intake:
    """The journal of one instance. Owned by the host's thread."""

    def __init__(
        self,
        journal: Journal,
        log: LogInput,
        epoch: int,
        number: int,
        blobs: Sequence[tuple[int, ...]],
    ) -> None:
        """``number``: of the next blob. ``blobs``: ``(number, entries of each partition)``.

        The entries of each partition: how many there are up to that blob.
        """
        self._journal, self._log = journal, log
        self._epoch, self._number = epoch, number
        #: Blobs that no announced checkpoint has named, as ``blobs``.
        self._unnamed = list(blobs)
        self._told = list(blobs[-1][1:]) if blobs else [c.entries for c in log.channels]
        self._pending: tuple[tuple[LogEntry, ...], Future[str]] | None = None

    @property
    def is_busy(self) -> bool:
        """Whether entries are on their way."""
        return self._pending is not None

    def holds(self, partition: int) -> bool:
        """Whether the rows of a partition wait for an entry of theirs."""
        return self._pending is not None and any(
            entry.partition == partition for entry in self._pending[0]
        )

    def next_index(self, partition: int) -> int:
        """The number of the next entry of a partition."""
        return self._told[partition]

    def write(
        self, entries: Sequence[LogEntry], background: Background, wake: Callable[[], None]
    ) -> None:
        """Make entries durable; the next call of :meth:`durable` that finds them so gives them."""
        assert self._pending is None, self._pending
        for entry in entries:
            assert entry.index == self._told[entry.partition], (entry, self._told)
            self._told[entry.partition] += 1
        number, data = self._number, _encode(self._epoch, entries)
        self._number += 1
        self._unnamed.append((number, *self._told))
        stored = background.submit(lambda: self._journal.append(number, data))
        self._pending = tuple(entries), stored
        stored.add_done_callback(lambda _: wake())

    def durable(self) -> tuple[LogEntry, ...]:
        """Entries that have become durable since the last call; they take effect now.

        Raises:
            OvertakenError: another instance has begun.
            OperatingError: the store failed.
        """
        if self._pending is None or not self._pending[1].done():
            return ()
        entries, stored = self._pending
        stored.result()
        self._pending = None
        self._log.decide(entries, self._unnamed[-1][0])
        return entries

    def names(self) -> tuple[str, ...]:
        """The blobs whose entries all took effect, but not the newest."""
        first = self._log.first_blob
        return tuple(self._journal.name(n) for n, *_ in self._unnamed[:-1] if n < first)

    def announced(self, names: Sequence[str]) -> None:
        """A checkpoint that names these is known to the job manager."""
        del self._unnamed[: len(names)]


def open_intake(spec: VertexSpec, log: LogInput, store: BlobStore, epoch: int) -> Intake:
    """The journal of an instance that begins where ``log`` stands; tells ``log`` its entries.

    Raises:
        CorruptJournalError: entries are damaged or gone.
        OvertakenError: many other instances begin at the same time.
    """
    journal = Journal(store, f"{INTAKE}/{spec.id}")
    for _ in range(_TRIES_MAX - 1):
        try:
            return _open(journal, log, epoch)
        except OvertakenError:
            continue  # what the other has written is to be read
    return _open(journal, log, epoch)


def _open(journal: Journal, log: LogInput, epoch: int) -> Intake:
    numbers = journal.numbers()
    number = numbers[-1] + 1 if numbers else 0
    journal.append(number, _encode(epoch, []))
    told = [channel.entries for channel in log.channels]
    # The newest one of a predecessor, which it never named; or what one that hung wrote where a
    # blob had been deleted. Neither is read.
    blobs: list[tuple[int, ...]] = [(n, *told) for n in numbers if n < log.first_blob]
    numbers = [n for n in numbers if n >= log.first_blob]
    for at, data in zip(numbers, journal.read(numbers), strict=True):
        entries = decode_blob(data)
        for entry in entries:
            if entry.index > told[entry.partition]:
                raise CorruptJournalError(journal.name(at), "an entry before it is gone")
            told[entry.partition] = max(told[entry.partition], entry.index + 1)
        log.decide(entries, at)
        blobs.append((at, *told))
    return Intake(journal, log, epoch, number + 1, [*blobs, (number, *told)])


def decode_blob(data: bytes) -> list[LogEntry]:
    """The entries of a blob of the journal."""
    return decode_entries(data[_EPOCH_BYTES:])


def _encode(epoch: int, entries: Sequence[LogEntry]) -> bytes:
    return epoch.to_bytes(_EPOCH_BYTES, "little") + encode_entries(entries)
