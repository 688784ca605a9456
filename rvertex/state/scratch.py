"""Scratch files: immutable rows are written to a local disk, and the file is mapped into memory.

A file has no name after it was written: it is opened, mapped and unlinked, so a killed host leaves
no file behind. The kernel frees its space when no array refers to the mapping any longer.

Invariants: (1) a stored batch equals the original; (2) ``used_bytes`` never exceeds
``limit_bytes``; (3) a failed write leaves the original rows unchanged.
"""

from __future__ import annotations

import bisect
import errno
import itertools
import mmap
import os
import tempfile
import threading
import weakref
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rvertex.state.errors import ScratchFullError, ScratchUnusableError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import BinaryIO

_PREFIX = "streamscope-state-"
_FULL = {errno.ENOSPC, errno.EDQUOT}
_TOO_MANY = {errno.EMFILE, errno.ENFILE}
_MORE_FILES = "each mapped file stays open: allow more open files (ulimit -n)"


class Usage:
    """The files of one owner, such as a vertex, that are in use, and their bytes."""

    __slots__ = ("files", "nbytes")

    def __init__(self) -> None:
        self.files = self.nbytes = 0


class Scratch:
    """Files in ``folder`` (None: the system's folder for temporary files).

    ``limit_bytes``: most bytes of all files of this host together; None: only the disk limits them.
    """

    def __init__(self, folder: str | None = None, limit_bytes: int | None = None) -> None:
        self.folder = folder or tempfile.gettempdir()
        self.limit_bytes = limit_bytes
        # Reentrant: Python's collector may free a file, which takes the lock, in a thread that
        # already has the lock.
        self._lock = threading.RLock()
        self._used_bytes = self._written_bytes = 0
        #: The start addresses of the mapped files, sorted; and the end of each.
        self._starts: list[int] = []
        self._ends: dict[int, int] = {}
        #: By start address: the number of the newest mapping. The system may reuse an address
        #: before the end of the old mapping is recorded here.
        self._owners: dict[int, int] = {}
        self._numbers = itertools.count()
        self._maps: weakref.WeakSet[mmap.mmap] = weakref.WeakSet()
        #: Bytes of mapped files that stayed resident after pages were dropped, such as code of
        #: libraries.
        self._resident_bytes = resident_file_bytes()

    @property
    def used_bytes(self) -> int:
        """Bytes of the files that are still in use."""
        return self._used_bytes

    @property
    def written_bytes(self) -> int:
        """Bytes written so far, including deleted files."""
        return self._written_bytes

    @property
    def files(self) -> int:
        """Number of files in use."""
        return len(self._starts)

    def store(
        self, batches: Sequence[pa.RecordBatch], usage: Usage | None = None
    ) -> list[pa.RecordBatch]:
        """Return the same batches (at least one, all of one schema), mapped from a new file.

        ``usage`` counts the file while it is in use.

        Raises:
            ScratchFullError: the limit is reached, or the disk is full.
            ScratchUnusableError: the folder cannot be written to.
        """
        nbytes = sum(batch.nbytes for batch in batches)
        mapped = self._write(nbytes, lambda file: _write_stream(file, batches), usage)
        # Zero copy: the reader reads only the messages' headers.
        mapped_batches = list(pa.ipc.open_stream(mapped))
        assert [b.num_rows for b in mapped_batches] == [b.num_rows for b in batches]
        return mapped_batches

    def store_bytes(self, data: bytes | memoryview, usage: Usage | None = None) -> pa.Buffer:
        """Return the same bytes, mapped from a new file. Raises as :meth:`store`."""
        return self._write(len(data), lambda file: file.write(data), usage)

    def store_array(self, array: np.ndarray, usage: Usage | None = None) -> np.ndarray:
        """Return the same values, mapped from a new file.

        The result is writable if ``array`` is. Raises as `store`.
        """
        writes = array.flags.writeable
        data = pa.py_buffer(np.ascontiguousarray(array))
        mapped = self._write(data.size, lambda file: file.write(data), usage, writes=writes)
        return np.frombuffer(mapped, array.dtype).reshape(array.shape)

    def map_file(self, path: str, usage: Usage | None = None) -> pa.Buffer | None:
        """Map a file that this object did not write; None if it is empty, missing or not local.

        The file's owner may delete it while it is mapped. A network disk may not allow that, so
        only files on the disk of ``folder`` are mapped.
        """
        try:
            with open(path, "rb") as file:
                info = os.fstat(file.fileno())
                is_near = info.st_dev == os.stat(self.folder).st_dev
                if not is_near or not info.st_size or self._is_over(info.st_size):
                    return None
                return self._mapped(file.fileno(), info.st_size, usage)
        except OSError:
            return None

    def drop_pages(self, resident_max: int) -> None:
        """Drop mapped pages if more than ``resident_max`` bytes of these files are resident.

        They count as memory of the process, although the system could drop them at any time. The
        next read of such a page finds it in the page cache, or on the disk.
        """
        if self._used_bytes <= resident_max:
            return
        if resident_file_bytes() - self._resident_bytes <= resident_max:
            return
        with self._lock:
            maps = list(self._maps)
        for pages in maps:
            pages.madvise(mmap.MADV_DONTNEED)
        self._resident_bytes = resident_file_bytes()

    def _is_over(self, nbytes: int) -> bool:
        return self.limit_bytes is not None and self._used_bytes + nbytes > self.limit_bytes

    def holds(self, address: int) -> bool:
        """Return whether a memory address is inside the mapping of a scratch file."""
        with self._lock:
            at = bisect.bisect_right(self._starts, address) - 1
            return at >= 0 and address < self._ends[self._starts[at]]

    def _write(
        self,
        nbytes: int,
        write: Callable[[BinaryIO], object],
        usage: Usage | None = None,
        *,
        writes: bool = False,
    ) -> pa.Buffer:
        if self._is_over(nbytes):
            raise ScratchFullError(self.folder, nbytes, f"its limit is {self.limit_bytes} bytes")
        try:
            number, path = tempfile.mkstemp(prefix=_PREFIX, dir=self.folder)
            try:
                with os.fdopen(number, "wb") as file:
                    write(file)
                with open(path, "r+b" if writes else "rb") as file:
                    size = os.path.getsize(path)
                    self._written_bytes += size
                    return self._mapped(file.fileno(), size, usage, writes=writes)
            finally:
                os.unlink(path)
        except OSError as error:
            if error.errno in _FULL:
                raise ScratchFullError(self.folder, nbytes, "its disk is full") from error
            advice = (_MORE_FILES,) if error.errno in _TOO_MANY else ()
            raise ScratchUnusableError(self.folder, str(error), *advice) from error

    def _mapped(
        self, number: int, size: int, usage: Usage | None, *, writes: bool = False
    ) -> pa.Buffer:
        prot = mmap.PROT_READ | (mmap.PROT_WRITE if writes else 0)
        pages = mmap.mmap(number, size, prot=prot)
        buffer = pa.py_buffer(pages)
        start, usage = buffer.address, usage or Usage()
        with self._lock:
            self._used_bytes += size
            usage.files, usage.nbytes = usage.files + 1, usage.nbytes + size
            # otherwise the earlier mapping at this address has ended, which is about to be recorded
            if start not in self._ends:
                bisect.insort(self._starts, start)
            self._ends[start] = start + size
            self._owners[start] = owner = next(self._numbers)
            self._maps.add(pages)
        weakref.finalize(pages, self._free, start, size, owner, usage)
        return buffer

    def _free(self, start: int, size: int, owner: int, usage: Usage) -> None:
        """Remove a mapping. Another mapping may have its addresses by now."""
        with self._lock:
            self._used_bytes -= size
            usage.files, usage.nbytes = usage.files - 1, usage.nbytes - size
            if self._owners.get(start) == owner:
                del self._starts[bisect.bisect_left(self._starts, start)]
                del self._ends[start], self._owners[start]


def resident_file_bytes() -> int:
    """Return the bytes of mapped files in this process's memory; 0 without ``/proc``."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[2]) * mmap.PAGESIZE
    except (OSError, IndexError, ValueError):
        return 0


def _write_stream(file: BinaryIO, batches: Sequence[pa.RecordBatch]) -> None:
    """Write one IPC stream; dictionaries may differ from batch to batch."""
    with pa.ipc.new_stream(file, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
