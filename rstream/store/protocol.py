"""The protocol of a blob store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

#: An alias of ``list[str]``, because the stores have a method called ``list``.
Paths = list[str]


class BlobStore(Protocol):
    """A folder of blobs; paths are relative to the folder and use ``/``."""

    @property
    def uri(self) -> str:
        """The store's address, for messages and to open it again."""

    def put(self, path: str, data: bytes | pa.Buffer) -> None:
        """Write the blob atomically: it becomes visible completely or not at all."""

    def put_new(self, path: str, data: bytes | pa.Buffer) -> bool:
        """Write the blob unless it exists; return whether the existing blob is equal.

        A retry may find the blob of its own first attempt, so equal content counts as success.
        Writers that must know which of them succeeded include a unique value in the content.
        """

    def get(self, path: str) -> bytes:
        """Return the content of a blob. Raises FileNotFoundError if it does not exist."""

    def get_many(self, paths: Sequence[str]) -> Sequence[bytes | None]:
        """Return the contents of these blobs; None for a missing blob."""

    def open(self, path: str) -> pa.NativeFile:
        """Open a blob for random reads. Raises FileNotFoundError if it does not exist."""

    def list(self, folder: str = "") -> Paths:
        """List the paths of all blobs below ``folder``, sorted; empty if there are none."""

    def delete(self, path: str) -> None:
        """Delete the blob, if it exists."""

    def exists(self, path: str) -> bool:
        """Return whether the blob exists."""

    def size(self, path: str) -> int:
        """Return the bytes of the blob. Raises FileNotFoundError if it does not exist."""

    def child(self, folder: str) -> BlobStore:
        """Return a store for a folder of this one."""
