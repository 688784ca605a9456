"""Journal: numbered blobs below a folder, each created by one instance only.

A vertex writes an entry before any effect of it becomes visible, such as the productions of a
strong vertex or the recorded values of user code. The numbers contain no epoch, so all instances of
a vertex share one history: the first instance to create a number owns it, and an instance that is
too late stops.

Invariants: (1) an entry never changes once created; (2) ``append`` succeeds only if it created the
entry and no later entry exists. So an instance that resumes after its successor started cannot
continue, even if entries were deleted since; (3) the newest entry is never deleted while an
instance may still append; (4) a journal deletes entries only on request, because a later entry may
depend on an earlier one. Source: MillWheel VLDB'13, "strong productions". There a sequencer token
in the store has the role of the exclusive creation of the next number here.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from rvertex.errors import CorruptJournalError, OvertakenError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rstream.store.protocol import BlobStore

#: Folders of journals, and of the state parts that productions name.
VALUES, PRODUCTIONS, STATES = "values", "productions", "production-state"
#: Folder of the journals of sources of live logs.
INTAKE = "intake"
#: The placeholder that a writer which died leaves behind, in file systems without hard links
#: (`rstream.store.blobs._link_new`).
UNFILLED = (
    "it is empty: restore it from a copy, or run the query again with another --root (on "
    "a file system without hard links, a writer that died may leave an empty file)"
)
_CHECKSUM_BYTES = 16
_DIGITS = 16


class Journal:
    """The entries below ``folder``. Its methods do I/O, so call them in a background thread."""

    def __init__(self, store: BlobStore, folder: str) -> None:
        self._store = store
        self._folder = folder

    def name(self, number: int) -> str:
        """Return the path of an entry below the job's root."""
        assert 0 <= number < 10**_DIGITS, number
        return f"{self._folder}/{number:0{_DIGITS}d}"

    def append(self, number: int, data: bytes) -> str:
        """Create entry ``number``; return its name once it is durable.

        Raises:
            OvertakenError: another instance has created it or a later entry.
        """
        name = self.name(number)
        if not self._store.put_new(name, data + _checksum(data)):
            raise OvertakenError(self._folder, number)
        if self.numbers()[-1:] != [number]:
            # Either a successor has read this entry, or it takes the place of a deleted entry and
            # is never read. Both cases look the same here, so the entry is not deleted.
            raise OvertakenError(self._folder, number)
        return name

    def delete_below(self, number: int) -> None:
        """Delete the entries below ``number``, on which no later entry may depend."""
        for earlier in self.numbers():
            if earlier < number:
                self._store.delete(self.name(earlier))

    def numbers(self) -> list[int]:
        """Return the numbers of all existing entries, in order."""
        return [int(path.rpartition("/")[2]) for path in self._store.list(self._folder)]

    def read(self, numbers: Sequence[int]) -> list[bytes]:
        """Read these entries.

        Raises:
            CorruptJournalError: an entry is missing or damaged.
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
    """Return whether all instances of a vertex need this file, regardless of which announced it."""
    return path.partition("/")[0] in (VALUES, PRODUCTIONS, STATES, INTAKE)


def _checksum(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=_CHECKSUM_BYTES).digest()
