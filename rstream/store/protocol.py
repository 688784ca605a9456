"""The protocol of a blob store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

#: The stores have a method called ``list``.
Paths = list[str]


class BlobStore(Protocol):
    """A folder of blobs; paths are relative to it and use ``/``."""

    @property
    def uri(self) -> str:
        """Where it is, for messages and for opening it again."""

    def put(self, path: str, data: bytes | pa.Buffer) -> None:
        """Write the whole blob; it becomes visible at once or not at all."""

    def put_new(self, path: str, data: bytes | pa.Buffer) -> bool:
        """Write the whole blob unless there is one; whether the blob there is this one.

        A retry may find what its own first attempt left: equal content counts as won, so writers
        that must tell who won put something of their own into it.
        """

    def get(self, path: str) -> bytes:
        """The whole blob. Raises FileNotFoundError if there is none."""

    def get_many(self, paths: Sequence[str]) -> Sequence[bytes | None]:
        """Whole blobs, several at once; None for one that is not there."""

    def open(self, path: str) -> pa.NativeFile:
        """A seekable file to read from. Raises FileNotFoundError if there is none."""

    def list(self, folder: str = "") -> Paths:
        """Paths of all blobs below ``folder``, sorted; empty if there is no such folder."""

    def delete(self, path: str) -> None:
        """Remove the blob; nothing happens if there is none."""

    def exists(self, path: str) -> bool:
        """Whether there is such a blob."""

    def size(self, path: str) -> int:
        """Bytes of the blob. Raises FileNotFoundError if there is none."""

    def child(self, folder: str) -> BlobStore:
        """The store rooted at a folder of this one."""
