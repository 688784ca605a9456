"""Journal: numbered blobs below a folder, each created by one instance only.

A vertex writes an entry before any effect of it may become visible: the productions of a strong
vertex, the values that user code drew from outside. The numbers carry no epoch, so all instances of
a vertex share one history: the first to create a number decides it, and an instance that comes too
late stops.

Invariants: (1) an entry, once created, never changes; (2) ``append`` succeeds only if the entry is
this one and no later entry exists, so an instance that woke up after its successor cannot continue
even if entries have been collected since; (3) the newest entry is never deleted while an instance
may still append; (4) a journal deletes nothing: a later entry may rest on an earlier one. Source:
MillWheel VLDB'13, "strong productions", where a sequencer token in the store does what the
exclusive creation of the next number does here.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from rvertex.errors import CorruptJournalError, OvertakenError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rstream.store.protocol import BlobStore

#: Folders of journals, and of the parts of states that productions name.
VALUES, PRODUCTIONS, STATES = "values", "productions", "production-state"
#: What the sources of live logs decided.
INTAKE = "intake"
#: A writer that died leaves this only where there are no hard links
#: (`rstream.store.blobs._link_new`).
UNFILLED = (
    "it is empty: put it back from a copy, or run the query again with another --root (only if the "
    "root's file system has no hard links may a writer have died before it filled the file)"
)
_CHECKSUM_BYTES = 16
_DIGITS = 16


class Journal:
    """The entries below ``folder``; its calls do I/O and belong in a background thread."""

    def __init__(self, store: BlobStore, folder: str) -> None:
        self._store = store
        self._folder = folder

    def name(self, number: int) -> str:
        """Where an entry lies below the job's root."""
        assert 0 <= number < 10**_DIGITS, number
        return f"{self._folder}/{number:0{_DIGITS}d}"

    def append(self, number: int, data: bytes) -> str:
        """Create entry ``number``; gives its name once it is durable.

        Raises:
            OvertakenError: another instance has created it, or a later one.
        """
        name = self.name(number)
        if not self._store.put_new(name, data + _checksum(data)):
            raise OvertakenError(self._folder, number)
        if self.numbers()[-1:] != [number]:
            # A successor has read it and gone on; or it stands where one was collected, and nobody
            # reads it. From here they look the same, so it stays.
            raise OvertakenError(self._folder, number)
        return name

    def numbers(self) -> list[int]:
        """Numbers of all entries that were not deleted, in order."""
        return [int(path.rpartition("/")[2]) for path in self._store.list(self._folder)]

    def read(self, numbers: Sequence[int]) -> list[bytes]:
        """These entries.

        Raises:
            CorruptJournalError: one is gone, or not what was written.
        """
        names = [self.name(number) for number in numbers]
        entries: list[bytes] = []
        for name, data in zip(names, self._store.get_many(names), strict=True):
            if data is None:
                raise CorruptJournalError(name, "the file is gone")
            if not data:
                raise CorruptJournalError(name, UNFILLED)
            entry = data[:-_CHECKSUM_BYTES]
            if _checksum(entry) != data[-_CHECKSUM_BYTES:]:
                raise CorruptJournalError(name, "its checksum does not match")
            entries.append(entry)
        return entries


def is_shared(path: str) -> bool:
    """Whether all instances of a vertex rest on this file, whoever made it known."""
    return path.partition("/")[0] in (VALUES, PRODUCTIONS, STATES, INTAKE)


def _checksum(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=_CHECKSUM_BYTES).digest()
