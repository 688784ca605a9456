"""The store as one process sees it: it fails, is slow, and interrupts writes by a process's death.

Puts are atomic, as a BlobStore promises: an interrupted write leaves a temporary file and a dead
process. Through ``on_put`` and ``on_delete`` the checkers see everything that becomes durable.

Each process has its own machine. A power failure there loses data that its puts did not sync: a
file has its former content or is empty, and a deletion may be undone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rstream.errors import StoreError
from rstream.store.local_files import TEMPORARY
from rstream.store.memory_blobs import MemoryBlobs
from streamscope.testing.simulation.scheduler import CrashedError, Process, Scheduler

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    import pyarrow as pa

SCHEME = "blobs://"
DELIVERIES = "deliveries"
#: Share of unsynced blobs that a power failure loses.
LOST_RATE = 0.7


@dataclass(frozen=True)
class Unsynced:
    """What a power failure undoes of a blob: its name (back to ``was``), its content, or both."""

    machine: str
    was: bytes | None
    name: bool
    content: bool


@dataclass
class Disk:
    """The data that survive the death of processes."""

    world: Scheduler
    on_put: Callable[[str, bytes], None]
    on_delete: Callable[[str], None]
    blobs: dict[str, bytes] = field(default_factory=dict)
    #: Current share of operations that fail.
    error_rate: float = 0.0
    #: By process: operations until it dies inside one, and when: before, torn, after.
    mines: dict[str, tuple[int, str]] = field(default_factory=dict)
    unsynced: dict[str, Unsynced] = field(default_factory=dict)
    #: The process of the last put.
    writer: str = ""
    #: By process and partition of a live log: the end of the fetched rows.
    fetched: dict[tuple[str, int], int] = field(default_factory=dict)
    #: By process: when it last checked the deliveries of other processes, s.
    looked_s: dict[str, float] = field(default_factory=dict)
    #: Called before each operation; a blocking operation may wait in it.
    breathe: Callable[[], None] = lambda: None

    def note_unsynced(self, full: str, machine: str, *, name: bool, content: bool) -> None:
        """Record a blob's current state before an operation that does not sync name or content."""
        before = self.unsynced.pop(full, None)
        if name or content:
            survives = self.blobs.get(full) if before is None or not before.name else before.was
            self.unsynced[full] = Unsynced(machine, survives, name=name, content=content)

    def lose_power(self, machines: Collection[str]) -> int:
        """Cut the power of these machines; return the number of blobs that changed by it."""
        lost = 0
        for full in sorted(f for f, u in self.unsynced.items() if u.machine in machines):
            blob = self.unsynced.pop(full)
            if not self.world.chance(LOST_RATE):
                continue  # the operating system had written it before the failure
            lost += 1
            if blob.content and full in self.blobs and self.world.chance(0.5):
                self.blobs[full] = b""
            elif blob.was is not None:
                self.blobs[full] = blob.was
            else:
                self.blobs.pop(full, None)
                self.on_delete(full)
            self.world.note(f"power: {full} is not as it was")
        return lost


class FaultyBlobs(MemoryBlobs):
    """A folder of the disk, used by one process."""

    #: Whether a put syncs content and names before it returns; some planted bugs do not.
    syncs_content = syncs_names = True

    def __init__(self, disk: Disk, process: Process, root: str = "", *, fsync: bool = True) -> None:
        super().__init__(disk.blobs, root)
        self._disk, self._process, self._fsync = disk, process, fsync

    def put(self, path: str, data: bytes | pa.Buffer) -> None:
        self._disk.breathe()
        self._put(path, data)

    def _put(self, path: str, data: bytes | pa.Buffer) -> None:
        full = self._root + path
        how = self._enter("put", full)
        if how in ("before", "torn"):
            if how == "torn":
                data = bytes(data)
                self.blobs[f"{full}.{self._process.name}{TEMPORARY}"] = data[: len(data) // 2]
            self._die(how, full)
        self._disk.world.note(f"{self._process.name} put {full}")
        name = not (self._fsync and self.syncs_names)
        content = not (self._fsync and self.syncs_content)
        self._disk.note_unsynced(full, self._process.name, name=name, content=content)
        super().put(path, data)
        self._disk.writer = self._process.name
        self._disk.on_put(full, bytes(data))
        if how:
            self._die(how, full)

    def put_new(self, path: str, data: bytes | pa.Buffer) -> bool:
        self._disk.breathe()
        existing = self.blobs.get(self._root + path)
        if existing is None:
            self._put(path, data)
            return True
        self._enter_reading("put_new", path)
        return existing == bytes(data)

    def get(self, path: str) -> bytes:
        self._enter_reading("get", path)
        return super().get(path)

    def list(self, folder: str = "") -> list[str]:
        self._enter_reading("list", folder)
        if folder == DELIVERIES:
            self._disk.looked_s[self._process.name] = self._disk.world.now_s
        return super().list(folder)

    def delete(self, path: str) -> None:
        self._disk.breathe()
        full = self._root + path
        how = self._enter("delete", full)
        if how and how != "after":
            self._die(how, full)
        if full in self.blobs:
            self._disk.note_unsynced(full, self._process.name, name=True, content=False)
            super().delete(path)
            if not full.endswith(TEMPORARY):
                self._disk.on_delete(full)
        if how:
            self._die(how, full)

    def exists(self, path: str) -> bool:
        self._enter_reading("exists", path)
        return super().exists(path)

    def child(self, folder: str) -> FaultyBlobs:
        root = f"{self._root}{folder.strip('/')}/"
        return FaultyBlobs(self._disk, self._process, root, fsync=self._fsync)

    def without_fsync(self) -> FaultyBlobs:
        return FaultyBlobs(self._disk, self._process, self._root, fsync=False)

    def _enter_reading(self, operation: str, path: str) -> None:
        if operation != "put_new":
            self._disk.breathe()
        if self._enter(operation, self._root + path):
            self._die("reading", path)

    def _enter(self, operation: str, full: str) -> str:
        """Begin an operation, which may fail; return how the process dies in it, or ""."""
        process, disk = self._process, self._disk
        if process.is_dead:
            raise CrashedError
        if process.name in disk.mines:
            left, how = disk.mines[process.name]
            disk.mines[process.name] = (left - 1, how)
            if left <= 0:
                del disk.mines[process.name]
                return how
        if disk.error_rate and disk.world.chance(disk.error_rate):
            disk.world.note(f"{process.name} {operation} {full} fails")
            disk.world.met["store: an operation fails"] += 1
            raise StoreError(full, "simulated failure")
        return ""

    def _die(self, how: str, full: str) -> None:
        self._disk.world.met[f"store: a process dies {how}"] += 1
        self._process.kill(f"died {how} {full}")
        raise CrashedError


def root_of(uri: str) -> str:
    """Return the key prefix of a simulated uri."""
    assert uri.startswith(SCHEME), uri
    root = uri.removeprefix(SCHEME).strip("/")
    return f"{root}/" if root else ""
