"""Intake: the journal of a source vertex of live logs, for decisions that a replay must repeat.

A blob of the journal ``intake/<vertex>`` contains one or more entries
(:mod:`rvertex.sources.logs.entries`), each numbered within its partition. An instance starts by
writing a blob without entries. This takes the next blob number, so any later write of a previous
instance that hangs fails. Each blob contains the epoch of its writer, so that no two blobs are
equal: a store treats a repeated put of equal bytes as the same write.

Invariants: (1) an entry has no effect before it is durable; (2) at most one blob is being written;
(3) a blob is named by, and so deleted with, the first checkpoint in which all its entries took
effect. The newest blob is never named and is left to the next instance; (4) a state contains the
number of the first blob it needs. Earlier blobs are not read, because an outdated instance may have
written one in place of a deleted blob. Source: ADR 32.
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

#: Most attempts to start while other instances start at the same time; then the start fails.
_TRIES_MAX = 8
_EPOCH_BYTES = 8


class Intake:
    """The journal of one instance. Used by the host's thread."""

    def __init__(
        self,
        journal: Journal,
        log: LogInput,
        epoch: int,
        number: int,
        blobs: Sequence[tuple[int, ...]],
    ) -> None:
        """Continue the journal; ``number`` is the number of the next blob.

        ``blobs`` has, per existing blob, its number and the entries of each partition up to its
        end.
        """
        self._journal, self._log = journal, log
        self._epoch, self._number = epoch, number
        #: Blobs that no announced checkpoint has named, in the format of ``blobs``.
        self._unnamed = list(blobs)
        self._written = list(blobs[-1][1:]) if blobs else [c.entries for c in log.channels]
        self._pending: tuple[tuple[LogEntry, ...], Future[str]] | None = None

    @property
    def is_busy(self) -> bool:
        """Whether entries are being written."""
        return self._pending is not None

    def holds(self, partition: int) -> bool:
        """Return whether an entry of the partition is being written, so that its rows must wait."""
        return self._pending is not None and any(
            entry.partition == partition for entry in self._pending[0]
        )

    def next_index(self, partition: int) -> int:
        """Return the number of the next entry of a partition."""
        return self._written[partition]

    def write(
        self, entries: Sequence[LogEntry], background: Background, wake: Callable[[], None]
    ) -> None:
        """Write entries in the background; :meth:`durable` returns them once they are durable."""
        assert self._pending is None, self._pending
        for entry in entries:
            assert entry.index == self._written[entry.partition], (entry, self._written)
            self._written[entry.partition] += 1
        number, data = self._number, _encode(self._epoch, entries)
        self._number += 1
        self._unnamed.append((number, *self._written))
        stored = background.submit(lambda: self._journal.append(number, data))
        self._pending = tuple(entries), stored
        stored.add_done_callback(lambda _: wake())

    def durable(self) -> tuple[LogEntry, ...]:
        """Return entries that became durable since the last call; they take effect now.

        Raises:
            OvertakenError: another instance has started.
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
        """Return the blobs whose entries have all taken effect, except the newest blob."""
        first = self._log.first_blob
        return tuple(self._journal.name(n) for n, *_ in self._unnamed[:-1] if n < first)

    def announced(self, names: Sequence[str]) -> None:
        """Record that a checkpoint with these blobs was announced."""
        del self._unnamed[: len(names)]


def open_intake(spec: VertexSpec, log: LogInput, store: BlobStore, epoch: int) -> Intake:
    """Open the journal of an instance at the position of ``log``; pass its entries to ``log``.

    Raises:
        CorruptJournalError: entries are damaged or missing.
        OvertakenError: many other instances start at the same time.
    """
    journal = Journal(store, f"{INTAKE}/{spec.id}")
    for _ in range(_TRIES_MAX - 1):
        try:
            return _open(journal, log, epoch)
        except OvertakenError:
            continue  # first read the entries that the other instance has written
    return _open(journal, log, epoch)


def _open(journal: Journal, log: LogInput, epoch: int) -> Intake:
    numbers = journal.numbers()
    number = numbers[-1] + 1 if numbers else 0
    journal.append(number, _encode(epoch, []))
    applied = [channel.entries for channel in log.channels]
    # Entries below these blobs are not read. They are the newest entry of an earlier instance,
    # which no checkpoint named, or were written in place of a deleted entry by an instance that
    # hung.
    blobs: list[tuple[int, ...]] = [(n, *applied) for n in numbers if n < log.first_blob]
    numbers = [n for n in numbers if n >= log.first_blob]
    for at, data in zip(numbers, journal.read(numbers), strict=True):
        entries = decode_blob(data)
        for entry in entries:
            if entry.index > applied[entry.partition]:
                raise CorruptJournalError(journal.name(at), "an earlier entry is missing")
            applied[entry.partition] = max(applied[entry.partition], entry.index + 1)
        log.decide(entries, at)
        blobs.append((at, *applied))
    return Intake(journal, log, epoch, number + 1, [*blobs, (number, *applied)])


def decode_blob(data: bytes) -> list[LogEntry]:
    """Decode the entries of a blob of the journal."""
    return decode_entries(data[_EPOCH_BYTES:])


def _encode(epoch: int, entries: Sequence[LogEntry]) -> bytes:
    return epoch.to_bytes(_EPOCH_BYTES, "little") + encode_entries(entries)
