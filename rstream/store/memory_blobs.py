"""A store in memory, for tests and simulation."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from rstream.store.local_files import TEMPORARY

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from rstream.store.protocol import BlobStore, Paths


class MemoryBlobs:
    """A store in a dictionary, which ``child`` shares."""

    def __init__(self, blobs: dict[str, bytes] | None = None, root: str = "") -> None:
        self.blobs: dict[str, bytes] = {} if blobs is None else blobs
        self._root = root

    @property
    def uri(self) -> str:
        return f"blobs://{self._root}"

    def put(self, path: str, data: bytes | pa.Buffer) -> None:
        self.blobs[self._root + path] = bytes(data)

    def put_new(self, path: str, data: bytes | pa.Buffer) -> bool:
        content = bytes(data)
        return self.blobs.setdefault(self._root + path, content) == content

    def get(self, path: str) -> bytes:
        try:
            return self.blobs[self._root + path]
        except KeyError:
            raise FileNotFoundError(path) from None

    def get_many(self, paths: Sequence[str]) -> Sequence[bytes | None]:
        return [get_or_none(self, path) for path in paths]

    def open(self, path: str) -> pa.NativeFile:
        import pyarrow as pa

        return pa.BufferReader(self.get(path))

    def list(self, folder: str = "") -> Paths:
        prefix = self._root + (folder.rstrip("/") + "/" if folder else "")
        names = (name for name in list(self.blobs) if name.startswith(prefix))
        return sorted(n[len(self._root) :] for n in names if not n.endswith(TEMPORARY))

    def temporaries(self) -> Paths:
        """Return the temporary files of crashed puts."""
        names = (n for n in list(self.blobs) if n.startswith(self._root))
        return sorted(n[len(self._root) :] for n in names if n.endswith(TEMPORARY))

    def delete(self, path: str) -> None:
        self.blobs.pop(self._root + path, None)

    def exists(self, path: str) -> bool:
        return self._root + path in self.blobs

    def size(self, path: str) -> int:
        return len(self.get(path))

    def without_fsync(self) -> MemoryBlobs:
        """See :func:`unsynced`."""
        return self

    def child(self, folder: str) -> MemoryBlobs:
        return MemoryBlobs(self.blobs, f"{self._root}{folder.strip('/')}/")


def get_or_none(store: BlobStore, path: str) -> bytes | None:
    """Return the content of a blob; None if it does not exist."""
    with contextlib.suppress(FileNotFoundError):
        return store.get(path)
    return None
