"""A store that a loss of power can be simulated with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rstream.store.memory_blobs import MemoryBlobs

if TYPE_CHECKING:
    import pyarrow as pa


class Synced(MemoryBlobs):
    """A store that records what was made durable."""

    def __init__(self, on_disk: dict[str, bytes], *, fsync: bool = True) -> None:
        super().__init__()
        self.on_disk, self._fsync = on_disk, fsync

    def put(self, path: str, data: bytes | pa.Buffer) -> None:
        super().put(path, data)
        if self._fsync:
            self.on_disk[path] = bytes(data)

    def without_fsync(self) -> Synced:
        return Synced(self.on_disk, fsync=False)
