"""A store on which a callback runs before one of its calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rstream import MemoryBlobs

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from rstream.store.protocol import Paths


class Interrupted(MemoryBlobs):
    """A view of ``blobs``; ``act`` runs before its call number ``at``, from 0."""

    def __init__(
        self, blobs: dict[str, bytes], at: int, act: Callable[[], object], root: str = ""
    ) -> None:
        super().__init__(blobs, root)
        self._at, self._act, self.calls = at, act, 0

    def child(self, folder: str) -> Interrupted:
        """Return a view of a folder that shares the count of calls."""
        self._root += f"{folder}/"
        return self

    def _enter(self) -> None:
        self.calls += 1
        if self.calls == self._at + 1:
            self._act()

    def put(self, path: str, data: bytes | pa.Buffer) -> None:
        self._enter()
        super().put(path, data)

    def put_new(self, path: str, data: bytes | pa.Buffer) -> bool:
        self._enter()
        return super().put_new(path, data)

    def get(self, path: str) -> bytes:
        self._enter()
        return super().get(path)

    def list(self, folder: str = "") -> Paths:
        self._enter()
        return super().list(folder)

    def exists(self, path: str) -> bool:
        self._enter()
        return super().exists(path)

    def delete(self, path: str) -> None:
        self._enter()
        super().delete(path)
